// The value range of each tensor at a step.

import { statisticAt, type Matrix } from "../../lib/values/node-colors";

/** Minimum, p5, median, p95 and maximum; NaN if unknown. */
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
