// The shared axis of value ranges: linear, or logarithmic on both sides of zero. A few extreme values do not squeeze the others.

import { rounds } from "./axes";

export interface Axis {
  readonly low: number;
  readonly high: number;
  /** Magnitude below which the axis is linear; Infinity for a linear axis. */
  readonly knee: number;
}

/** Symmetric logarithm: linear near zero, logarithmic beyond. */
export function symlog(value: number, knee: number): number {
  return knee === Infinity ? value : Math.sign(value) * Math.log1p(Math.abs(value) / knee);
}

/** The linear threshold of the axis: below nearly all of these values. */
export function kneeOf(values: Iterable<number>): number {
  const sizes = Float64Array.from(values, Math.abs).filter((size) => Number.isFinite(size) && size !== 0).sort();
  if (!sizes.length) return 1;
  // A few extreme magnitudes must not squeeze all others into one point.
  return Math.max(sizes[Math.floor(sizes.length * 0.05)], sizes[sizes.length - 1] * 1e-9);
}

/** Logarithmic if the largest magnitude is this many times the smallest (the 5th percentile). */
const DECADES = 1000;
/** Values this many times as large as most (the 75th percentile) do not set the limits. */
const FAR = 1e4;

/**
 * The axis of these values, which always includes zero and has a nonzero width.
 *
 * `isLog` is what the reader chose; null leaves it to the values.
 */
export function axisOf(values: Iterable<number>, isLog: boolean | null = null): Axis {
  const finite = Float64Array.from([...values].filter(Number.isFinite));
  const sizes = finite.map(Math.abs).filter((size) => size !== 0).sort();
  if (!sizes.length) return { low: -1, high: 1, knee: Infinity };
  const most = FAR * sizes[Math.floor((sizes.length - 1) * 0.75)];
  let [low, high] = [0, 0];
  for (const value of finite) if (Math.abs(value) <= most) [low, high] = [Math.min(low, value), Math.max(high, value)];
  const knee = kneeOf(sizes.filter((size) => size <= most));
  return { low, high, knee: isLog ?? Math.max(-low, high) >= DECADES * knee ? knee : Infinity };
}

/** Position of a value on an axis, clamped to 0 … 1. */
export function along({ low, high, knee }: Axis, value: number): number {
  const [from, to] = [symlog(low, knee), symlog(high, knee)];
  return Math.max(0, Math.min(1, (symlog(value, knee) - from) / (to - from)));
}

/** Powers of ten that fit the axis, or round numbers if it is linear, and zero; none nearer to the next than `gap`, a share of the axis. */
export function ticks(axis: Axis, gap: number): number[] {
  const { low, high, knee } = axis;
  if (knee === Infinity) return rounds(low, high, Math.max(1, Math.floor(0.8 / gap)));
  const out = [0];
  const most = Math.max(-low, high);
  for (const sign of [1, -1]) {
    const end = sign > 0 ? high : -low;
    let last = along(axis, 0);
    for (let power = Math.ceil(Math.log10(knee)); 10 ** power <= Math.min(end, most); power++) {
      const at = along(axis, sign * 10 ** power);
      if (Math.abs(at - last) < gap) continue;
      out.push(sign * 10 ** power);
      last = at;
    }
  }
  return out.sort((a, b) => a - b);
}
