// Queries to the server: URL, cache key and decoder of each.

import type { PageView } from "../../pages/wire";
import type { Matrix } from "../../lib/values/node-colors";
import type { ColorLimits, FilterView, FoldersView, OpDetails, GraphView, NetworkView, RunGraph, RunItem, RunView, SamplesView, SpikesView, StepMarks, TensorView, WhatChanged } from "../../lib/wire";

/** A query. Queries with the same key are the same. */
export interface Query<T> {
  readonly key: string;
  /** Id of the run it belongs to; "" for none. */
  readonly run: string;
  /** Whether the response changes while the run grows; data of recorded steps does not. */
  readonly isGrowing: boolean;
  readonly read: (response: Response) => Promise<T>;
}

/** A number over steps. */
export interface CurveData {
  readonly steps: Float64Array;
  readonly values: Float32Array;
  /** Since the session began; null where the server does not tell. */
  readonly seconds: Float32Array | null;
  /** The smallest and the largest of all passes of a step, of which the value is the mean. */
  readonly band?: { readonly low: Float32Array; readonly high: Float32Array };
}

/** Separates the id of a run from a rank, if that is not the first. */
export const RANK = "~";

/** The id of a run without a rank. */
export function baseOf(id: string): string {
  return id.split(RANK)[0];
}

const json = <T>(response: Response): Promise<T> => response.json() as Promise<T>;

export const runsQuery = (): Query<RunItem[]> => ({ key: "/api/runs", run: "", isGrowing: true, read: json });
/** The served folders, and where the search in them gave up. */
export const foldersQuery = (): Query<FoldersView> => ({ key: "/api/folders", run: "", isGrowing: true, read: json });
export const runQuery = (run: string): Query<RunView> => growingQuery(run, "");
/** `digest` is that of the run, because new rows change the rows of nodes. */
export const graphQuery = (run: string, structure: string, digest = "", layout = ""): Query<RunGraph> =>
  withVersion(constantQuery(run, "/graph", { structure, layout: layout || null }), digest);
export const networkQuery = (run: string, digest = ""): Query<NetworkView> => withVersion(constantQuery(run, "/network", {}), digest);
export const samplesQuery = (run: string, step: number): Query<SamplesView> => constantQuery(run, "/samples", { step });
/** How the picture of a tensor is painted. */
export interface Paint {
  readonly scale: "raw" | "batch" | "each";
  /** The one channel or head that is shown alone; null for all. */
  readonly tile: number | null;
}

/** `row` is the `row` of a RowView. */
export const tensorQuery = (run: string, row: number, step: number, sample: number | null = null, paint: Paint | null = null): Query<TensorView> =>
  constantQuery(run, "/tensor", { row, step, sample, normalized: paint?.scale === "batch" ? 1 : null, each: paint?.scale === "each" ? 1 : null, tile: paint?.tile ?? null });
/** All statistics of a step, and what each tensor holds: of the whole batch, or of one of the kept samples. */
export const matrixQuery = (run: string, step: number, sample: number | null = null): Query<Matrix> =>
  ({ ...constantQuery(run, "/matrix", { contents: 1, step, sample }), read: matrix });
/** What stands out at a step. */
export const marksQuery = (run: string, step: number, sample: number | null = null): Query<StepMarks> => constantQuery(run, "/marks", { step, sample });
/** The limits of the colors of a statistic, the same at all steps of a kind; null if there is nothing to color. */
export const limitsQuery = (run: string, stat: string, of: string, kind: string | null): Query<ColorLimits | null> => constantQuery(run, "/limits", { stat, of, kind });
/** One statistic of one row over steps, those of one kind if one is given. */
export const curveQuery = (run: string, row: number, stat: string, kind: string | null = null): Query<CurveData> =>
  ({ ...growingQuery(run, "/curve", { row, stat, kind }), read: curve });
/** The same for all passes of its tensor, or the selected ones. */
export const bandQuery = (run: string, row: number, stat: string, iteration: number | null, pass: number | null): Query<CurveData> =>
  ({ ...growingQuery(run, "/band", { row, stat, iteration, pass }), read: band });
export const scalarQuery = (run: string, name: string): Query<CurveData> => ({ ...growingQuery(run, "/scalar", { name }), read: curve });
/** A logged scalar by its name, or one statistic of a row. */
export type CurveOf = string | { readonly row: number; readonly statistic: string };
const curveParams = (of: CurveOf): QueryParams => (typeof of === "string" ? { name: of } : { row: of.row, stat: of.statistic });
/** The spikes of a curve. */
export const spikesQuery = (run: string, of: CurveOf): Query<SpikesView> => growingQuery(run, "/spikes", curveParams(of));
/** What is unusual at a step; `filters` as in `filterQuery`. */
export const whatChangedQuery = (run: string, of: CurveOf, step: number, filters: readonly string[]): Query<WhatChanged> =>
  growingQuery(run, "/what_changed", { ...curveParams(of), step, filter: filters.join("\n") || null });
/** The steps and samples that pass all of some filters. */
export const filterQuery = (run: string, filters: readonly string[]): Query<FilterView> => growingQuery(run, "/filter", { filter: filters.join("\n") || null });
/** A number for each unit and statistic of one tensor. */
export const unitsQuery = (run: string, row: number, step: number): Query<Matrix> => ({ ...constantQuery(run, "/units", { row, step }), read: matrix });
/** A number for each sample and statistic of one tensor. */
export const samplesTableQuery = (run: string, row: number, step: number): Query<Matrix> =>
  ({ ...constantQuery(run, "/samples_table", { row, step }), read: matrix });
/** All kept values of one tensor, or of one of its samples, row by row, as numbers; see `shape` of its picture. */
export const valuesQuery = (run: string, row: number, step: number, sample: number | null = null, isNormalized = false): Query<Float32Array> =>
  ({ ...constantQuery(run, "/values", { row, step, sample, format: "bin", normalized: isNormalized ? 1 : null }), read: async (response) => new Float32Array(await response.arrayBuffer()) });
/** The same as a table, with all the figures that the values have. */
export const csvQuery = (run: string, row: number, step: number, sample: number | null = null): Query<string> =>
  ({ ...constantQuery(run, "/values", { row, step, sample, format: "csv" }), read: (response: Response) => response.text() });
export const traceQuery = (id: string): Query<GraphView> => ({ key: `/api/trace/${encodeURIComponent(id)}`, run: id, isGrowing: false, read: json });
export const detailQuery = (id: string, row: number): Query<OpDetails | null> =>
  ({ key: `/api/trace/${encodeURIComponent(id)}/detail?row=${row}`, run: id, isGrowing: false, read: json });

/** `edition` is that of the list entry. */
export const pageQuery = (id: string, edition: string): Query<PageView> =>
  withVersion({ key: `/api/page/${encodeURIComponent(id)}`, run: id, isGrowing: false, read: json<PageView> }, edition);
export const unitQuery = (id: string, unit: string, edition: string): Query<PageView> =>
  withVersion({ key: `/api/page/${encodeURIComponent(id)}/unit?${new URLSearchParams({ name: unit })}`, run: id, isGrowing: false, read: json<PageView> }, edition);

/** Where the values of a tensor can be downloaded. */
export function valuesLink(run: string, row: number, step: number, format: "npy" | "csv", sample: number | null = null): string {
  return address(run, "/values", { row, step, sample, format });
}

type QueryParams = Readonly<Record<string, string | number | null>>;

function address(run: string, path: string, params: QueryParams): string {
  const pairs = Object.entries(params).filter(([, value]) => value !== null).map(([name, value]) => [name, String(value)]);
  const text = new URLSearchParams(pairs).toString();
  return `/api/run/${encodeURIComponent(run)}${path}${text && `?${text}`}`;
}

function constantQuery<T>(run: string, path: string, params: QueryParams): Query<T> {
  return { key: address(run, path, params), run, isGrowing: false, read: json };
}

function growingQuery<T>(run: string, path: string, params: QueryParams = {}): Query<T> {
  return { key: address(run, path, params), run, isGrowing: true, read: json };
}

/** The same URL with a version for the cache key. The part after `#` is not sent. */
function withVersion<T>(query: Query<T>, mark: string): Query<T> {
  return mark ? { ...query, key: `${query.key}#${mark}` } : query;
}

/** Float32 statistics, followed by one byte for each row, or by float32 z-scores, if a header says so. */
async function matrix(response: Response): Promise<Matrix> {
  const [n_rows = 0, n_columns = 0] = (response.headers.get("X-Shape") ?? "").split(/[,x ]+/).map(Number);
  const [numbers, hasContents] = [await response.arrayBuffer(), response.headers.get("X-Contents")];
  const values = new Float32Array(numbers, 0, n_rows * n_columns);
  const z = response.headers.get("X-Z") ? new Float32Array(numbers, values.byteLength, values.length) : undefined;
  return { n_rows, n_columns, values, ...(hasContents && { contents: new Uint8Array(numbers, values.byteLength) }), ...(z && { z }) };
}

/** int32 n, int64 steps[n], float32 values[n], and optionally float32 seconds[n]; all little-endian. */
async function curve(response: Response): Promise<CurveData> {
  const { steps, columns: [values, seconds = null] } = columnsOf(await response.arrayBuffer());
  return { steps, values, seconds };
}

/** int32 n, int64 steps[n], then float32 values, low, high and seconds, [n] each; all little-endian. */
async function band(response: Response): Promise<CurveData> {
  const { steps, columns: [values, low, high, seconds] } = columnsOf(await response.arrayBuffer());
  return { steps, values, seconds, band: { low, high } };
}

/** Steps, and as many columns of numbers as there are behind them. */
function columnsOf(buffer: ArrayBuffer): { steps: Float64Array; columns: Float32Array[] } {
  const view = new DataView(buffer);
  const n = view.getInt32(0, true);
  const steps = Float64Array.from({ length: n }, (_, i) => Number(view.getBigInt64(4 + 8 * i, true)));
  const start = 4 + 8 * n;
  const nColumns = n ? Math.floor((buffer.byteLength - start) / (4 * n)) : 4;
  const columns = Array.from({ length: nColumns }, (_, column) =>
    Float32Array.from({ length: n }, (_, i) => view.getFloat32(start + 4 * (column * n + i), true)));
  return { steps, columns };
}
