// Axes: map numbers to positions and choose ticks.

import type { Numbers } from "./decimate";
import { short } from "../formatting";

/** Range of the finite numbers, and the smallest nonzero magnitude. */
export interface Extent {
  readonly low: number;
  readonly high: number;
  readonly tiny: number;
}

export interface Axis {
  readonly low: number;
  readonly high: number;
  readonly ticks: readonly number[];
  /** Maps a number to a position, in the units of the axis. */
  forward(value: number): number;
  /** Maps a position to its number. */
  backward(place: number): number;
}

/** The extent of some of the numbers; null if none of them is finite. */
export function extent(y: Numbers, places: Iterable<number>, known: Extent | null = null): Extent | null {
  let { low, high, tiny } = known ?? { low: Infinity, high: -Infinity, tiny: Infinity };
  for (const place of places) {
    const value = y[place];
    if (!Number.isFinite(value)) continue;
    if (value < low) low = value;
    if (value > high) high = value;
    const size = Math.abs(value);
    if (size > 0 && size < tiny) tiny = size;
  }
  return low <= high ? { low, high, tiny: Number.isFinite(tiny) ? tiny : 1 } : null;
}

/** Maximum number of powers of ten below the largest value on a log scale that reaches zero. */
const DEEPEST = 12;

/** The axis for numbers of this extent, with some padding and about `n` ticks. */
export function axisOf(extent: Extent | null, isLog: boolean, n = 4): Axis {
  const { low, high, tiny } = extent ?? { low: 0, high: 1, tiny: 1 };
  if (!isLog) return linear(low, high, n);
  if (low > 0) return logarithmic(low, high, n);
  if (high < 0) return mirrored(logarithmic(-high, -low, n));
  return symmetric(low, high, Math.max(tiny, Math.max(-low, high) * 10 ** -DEEPEST), n);
}

function linear(low: number, high: number, n: number): Axis {
  const room = (high - low) * 0.06 || Math.abs(high) * 0.1 || 1;
  // Padding must not make nonnegative data look as if it could be negative.
  const [from, to] = [low >= 0 && low - room < 0 ? 0 : low - room, high <= 0 && low < 0 && high + room > 0 ? 0 : high + room];
  const same = (value: number): number => value;
  return { low: from, high: to, ticks: rounds(from, to, n), forward: same, backward: same };
}

function logarithmic(low: number, high: number, n: number): Axis {
  const room = Math.max(0.02, Math.log10(high / low) * 0.06);
  const [from, to] = [10 ** (Math.log10(low) - room), 10 ** (Math.log10(high) + room)];
  return { low: from, high: to, ticks: powers(from, to, n), forward: Math.log10, backward: (place) => 10 ** place };
}

function mirrored({ low, high, ticks, forward, backward }: Axis): Axis {
  return {
    low: -high, high: -low, ticks: ticks.map((tick) => -tick).reverse(),
    forward: (value) => -forward(-value), backward: (place) => -backward(-place),
  };
}

/** Logarithmic on both sides of zero, linear in between. */
function symmetric(low: number, high: number, linearTo: number, n: number): Axis {
  const forward = (value: number): number => Math.sign(value) * Math.log10(1 + Math.abs(value) / linearTo);
  const backward = (place: number): number => Math.sign(place) * linearTo * (10 ** Math.abs(place) - 1);
  const room = (forward(high) - forward(low)) * 0.05 || 0.1;
  const [from, to] = [backward(forward(low) - room), backward(forward(high) + room)];
  const side = (end: number): number[] => (end > linearTo ? powers(linearTo, end, Math.max(1, Math.ceil(n / 2))) : []);
  const [under, over] = [side(-from).map((tick) => -tick).reverse(), side(to)];
  const near = (forward(to) - forward(from)) * 0.09; // those next to zero would stand on it
  const ticks = [...under, 0, ...over].filter((tick) => tick >= from && tick <= to && (tick === 0 || Math.abs(forward(tick)) > near));
  return { low: from, high: to, ticks, forward, backward };
}

/** About `n` round numbers. */
export function rounds(low: number, high: number, n: number): number[] {
  const rough = (high - low) / Math.max(1, n);
  if (!(rough > 0) || !Number.isFinite(rough)) return [low];
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * ([1, 2, 2.5, 5, 10].find((factor) => factor * power >= rough * 0.8) ?? 10);
  const first = Math.ceil(low / step - 1e-9);
  const last = Math.floor(high / step + 1e-9);
  return Array.from({ length: Math.max(0, last - first + 1) }, (_, i) => tidy((first + i) * step, step));
}

/** About `n` powers of ten; with few of them also 2 and 5 of each, and within one power any round number. */
export function powers(low: number, high: number, n: number): number[] {
  const [first, last] = [Math.ceil(Math.log10(low) - 1e-9), Math.floor(Math.log10(high) + 1e-9)];
  if (last - first >= 2 || (last - first === 1 && n <= 3)) {
    const step = Math.max(1, Math.ceil((last - first + 1) / Math.max(1, n)));
    const start = Math.ceil(first / step) * step;
    return Array.from({ length: Math.max(0, Math.floor((last - start) / step) + 1) }, (_, i) => 10 ** (start + i * step));
  }
  for (const factors of [[1, 2, 5], [1, 1.5, 2, 3, 4, 5, 6, 8]]) {
    const found: number[] = [];
    for (let power = first - 1; power <= last; power++) {
      for (const factor of factors) found.push(Number((factor * 10 ** power).toPrecision(3)));
    }
    const inside = found.filter((tick) => tick >= low && tick <= high);
    if (inside.length >= Math.min(3, n)) return inside;
  }
  return rounds(low, high, n);
}

/** Tick labels; powers of ten in exponent form where some would be too long. */
export function tickTexts(ticks: readonly number[]): string[] {
  const isPower = (tick: number): boolean => tick === 0 || Number.isInteger(Number(Math.log10(Math.abs(tick)).toFixed(9)));
  const isLong = (tick: number): boolean => tick !== 0 && (Math.abs(tick) >= 1e4 || Math.abs(tick) < 1e-3);
  if (!ticks.every(isPower) || !ticks.some(isLong)) return ticks.map(short);
  return ticks.map((tick) => (isLong(tick) ? `${tick < 0 ? "−" : ""}1e${String(Math.round(Math.log10(Math.abs(tick)))).replace("-", "−")}` : short(tick)));
}

/** Removes the rounding errors of repeated addition. */
function tidy(value: number, step: number): number {
  return Number(value.toFixed(Math.max(0, Math.min(100, 2 - Math.floor(Math.log10(step)))))) || 0;
}
