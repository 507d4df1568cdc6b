// Curves prepared for drawing: decimated, smoothed, on one axis. Values at the cursor are read from the full data.

import { axisOf, extent, type Axis, type Extent } from "./axes";
import type { ChartScale } from "./chart-scale";
import { decimate, nearest, type Numbers } from "./decimate";
import { smooth } from "./smooth";

/** One curve. `x` ascends; what is not finite in `y` is a gap. */
export interface Line {
  readonly key: string;
  readonly name: string;
  /** A CSS color; may be a variable. */
  readonly color: string;
  /** Of its run, drawn at its end; "" or missing for none. */
  readonly letter?: string;
  /** Dash pattern of its kind of step; solid by default. */
  readonly dash?: readonly number[];
  readonly x: Numbers;
  readonly y: Numbers;
  /** Ends of the band around a mean. */
  readonly band?: { readonly low: Numbers; readonly high: Numbers };
}

export interface ChartOptions {
  /** The zoomed range of x; null for all. */
  readonly zoom: readonly [number, number] | null;
  /** Room in pixels. */
  readonly width: number;
  readonly scale: ChartScale;
  /** How much older points count, from 0 (no smoothing) to 1. */
  readonly smoothing: number;
  /** Approximate number of y ticks. */
  readonly nTicks?: number;
}

/** Positions on the y axis: null for a gap, undefined where only another curve has a point (the convention of uPlot). */
export type Column = (number | null | undefined)[];

export interface ChartData {
  readonly low: number;
  readonly high: number;
  readonly y: Axis;
  readonly xs: number[];
  /** Per line: the raw and the drawn values; equal without smoothing. */
  readonly raw: readonly Column[];
  readonly drawn: readonly Column[];
  /** Per line: the ends of its band; null for none. */
  readonly bands: readonly ({ readonly low: Column; readonly high: Column } | null)[];
  /** Lines that leave the axis, each with the x at which it first does. */
  readonly left: readonly Departure[];
  /** Where a line has values that are not finite, by x. */
  readonly broken: readonly number[];
  readonly isEmpty: boolean;
}

/** A line beyond the limits of the axis. */
export interface Departure {
  readonly line: number;
  readonly x: number;
  readonly isAbove: boolean;
  /** The value farthest away. */
  readonly farthest: number;
}

/** Cache of smoothed curves, so that a zoom does not smooth again. */
const smoothedCache = new WeakMap<object, { weight: number; y: Float64Array }>();

/** Numbers of a curve as they are drawn. */
export function drawnOf(y: Numbers, smoothing: number): Numbers {
  if (!(smoothing > 0)) return y;
  const known = smoothedCache.get(y);
  if (known?.weight === smoothing) return known.y;
  const made = { weight: smoothing, y: smooth(y, smoothing) };
  smoothedCache.set(y, made);
  return made.y;
}

/** From the first x to the last of all lines. */
export function xRange(lines: readonly Line[]): [number, number] {
  let [low, high] = [Infinity, -Infinity];
  for (const { x } of lines) {
    if (!x.length) continue;
    low = Math.min(low, x[0]);
    high = Math.max(high, x[x.length - 1]);
  }
  return low <= high ? [low, high] : [0, 1];
}

export function chartData(lines: readonly Line[], { zoom, width, scale, smoothing, nTicks = 4 }: ChartOptions): ChartData {
  let [low, high] = zoom ?? xRange(lines);
  if (low === high) [low, high] = [low - 0.5, high + 0.5];
  // One interval per pixel: more points would not be visible.
  const stretches = Math.max(50, Math.floor(width));
  const places = lines.map(({ x, y, band }) => {
    const kept = [y, ...(band ? [band.low, band.high] : [])].map((numbers) => decimate(x, numbers, low, high, stretches));
    // A band needs its three columns at the same places.
    return kept.length === 1 ? kept[0] : [...new Set(kept.flat())].sort((a, b) => a - b);
  });
  let known: Extent | null = null;
  lines.forEach(({ key, x, y, band }, i) => {
    if (scale.above.has(key) || scale.below.has(key)) return;
    // Neighbors beyond the edges are drawn, but must not stretch the y axis.
    const seen = places[i].filter((place) => x[place] >= low && x[place] <= high);
    for (const numbers of [y, ...(band ? [band.low, band.high] : [])]) known = extent(numbers, seen, known);
  });
  // Every line may have left it within the zoomed range.
  if (known === null) lines.forEach(({ y }, i) => { known = extent(y, places[i], known); });
  const axis = axisOf(known, scale.isLog, nTicks);
  const xs = [...new Set(lines.flatMap(({ x }, i) => places[i].map((place) => x[place])))].sort((a, b) => a - b);
  const at = new Map(xs.map((x, column) => [x, column]));
  const column = ({ x }: Line, y: Numbers, own: readonly number[]): Column => {
    const out: Column = new Array<undefined>(xs.length).fill(undefined);
    for (const place of own) out[at.get(x[place])!] = Number.isFinite(y[place]) ? axis.forward(y[place]) : null;
    return out;
  };
  const raw = lines.map((line, i) => column(line, line.y, places[i]));
  const drawn = smoothing > 0 ? lines.map((line, i) => column(line, drawnOf(line.y, smoothing), places[i])) : raw;
  const bands = lines.map((line, i) => line.band === undefined ? null : {
    low: column(line, drawnOf(line.band.low, smoothing), places[i]), high: column(line, drawnOf(line.band.high, smoothing), places[i]),
  });
  const broken = lines.flatMap(({ x, y }, i) => places[i].filter((place) => !Number.isFinite(y[place])).map((place) => x[place]));
  const left = lines.flatMap((line, i) => departure(line, i, places[i], axis, [low, high]) ?? []);
  return { low, high, y: axis, xs, raw, drawn, bands, left, broken: [...new Set(broken)], isEmpty: known === null };
}

function departure({ x, y }: Line, line: number, places: readonly number[], { low, high }: Axis, [from, to]: readonly [number, number]): Departure | null {
  const out = places.filter((place) => Number.isFinite(y[place]) && (y[place] < low || y[place] > high) && x[place] >= from && x[place] <= to);
  if (!out.length) return null;
  const isAbove = out.some((place) => y[place] > high);
  const farthest = out.reduce((most, place) => (isAbove ? Math.max(most, y[place]) : Math.min(most, y[place])), y[out[0]]);
  return { line, x: x[out[0]], isAbove, farthest };
}

/** The stretches of a band between gaps; undefined entries are no gaps. */
export function stretches(low: Column, high: Column): number[][] {
  const found: number[][] = [[]];
  low.forEach((value, place) => {
    if (value === undefined) return;
    if (value === null || high[place] == null) found.push([]);
    else found[found.length - 1].push(place);
  });
  return found.filter((places) => places.length);
}

/** Points of a column with no neighbor to draw a line to. */
export function isolatedPoints(column: Column): number[] {
  const own = column.flatMap((value, place) => (value === undefined ? [] : [place]));
  const isPoint = (i: number): boolean => i >= 0 && i < own.length && column[own[i]] !== null;
  return own.filter((_, i) => isPoint(i) && !isPoint(i - 1) && !isPoint(i + 1));
}

/** The readout of a line near an x. */
export interface Reading {
  readonly line: number;
  readonly x: number;
  readonly value: number;
  /** The smoothed value, if different. */
  readonly smooth: number | null;
  /** The ends of its band, if it has one with a width. */
  readonly band: readonly [number, number] | null;
}

/** The x of a point of any line that is nearest to a place; null if there is none. */
export function nearestX(lines: readonly Line[], x: number): number | null {
  let best: number | null = null;
  for (const line of lines) {
    const place = nearest(line.x, x);
    if (place >= 0 && (best === null || Math.abs(line.x[place] - x) < Math.abs(best - x))) best = line.x[place];
  }
  return best;
}

/** The readout of each visible line at an x: its nearest point within `far`. */
export function readings(lines: readonly Line[], x: number, far: number, smoothing = 0): Reading[] {
  return lines.flatMap((line, number) => {
    const place = nearest(line.x, x);
    if (place < 0 || Math.abs(line.x[place] - x) > far) return [];
    const smooth = smoothing > 0 ? drawnOf(line.y, smoothing)[place] : null;
    const { low, high } = line.band ?? { low: line.y, high: line.y };
    return [{ line: number, x: line.x[place], value: line.y[place], smooth, band: low[place] < high[place] ? [low[place], high[place]] : null }];
  });
}
