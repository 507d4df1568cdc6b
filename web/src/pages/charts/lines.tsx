// A line chart with confidence bands.

import { useState } from "preact/hooks";
import { Chart, type Frame } from "./chart";
import { toggled } from "../../lib/collections";
import { Key, Swatch } from "../legend";
import { exactNumber, type Maybe } from "../numbers";
import { nearest, paddedScale, scaleOf } from "./scale";
import { seriesColor } from "../colors";
import type { Line, Lines } from "../wire";

/** Up to this many points, a line also shows its points. */
const FEW = 40;

export function LinesBlock({ block }: { block: Lines }) {
  const [hidden, setHidden] = useState<ReadonlySet<number>>(new Set());
  const xs = block.x.filter((x): x is number => x !== null);
  const shown = block.lines.map((line, place) => ({ line, place })).filter(({ place }) => !hidden.has(place));
  if (!xs.length || !block.lines.length) return <p class="quiet">No points.</p>;
  const scale = scaleOf(xs[0], xs[xs.length - 1], block.is_log_x, 6);
  // Positions with names, such as sites, have no values between them.
  const x = xs.every(Number.isInteger) ? { ...scale, ticks: scale.ticks.filter(Number.isInteger) } : scale;
  const y = paddedScale(shown.flatMap(({ line }) => [...line.y, ...line.low, ...line.high]), 5);
  return (
    <>
      <Chart label={about(block)} xName={block.x_name} yName={block.y_name} x={x} y={y} n={xs.length}
        placeAt={(value) => nearest(block.x, value, x)} xOf={(place) => xs[place]}
        draw={(frame, at) => shown.map(({ line, place }) => <Drawn key={place} line={line} xs={xs} color={seriesColor(place)} frame={frame} at={at} />)}
        read={(at) => (
          <>
            <div class="tip-head">{block.x_name} {exactNumber(xs[at])}{block.x_names.length > 0 && <> <q>{block.x_names[at]}</q></>}</div>
            {shown.map(({ line, place }) => (
              <div class="tip-line" key={place}><Swatch place={place} isDashed={line.is_dashed} /><span>{line.name}</span>
                <b>{exactNumber(line.y[at])}</b>{line.low.length > 0 && line.high.length > 0 && <small>{exactNumber(line.low[at])} to {exactNumber(line.high[at])}</small>}</div>
            ))}
          </>
        )} />
      <Key names={block.lines.map(({ name }) => name)} dashes={block.lines.map(({ is_dashed }) => is_dashed)} hidden={hidden}
        onToggle={(place) => setHidden(toggled(hidden, place))} />
    </>
  );
}

function Drawn({ line, xs, color, frame, at }: { line: Line; xs: readonly number[]; color: string; frame: Frame; at: number }) {
  const value = at >= 0 ? line.y[at] : null;
  return (
    <g style={{ color }}>
      {line.low.length > 0 && line.high.length > 0 && <path class="band" d={band(xs, line.low, line.high, frame)} />}
      <path class="line" d={path(xs, line.y, frame)} stroke-dasharray={line.is_dashed ? "6 4" : undefined} />
      {xs.length <= FEW && line.y.map((y, place) => y !== null && <circle key={place} class="dot-of-line" cx={frame.x(xs[place])} cy={frame.y(y)} r={2.6} />)}
      {value !== null && value !== undefined && <circle class="dot-at" cx={frame.x(xs[at])} cy={frame.y(value)} r={4.5} />}
    </g>
  );
}

/** A line that is broken where a number is missing. */
export function path(xs: readonly number[], ys: readonly Maybe[], frame: Frame): string {
  let [text, isOn] = ["", false];
  ys.forEach((y, place) => {
    if (y !== null) text += `${isOn ? "L" : "M"}${frame.x(xs[place]).toFixed(1)} ${frame.y(y).toFixed(1)}`;
    isOn = y !== null;
  });
  return text;
}

/** The area between two lines, one piece for each stretch where both are known. */
export function band(xs: readonly number[], low: readonly Maybe[], high: readonly Maybe[], frame: Frame): string {
  const point = (place: number, y: number): string => `${frame.x(xs[place]).toFixed(1)} ${frame.y(y).toFixed(1)}`;
  let text = "";
  for (let first = 0; first < xs.length; first++) {
    let end = first;
    while (end < xs.length && low[end] !== null && high[end] !== null) end++;
    if (end === first) continue;
    const places = Array.from({ length: end - first }, (_, i) => first + i);
    text += `M${[...places.map((i) => point(i, high[i]!)), ...places.reverse().map((i) => point(i, low[i]!))].join("L")}Z`;
    first = end;
  }
  return text;
}

function about({ title, x_name, y_name, lines }: Lines): string {
  const ends = lines.slice(0, 4).map(({ name, y }) => `${name} ends at ${exactNumber(y[y.length - 1] ?? null)}`);
  return [title || `${y_name} by ${x_name}`, ...ends].join(". ");
}
