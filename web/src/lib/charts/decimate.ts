// Decimation of long curves: no more points than pixels, with the same appearance.

import { range } from "../collections";

/** Numbers in a row, of either precision. */
export type Numbers = Float32Array | Float64Array | readonly number[];

/**
 * Indices of the points between `low` and `high` to draw. Each of `n` equal intervals of x keeps its first, smallest,
 * largest and last point (M4 aggregation, Jugel et al. 2014), and a non-finite one if there is any. One neighbor on each
 * side is included, so that lines continue beyond the edge. `x` must ascend.
 */
export function decimate(x: Numbers, y: Numbers, low: number, high: number, n: number): number[] {
  const first = Math.max(0, below(x, low) - 1);
  const end = Math.min(x.length, below(x, high, true) + 1);
  if (end - first <= 4 * n) return range(first, end);
  const width = (high - low) / n || 1;
  const kept: number[] = [];
  let start = first;
  while (start < end) {
    const bucket = Math.floor((x[start] - low) / width);
    let stop = start + 1;
    while (stop < end && Math.floor((x[stop] - low) / width) === bucket) stop++;
    keep(y, start, stop, kept);
    start = stop;
  }
  return kept;
}

/** Add the points of one interval. */
function keep(y: Numbers, start: number, stop: number, kept: number[]): void {
  let [least, most, broken] = [-1, -1, -1];
  for (let i = start; i < stop; i++) {
    if (!Number.isFinite(y[i])) broken = broken < 0 ? i : broken;
    else {
      if (least < 0 || y[i] < y[least]) least = i;
      if (most < 0 || y[i] > y[most]) most = i;
    }
  }
  const found = [start, least, most, broken, stop - 1].filter((i) => i >= 0).sort((a, b) => a - b);
  for (const i of found) if (kept[kept.length - 1] !== i) kept.push(i);
}

/** Number of ascending values below a value, or below and at it (binary search). */
export function below(x: Numbers, value: number, orAt = false): number {
  let [low, high] = [0, x.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (x[middle] < value || (orAt && x[middle] === value)) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** The place of the ascending number that is nearest to a value; -1 if there is none. */
export function nearest(x: Numbers, value: number): number {
  const next = below(x, value);
  if (next === x.length) return x.length - 1;
  return next > 0 && value - x[next - 1] <= x[next] - value ? next - 1 : next;
}
