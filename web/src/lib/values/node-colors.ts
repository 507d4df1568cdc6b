// The number behind the color of each node of a run: a statistic at one step, or its change since another step.

import { DIVERGING, position, RISING, RISING_DARK, type ColorScale } from "../colors";
import { quantityTitle } from "./quantity";
import { titleOf } from "./statistics";
import { HOLDS_INF, HOLDS_MASK, HOLDS_MISSING, HOLDS_NAN, HOLDS_ZEROS, LEFT_OUT, type ColorLimits, type NodeRows, type RowView } from "../wire";

/** What a color cannot show: NaN, Inf, −Inf as in a mask, all zeros, no place on the scale (buffers, whole numbers), or nothing recorded. */
export type Anomaly = "" | "nan" | "inf" | "mask" | "zero" | "apart" | "none";

/** All statistics of a step: row, statistic. NaN where there is none. */
export interface Matrix {
  readonly n_rows: number;
  readonly n_columns: number;
  readonly values: Float32Array;
  /** By row, what the tensor holds: codes of the server. */
  readonly contents?: Uint8Array;
  /** The z-score of each number of a table; NaN for usual ones. */
  readonly z?: Float32Array;
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

const ANOMALIES: ReadonlyMap<number, Anomaly> = new Map([[HOLDS_MISSING, "none"], [HOLDS_NAN, "nan"], [HOLDS_INF, "inf"], [HOLDS_MASK, "mask"], [HOLDS_ZEROS, "zero"]] as const);

/** What a color cannot show of a row. */
export function anomalyAt({ contents, n_rows }: Matrix, row: number): Anomaly {
  if (!contents || row < 0 || row >= n_rows) return "none";
  return ANOMALIES.get(contents[row] & (LEFT_OUT - 1)) ?? (contents[row] & LEFT_OUT ? "apart" : "");
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
  const anomalies = Array.from(rows, (row) => anomalyAt(matrix, row));
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

/** A change by this many doublings has the full color: 16 times as much or as little. */
const DOUBLINGS = 4;

/** The scale of changes: around none, the same for all. */
export const CHANGES: ColorScale = { low: -DOUBLINGS, high: DOUBLINGS, scale: "diverging", ramp: DIVERGING };

/** The scale between the limits that the server computed: amounts rise from nothing, signed numbers have a middle. */
export function scaleBetween({ low, high, scale, knee }: Pick<ColorLimits, "low" | "high" | "scale" | "knee">, isDark: boolean): ColorScale {
  return { low, high, scale, knee, ramp: scale === "symlog" ? DIVERGING : isDark ? RISING_DARK : RISING };
}

/** The limits as text for the address, with the selection that they belong to. */
export function limitsText(selection: readonly string[], { low, high, scale, knee }: Pick<ColorLimits, "low" | "high" | "scale" | "knee">): string {
  return [...selection, scale, ...[low, high, knee].map((value) => String(Number(value.toPrecision(5))))].join("|");
}

/** The limits in the address; null if they belong to another selection, or are none. */
export function limitsIn(text: string, selection: readonly string[]): Pick<ColorLimits, "low" | "high" | "scale" | "knee"> | null {
  const parts = text.split("|");
  const [scale, ...numbers] = parts.slice(selection.length);
  const [low, high, knee] = numbers.map(Number);
  const isFit = selection.every((part, place) => parts[place] === part) && ["linear", "log", "symlog"].includes(scale);
  return isFit && [low, high, knee].every(Number.isFinite) && low <= high ? { low, high, scale: scale as ColorLimits["scale"], knee } : null;
}

/** How many numbers are outside a scale, below and above. */
export function beyond({ values, anomalies }: NodeValues, { low, high }: ColorScale): { below: number; above: number } {
  const shown = [...values].filter((_, node) => anomalies[node] === "");
  return { below: shown.filter((value) => value < low).length, above: shown.filter((value) => value > high).length };
}

/** What a box shows of several nodes: the most urgent anomaly, or numbers; what is apart counts only by itself. */
const URGENCY: readonly Anomaly[] = ["nan", "inf", "", "zero", "mask", "apart", "none"];

/** What a box shows for several nodes: the node with the largest magnitude, -1 for none, and its anomaly. */
export function foremost({ values, anomalies }: NodeValues, nodes: readonly number[]): { node: number; anomaly: Anomaly } {
  let best = -1;
  const met = new Set<Anomaly>();
  for (const node of nodes) met.add(anomalies[node]);
  const anomaly = URGENCY.find((one) => met.has(one)) ?? "none";
  const isShown = (node: number): boolean => anomalies[node] === (met.has("") ? "" : anomaly);
  for (const node of nodes) {
    const value = values[node];
    if (isShown(node) && !Number.isNaN(value) && (best < 0 || Math.abs(value) > Math.abs(values[best]))) best = node;
  }
  return { node: best, anomaly };
}

/** Position of a number on a scale, from 0 to 1; null if the scale cannot show it. */
export function positionOn(scale: ColorScale | null, value: number): number | null {
  if (!scale || Number.isNaN(value) || (scale.scale === "log" && value <= 0)) return null;
  return position(scale, value);
}
