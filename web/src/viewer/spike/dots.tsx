// One number per sample as dots on a line, so that the one that is far from the others is seen.

import { short } from "../../lib/formatting";
import { titleOf } from "../../lib/values/statistics";
import type { ChangedSample, SampleStrip, WhatChanged } from "../../lib/wire";
import type { PanelProps } from "../panels/props";
import { nameOf, titleOfSample } from "./names";

const [WIDTH, HEIGHT, EDGE] = [560, 46, 12];
/** Values that span more than this factor are on a logarithmic scale. */
const SPAN = 20;

/** The least and the largest of the other samples; null if there are none. */
export function othersOf({ values }: SampleStrip, position: number): readonly [number, number] | null {
  const others = values.filter((value, place): value is number => value !== null && place !== position);
  return others.length ? [Math.min(...others), Math.max(...others)] : null;
}

export interface DotScale {
  readonly isLog: boolean;
  readonly ticks: readonly number[];
  x(value: number): number;
}

/** From the least to the largest value; logarithmic where positive values span more than a factor of 20. */
export function dotScale(values: readonly number[]): DotScale {
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const isLog = low > 0 && high / low > SPAN;
  const forward = (value: number): number => (isLog ? Math.log10(value) : value);
  const [from, to] = [forward(low), forward(high)];
  const x = (value: number): number => EDGE + (WIDTH - 2 * EDGE) * (to > from ? (forward(value) - from) / (to - from) : 0.5);
  const powers = isLog ? Array.from({ length: Math.floor(to) - Math.ceil(from) + 1 }, (_, i) => 10 ** (Math.ceil(from) + i)) : [];
  return { isLog, ticks: powers.length > 1 ? powers : low === high ? [low] : [low, high], x };
}

export function Dots({ run, strip, sample, isQuiet = false }: PanelProps & { view: WhatChanged; strip: SampleStrip; sample: ChangedSample | undefined; isQuiet?: boolean }) {
  const row = run.rows[strip.row];
  const known = strip.values.flatMap((value, place) => (value === null ? [] : [{ value, place }]));
  if (!row || known.length < 2) return null;
  const { x, isLog, ticks } = dotScale(known.map(({ value }) => value));
  const own = known.find(({ place }) => place === sample?.position);
  const isRight = own !== undefined && x(own.value) > WIDTH / 2;
  return (
    <figure class={`dots${isQuiet ? " quiet-dots" : ""}`}>
      <figcaption><b>{nameOf(row)}, {titleOf(strip.statistic)}</b> of each of the {strip.values.length} samples{isLog && ", log scale"}</figcaption>
      <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label={`${titleOf(strip.statistic)} of ${known.length} samples`}>
        <line x1={0} x2={WIDTH} y1={HEIGHT - 18} y2={HEIGHT - 18} />
        {ticks.map((tick) => <text key={tick} x={Math.min(WIDTH - 14, Math.max(14, x(tick)))} y={HEIGHT - 4} text-anchor="middle">{short(tick)}</text>)}
        {known.filter((each) => each !== own).map(({ value, place }) => <circle key={place} cx={x(value)} cy={6 + ((place * 7) % 16)} r={3}><title>{`sample ${place}: ${short(value)}`}</title></circle>)}
        {own && <circle class="own" cx={x(own.value)} cy={13} r={4.5}><title>{`sample ${own.place}: ${short(own.value)}`}</title></circle>}
        {own && sample && <text class="own" x={x(own.value) + (isRight ? -10 : 10)} y={17} text-anchor={isRight ? "end" : "start"}>{titleOfSample(sample)}</text>}
      </svg>
    </figure>
  );
}
