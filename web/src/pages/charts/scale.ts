// Scales of charts: number to position and back.

import { powers, rounds } from "../../lib/charts/axes";

export interface Scale {
  readonly low: number;
  readonly high: number;
  readonly ticks: readonly number[];
  /** From 0 (low) to 1 (high). */
  share(value: number): number;
  value(share: number): number;
}

/** A scale with about `n` ticks, logarithmic if requested and all numbers are positive. */
export function scaleOf(low: number, high: number, isLog: boolean, n: number): Scale {
  if (!(high > low)) [low, high] = widen(low);
  if (isLog && low > 0) {
    const all = Math.log(high / low);
    const ticks = powers(low, high, n).filter((tick) => tick >= low * (1 - 1e-9) && tick <= high * (1 + 1e-9));
    return { low, high, ticks, share: (value) => Math.log(value / low) / all, value: (share) => low * Math.exp(share * all) };
  }
  return { low, high, ticks: rounds(low, high, n), share: (value) => (value - low) / (high - low), value: (share) => low + share * (high - low) };
}

function widen(value: number): [number, number] {
  const room = Math.abs(value) * 0.1 || 1;
  return [value - room, value + room];
}

/** A scale with padding; it includes zero if all numbers have one sign and are near zero. */
export function paddedScale(values: Iterable<number | null>, n: number): Scale {
  let [low, high] = [Infinity, -Infinity];
  for (const value of values) if (value !== null) [low, high] = [Math.min(low, value), Math.max(high, value)];
  if (low > high) [low, high] = [0, 1];
  const room = (high - low) * 0.06 || Math.abs(high) * 0.1 || 1;
  const from = low >= 0 && low - room < (high - low) * 0.25 ? 0 : low - room;
  const to = high <= 0 && high + room > (low - high) * 0.25 ? 0 : high + room;
  return scaleOf(from, to, false, n);
}

/** The place of the number that is nearest to another on a scale; -1 for none. */
export function nearest(values: readonly (number | null)[], value: number, scale: Scale): number {
  let [best, far] = [-1, Infinity];
  values.forEach((one, place) => {
    if (one === null) return;
    const apart = Math.abs(scale.share(one) - scale.share(value));
    if (apart < far) [best, far] = [place, apart];
  });
  return best;
}
