// All tensors of a step beside each other: the range of each, and which of them stand apart from their like.

import { statisticAt, type Matrix } from "./tinting";

/** The smallest and largest value and what lies between; NaN where it is not known. */
export interface Range {
  readonly min: number;
  readonly low: number;
  readonly middle: number;
  readonly high: number;
  readonly max: number;
}

export function rangeAt(matrix: Matrix, statistics: readonly string[], row: number): Range {
  const of = (name: string): number => statisticAt(matrix, row, statistics.indexOf(name));
  return { min: of("min"), low: of("p5"), middle: of("p50"), high: of("p95"), max: of("max") };
}

/** Fewer than so many do not say what is usual. */
const FEW = 5;
/** Sizes within this factor of each other are alike, in decades, however alike all the others are. */
const ALIKE = 0.15;
/** A normal distribution has its standard deviation so many median deviations away. */
const PER_MAD = 1.4826;

/** How many robust deviations each number is from those of its group, by its power of ten; 0 where that says nothing. */
export function deviations(values: ArrayLike<number>, groups: readonly string[]): Float64Array {
  const members = new Map<string, number[]>();
  const sizes = Float64Array.from(values, (value) => Math.log10(Math.abs(value)));
  groups.forEach((group, i) => {
    if (!Number.isFinite(sizes[i])) return;
    const list = members.get(group);
    if (list) list.push(i);
    else members.set(group, [i]);
  });
  const out = new Float64Array(values.length);
  for (const list of members.values()) {
    if (list.length < FEW) continue;
    const middle = median(list.map((i) => sizes[i]));
    const spread = Math.max(ALIKE, PER_MAD * median(list.map((i) => Math.abs(sizes[i] - middle))));
    for (const i of list) out[i] = (sizes[i] - middle) / spread;
  }
  return out;
}

function median(values: number[]): number {
  const sorted = Float64Array.from(values).sort();
  const half = sorted.length >> 1;
  return sorted.length % 2 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
}
