// Histogram of the values of a tensor.

import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { exact, short } from "../../lib/formatting";
import type { Histogram as Counts } from "../../lib/wire";

const [WIDTH, HEIGHT] = [400, 74];

interface HistogramProps {
  readonly histogram: Counts;
  readonly title?: string;
  /** Whether the counts are shares, because only a sample was counted. */
  readonly areShares?: boolean;
  /** Logarithmic y axis; local state where the caller does not control it. */
  readonly isLog?: boolean;
  readonly onLog?: (isLog: boolean) => void;
  /** Drawn below the bars on the same axis, with positions from 0 to 1. */
  readonly below?: (place: (value: number) => number) => ComponentChildren;
}

export function Histogram({ histogram: { low, high, counts }, title = "distribution", areShares = false, ...kept }: HistogramProps) {
  const [own, setOwn] = useState(false);
  const [isLog, setLog] = kept.onLog ? [kept.isLog ?? false, kept.onLog] : [own, setOwn];
  const [over, setOver] = useState(-1);
  const scaled = counts.map((count) => (isLog ? Math.log1p(count) : count));
  const most = Math.max(...scaled, 1e-9);
  const step = WIDTH / counts.length;
  const edge = (bin: number): number => low + ((high - low) * bin) / counts.length;
  const zero = low < 0 && high > 0 ? (-low / (high - low)) * WIDTH : null;
  const describeBin = (bin: number): string => {
    const share = ((100 * counts[bin]) / all).toPrecision(2);
    return `${short(edge(bin))} to ${short(edge(bin + 1))}: ${areShares ? `${share} %` : `${counts[bin].toLocaleString("en")} (${share} %)`}`;
  };
  const all = counts.reduce((sum, count) => sum + count, 0);
  // Values close together need more digits.
  const end = short(low) === short(high) ? exact : short;
  return (
    <figure class="histogram">
      <figcaption>
        <span>{over >= 0 ? describeBin(over) : title}</span>
        <button type="button" class="toggle" aria-pressed={isLog} title="Logarithmic y axis" onClick={() => setLog(!isLog)}>log</button>
      </figcaption>
      <span class="histogram-top" title="Share of values in the tallest bar">{((100 * Math.max(...counts)) / Math.max(all, 1)).toPrecision(2)} %</span>
      <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" role="img"
        aria-label={`Histogram from ${short(low)} to ${short(high)}`} onPointerLeave={() => setOver(-1)}
        onPointerMove={(event) => {
          const { left, width } = event.currentTarget.getBoundingClientRect();
          setOver(Math.max(0, Math.min(counts.length - 1, Math.floor(((event.clientX - left) / width) * counts.length))));
        }}>
        {zero !== null && <line x1={zero} x2={zero} y1={0} y2={HEIGHT} class="zero" />}
        {scaled.map((count, bin) => {
          const height = count > 0 ? Math.max(1, (count / most) * (HEIGHT - 2)) : 0;
          const place = { x: (bin + 0.06) * step, y: HEIGHT - height, width: step * 0.88, height };
          return <rect key={bin} {...place} class={bin === over ? "over" : ""} />;
        })}
      </svg>
      {kept.below?.((value) => Math.max(0, Math.min(1, (value - low) / (high - low))))}
      <div class="axis">
        <span>{end(low)}</span>
        {zero !== null && zero > 60 && zero < WIDTH - 60 && <span class="at-zero" style={{ left: `${(100 * zero) / WIDTH}%` }}>0</span>}
        <span>{end(high)}</span>
      </div>
    </figure>
  );
}
