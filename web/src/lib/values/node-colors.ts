// The number behind the color of each node of a run: a statistic at one step, or its change since another step.

import { DIVERGING, position, type ColorScale } from "../colors";
import { quantityTitle } from "./quantity";
import { statisticOf, titleOf } from "./statistics";
import { kneeOf } from "../charts/symlog";
import { STATISTICS, type NodeRows, type RowView } from "../wire";

/** What a color cannot show: non-finite values, all zeros, or nothing recorded. */
export type Anomaly = "" | "nonfinite" | "zero" | "none";

/** All statistics of a step: row, statistic. NaN where there is none. */
export interface Matrix {
  readonly n_rows: number;
  readonly n_columns: number;
  readonly values: Float32Array;
  /** The robust z-scores of some of the statistics among the tensors of the same role: row, statistic. */
  readonly z?: { readonly names: readonly string[]; readonly values: Float32Array };
}

/** Selects one tensor per node. */
export interface TensorFilter {
  readonly of: string;
  readonly iteration: number;
  /** Within the iteration, from 1; 0 for any. */
  readonly pass: number;
  readonly part: string;
}

/** A number and an anomaly for every node. */
export interface NodeValues {
  readonly title: string;
  readonly isChange: boolean;
  readonly values: Float64Array;
  readonly anomalies: readonly Anomaly[];
  /** Number of elements of each tensor; NaN if unknown. */
  readonly counts: Float64Array;
  /** For a change, the statistic at both steps. */
  readonly ends?: { readonly then: Float64Array; readonly now: Float64Array };
}

/** Share of the smallest values that is clipped to the low end of the scale. */
const LEAST = 0.05;
const FAULTS = STATISTICS.filter(({ is_fault }) => is_fault).map(({ name }) => name);

export function isSigned(statistic: string): boolean {
  return statisticOf(statistic).is_signed;
}

/** Node → the row of its selected tensor; -1 for none. A tensor without iterations belongs to all of them. */
export function rowsAt(nodes: readonly NodeRows[], rows: readonly RowView[], { of, iteration: wanted, pass, part }: TensorFilter): Int32Array {
  const known = new Map(rows.map((row) => [row.row, row]));
  return Int32Array.from(nodes, (node) => {
    const iteration = node.iteration || wanted;
    let [best, score] = [-1, 0];
    for (const number of node.rows) {
      const row = known.get(number);
      if (!row || row.of !== of) continue;
      const fits = row.iteration === iteration ? 3 : row.iteration === 0 || iteration === 0 ? 2 : 0;
      const isPass = row.pass_ === (node.pass_ || pass || 1);
      const own = fits && fits * 4 + (row.part === part ? 2 : 0) + (isPass ? 1 : 0);
      if (own > score) [best, score] = [number, own];
    }
    return best;
  });
}

/** One statistic of a row; NaN where the matrix has none. */
export function statisticAt({ n_rows, n_columns, values }: Matrix, row: number, column: number): number {
  return row >= 0 && row < n_rows && column >= 0 && column < n_columns ? values[row * n_columns + column] : NaN;
}

/** The robust z-score of a statistic of a row; NaN where there is none. */
export function zAt({ n_rows, z }: Matrix, row: number, statistic: string): number {
  const column = z?.names.indexOf(statistic) ?? -1;
  return z && column >= 0 && row >= 0 && row < n_rows ? z.values[row * z.names.length + column] : NaN;
}

/** The anomaly of a row. */
export function anomalyAt(matrix: Matrix, statistics: readonly string[], row: number): Anomaly {
  const of = (name: string): number => statisticAt(matrix, row, statistics.indexOf(name));
  if (row < 0 || row >= matrix.n_rows) return "none";
  if (FAULTS.some((name) => of(name) > 0)) return "nonfinite";
  if (of("abs_mean") === 0 || of("norm") === 0 || (of("min") === 0 && of("max") === 0)) return "zero";
  for (let column = 0; column < matrix.n_columns; column++) if (!Number.isNaN(statisticAt(matrix, row, column))) return "";
  return "none";
}

interface NodeValuesInput {
  readonly statistics: readonly string[];
  readonly statistic: string;
  readonly of: string;
  readonly matrix: Matrix;
  /** The step to compare with; null for the statistic itself. */
  readonly since: { readonly step: number; readonly matrix: Matrix } | null;
  /** The part of the batch, if not all of it: "sample 3". */
  readonly over?: string;
}

/** The numbers behind the colors; a change is the log2 of the ratio of magnitudes. */
export function nodeValues(rows: Int32Array, { statistics, statistic, of, matrix, since, over = "" }: NodeValuesInput): NodeValues {
  const column = statistics.indexOf(statistic);
  const anomalies = Array.from(rows, (row) => anomalyAt(matrix, statistics, row));
  const now = Float64Array.from(rows, (row) => statisticAt(matrix, row, column));
  const then = since && Float64Array.from(rows, (row) => statisticAt(since.matrix, row, column));
  const values = then ? now.map((value, node) => doublings(value, then[node])) : now;
  const counts = Float64Array.from(rows, (row) => statisticAt(matrix, row, statistics.indexOf("count")));
  const named = `${titleOf(statistic)} of the ${quantityTitle(of)}${over && `, ${over}`}`;
  return { title: since ? `${named}, change since step ${since.step.toLocaleString("en")}` : named, isChange: since !== null, values, anomalies, counts, ...(then && { ends: { then, now } }) };
}

/** No change from zero: biases start at zero, and their first update is no explosion. */
function doublings(now: number, then: number): number {
  return then === 0 ? (now === 0 ? 0 : NaN) : Math.log2(Math.abs(now) / Math.abs(then));
}

/** Median ratio between two sets of values; NaN if it is undefined. */
export function medianRatio(now: NodeValues, usually: NodeValues): number {
  const times = [...now.values].map((value, node) => Math.abs(value) / Math.abs(usually.values[node])).filter((ratio) => ratio > 0 && Number.isFinite(ratio));
  return times.sort((a, b) => a - b)[times.length >> 1] ?? NaN;
}

/**
 * The scale of these numbers: logarithmic for magnitudes, around zero for signed ones; null if there are none.
 *
 * @param isLoose nodes that are ignored if there are others: token ids are not comparable with activations.
 */
export function scaleFor({ values, isChange }: NodeValues, statistic: string, isLoose: (node: number) => boolean = () => false): ColorScale | null {
  const tight = [...values].filter((value, node) => Number.isFinite(value) && !isLoose(node));
  const finite = tight.length ? tight : [...values].filter(Number.isFinite);
  if (!finite.length) return null;
  if (isChange || isSigned(statistic)) {
    const most = finite.reduce((largest, value) => Math.max(largest, Math.abs(value)), 0);
    // A change by a factor of 2 is the smallest that gets a full color.
    if (isChange) return { low: -Math.max(1, most), high: Math.max(1, most), scale: "diverging", ramp: DIVERGING };
    return { low: -(most || 1), high: most || 1, scale: "symlog", knee: kneeOf(finite), ramp: DIVERGING };
  }
  const positive = finite.filter((value) => value > 0);
  if (!positive.length) return { low: 0, high: 1, scale: "linear", ramp: DIVERGING };
  // A few values near zero, such as unused biases, would leave a single color for all others.
  positive.sort((a, b) => a - b);
  const [low, high] = [positive[Math.floor(LEAST * positive.length)], positive.at(-1)!];
  return { low, high, scale: "log", ramp: DIVERGING };
}

/** A scale that covers both, so that a color keeps its meaning from step to step. */
export function joinScales(one: ColorScale | null, other: ColorScale | null): ColorScale | null {
  if (!one || !other || one.scale !== other.scale) return other ?? one;
  if (one.low <= other.low && one.high >= other.high) return one;
  return { ...other, low: Math.min(one.low, other.low), high: Math.max(one.high, other.high), knee: one.knee };
}

/** What a box shows for several nodes: the node with the largest magnitude, -1 for none, and its anomaly. */
export function foremost({ values, anomalies }: NodeValues, nodes: readonly number[]): { node: number; anomaly: Anomaly } {
  let best = -1;
  const met = new Set<Anomaly>();
  for (const node of nodes) {
    met.add(anomalies[node]);
    const value = values[node];
    if (!Number.isNaN(value) && (best < 0 || Math.abs(value) > Math.abs(values[best]))) best = node;
  }
  const anomaly = met.has("nonfinite") ? "nonfinite" : met.has("") ? "" : met.has("zero") ? "zero" : "none";
  return { node: best, anomaly };
}

/** Position of a number on a scale, from 0 to 1; null if the scale cannot show it. */
export function positionOn(scale: ColorScale | null, value: number): number | null {
  if (!scale || Number.isNaN(value) || (scale.scale === "log" && value <= 0)) return null;
  return position(scale, value);
}
