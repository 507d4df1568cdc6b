// A histogram with one outline per series on shared bins.

import { useState } from "preact/hooks";
import { counted } from "../../lib/formatting";
import { Chart, type Frame } from "./chart";
import { toggled } from "../../lib/collections";
import { Key, Swatch } from "../legend";
import { shortNumber, exactNumber, type Maybe } from "../numbers";
import { paddedScale, scaleOf } from "./scale";
import { seriesColor } from "../colors";
import type { Histogram } from "../wire";

export function HistogramBlock({ block }: { block: Histogram }) {
  const [hidden, setHidden] = useState<ReadonlySet<number>>(new Set());
  // Series rarely have equal totals: shares are comparable, counts are not.
  const [isShare, setShare] = useState(block.series.length > 1);
  const edges = block.edges.filter((edge): edge is number => edge !== null);
  const n = edges.length - 1;
  if (n < 1 || !block.series.length) return <p class="quiet">No bins.</p>;
  const totals = block.series.map(({ counts }) => counts.reduce<number>((sum, count) => sum + (count ?? 0), 0));
  const shown = block.series.map((series, place) => ({ ...series, place })).filter(({ place }) => !hidden.has(place));
  const height = (count: Maybe, place: number): number => (isShare ? (count ?? 0) / (totals[place] || 1) : count ?? 0);
  const x = scaleOf(edges[0], edges[n], false, 6);
  const y = paddedScale([0, ...shown.flatMap(({ counts, place }) => counts.map((count) => height(count, place)))], 4);
  return (
    <>
      {block.series.length > 1 && (
        <button type="button" class="toggle block-toggle" aria-pressed={isShare} title="Normalize each series to its own number of values" onClick={() => setShare(!isShare)}>normalize</button>
      )}
      <Chart label={about(block, totals)} xName={isShare ? "value (height: share of values)" : "value (height: number of values)"} yName="" x={x} y={y} n={n}
        placeAt={(value) => Math.max(0, Math.min(n - 1, edges.findIndex((edge) => edge > value) - 1 + (value >= edges[n] ? n + 1 : 0)))}
        xOf={(bin) => (edges[bin] + edges[bin + 1]) / 2}
        draw={(frame, at) => (
          <>
            {at >= 0 && <rect class="bin-at" x={frame.x(edges[at])} width={Math.max(1, frame.x(edges[at + 1]) - frame.x(edges[at]))} y={0} height={frame.height} />}
            {shown.map(({ counts, place }) => (
              <path key={place} class="outline" style={{ color: seriesColor(place) }} d={outline(edges, counts.map((count) => height(count, place)), frame)} />
            ))}
          </>
        )}
        read={(bin) => (
          <>
            <div class="tip-head">{shortNumber(edges[bin])} to {shortNumber(edges[bin + 1])}</div>
            {shown.map(({ name, counts, place }) => (
              <div class="tip-line" key={place}><Swatch place={place} /><span>{name}</span><b>{exactNumber(counts[bin])}</b>
                <small>{exactNumber((counts[bin] ?? 0) / (totals[place] || 1), true)}</small></div>
            ))}
          </>
        )} />
      <Key names={block.series.map(({ name }) => name)} hidden={hidden} onToggle={(place) => setHidden(toggled(hidden, place))} />
    </>
  );
}

/** The outline as steps that start and end at zero. */
export function outline(edges: readonly number[], heights: readonly number[], frame: Frame): string {
  const point = (x: number, y: number): string => `${frame.x(x).toFixed(1)} ${frame.y(y).toFixed(1)}`;
  const steps = heights.flatMap((height, bin) => [point(edges[bin], height), point(edges[bin + 1], height)]);
  return `M${[point(edges[0], 0), ...steps, point(edges[edges.length - 1], 0)].join("L")}Z`;
}

function about({ title, edges, series }: Histogram, totals: readonly number[]): string {
  const parts = series.map(({ name }, place) => `${name}: ${counted(totals[place], "value")}`);
  return [title || "Histogram", `from ${exactNumber(edges[0])} to ${exactNumber(edges[edges.length - 1])}`, ...parts.slice(0, 6)].join(". ");
}
