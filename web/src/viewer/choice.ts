// Resolves the state against a run: what the run cannot show is replaced by the closest match, and applies again where it fits.

import { quantity } from "../lib/values/quantity";
import type { RowView, RunView } from "../lib/wire";
import type { Action, State } from "./state";

/** What is shown. */
export interface Choice {
  /** The recorded step; -1 if there is none. */
  readonly step: number;
  /** Its index in `run.steps`; -1 if there is none. */
  readonly place: number;
  readonly kind: string | null;
  /** The selected node; null for none, also where this run has no such node. */
  readonly node: string | null;
  /** What to show of it, one of `run.rows`; null if no node is selected. */
  readonly row: RowView | null;
  /** Quantity of that row; without a selected node, the closest quantity that this run has. */
  readonly of: string;
  readonly iteration: number;
  readonly pass: number;
  /** The passes that curves show; null for all. */
  readonly passFilter: PassFilter;
  readonly part: string;
  /** Number of the kept sample; null for the whole batch. */
  readonly sample: number | null;
  /** The steps that the filters leave, as places in `run.steps`; null or missing if all are left. */
  readonly left?: readonly number[] | null;
}

/** The passes that were chosen; null for all. */
export interface PassFilter {
  readonly iteration: number | null;
  readonly pass: number | null;
}

/** The options of the selectors, computed once per run. */
export interface Options {
  /** Places in `run.steps`, by kind; null has all, "" those without a kind. */
  readonly places: ReadonlyMap<string | null, readonly number[]>;
  /** In the order of the rows. */
  readonly nodes: ReadonlyMap<string, readonly RowView[]>;
  /** Alias of a node → its name. */
  readonly aliases: ReadonlyMap<string, string>;
  /** "value", "grad", "grad/<loss>", "grad@2", "update", "inner_grad", as far as there are such rows. */
  readonly ofs: readonly string[];
  readonly iterations: readonly number[];
  /** Within an iteration, from 1. */
  readonly passes: readonly number[];
}

const optionsByRun = new WeakMap<RunView, Options>();

export function optionsOf(run: RunView): Options {
  let offer = optionsByRun.get(run);
  if (!offer) optionsByRun.set(run, (offer = collectOptions(run)));
  return offer;
}

function collectOptions(run: RunView): Options {
  const places = new Map<string | null, number[]>([[null, run.steps.map((_, place) => place)]]);
  run.kinds.forEach((kind) => places.set(kind, []));
  run.kind_of.forEach((kind, place) => places.get(run.kinds[kind])?.push(place));
  const nodes = new Map<string, RowView[]>();
  const aliases = new Map<string, string>();
  const [ofs, iterations, passes] = [new Set<string>(), new Set<number>(), new Set<number>()];
  for (const row of run.rows) {
    if (!isShown(row.of)) continue;
    ofs.add(row.of);
    iterations.add(row.iteration);
    passes.add(row.pass_);
    const rows = nodes.get(nodeOf(row));
    if (rows) rows.push(row);
    else nodes.set(nodeOf(row), [row]);
    for (const name of [row.site, ...row.names, `${row.site}:${row.pass_}`]) if (!aliases.has(name)) aliases.set(name, nodeOf(row));
  }
  return {
    places, nodes, aliases,
    ofs: [...ofs].sort((a, b) => rankOf(a) - rankOf(b) || a.localeCompare(b, "en", { numeric: true })),
    // 0 means: outside of all iterations.
    iterations: [...iterations].filter((iteration) => iteration > 0 || iterations.size === 1).sort((a, b) => a - b),
    passes: [...passes].sort((a, b) => a - b),
  };
}

/** Rows with further statistics, or with what the samples are, belong to other rows. */
function isShown(of: string): boolean {
  return ORDER.includes(quantity(of).what);
}

const ORDER = ["value", "grad", "update", "inner_grad"];

function rankOf(of: string): number {
  const { what, number } = quantity(of);
  return 3 * ORDER.indexOf(what) + (of === what ? 0 : number === 1 ? 1 : 2);
}

/** The node a row belongs to. */
export function nodeOf(row: RowView): string {
  return row.node || row.site;
}

/** All that was recorded of a node, by any of its names. */
export function rowsOfNode(run: RunView, node: string): readonly RowView[] {
  const { nodes, aliases } = optionsOf(run);
  return nodes.get(node) ?? nodes.get(aliases.get(node) ?? "") ?? [];
}

/** The row of another run that holds the same thing; null if it has none. */
export function counterpart(run: RunView, row: RowView, picked: PassFilter = { iteration: row.iteration, pass: row.pass_ }): RowView | null {
  const isAny = (wanted: number | null, own: number): boolean => wanted === null || wanted === own;
  const rows = rowsOfNode(run, nodeOf(row)).filter((other) => other.site === row.site && other.of === row.of);
  const isSame = (other: RowView): boolean => other.iteration === row.iteration && other.pass_ === row.pass_;
  return rows.find(isSame) ?? rows.find((other) => isAny(picked.iteration, other.iteration) && isAny(picked.pass, other.pass_)) ?? null;
}

/** Whether the tensor of a row has several passes within one iteration, so that its site alone does not tell which. */
export function isNumbered(run: RunView, row: RowView): boolean {
  return row.n_passes > 1 && rowsOfNode(run, nodeOf(row)).some(({ site, pass_ }) => site === row.site && pass_ > 1);
}

/** Describes the pass of a row; "" if its tensor has only one. */
export function describePass(run: RunView, row: RowView): string {
  return [row.iteration > 0 ? `iteration ${row.iteration}` : "", isNumbered(run, row) ? `pass ${row.pass_}` : ""].filter(Boolean).join(", ");
}

/** The site of a row, with its pass where that is needed. */
export function siteOf(run: RunView, row: RowView): string {
  return isNumbered(run, row) ? `${row.site}:${row.pass_}` : row.site;
}

/** Describes the passes that a curve aggregates; "" if there is only one. */
export function describePasses(run: RunView, row: RowView, { iteration, pass }: PassFilter): string {
  if (row.n_passes < 2) return "";
  const rows = rowsOfNode(run, nodeOf(row)).filter(({ site, of }) => site === row.site && of === row.of);
  const among = rows.filter((other) => (iteration ?? other.iteration) === other.iteration && (pass ?? other.pass_) === other.pass_);
  if (among.length === 1) return describePass(run, among[0]);
  const picked = [iteration === null ? "" : `iteration ${iteration}`, pass === null ? "" : `pass ${pass} of each iteration`].filter(Boolean).join(", ");
  return `${picked ? `${picked}: ` : ""}mean of up to ${among.length} passes, band from minimum to maximum`;
}

/** The action that selects a row. A tensor with a single pass leaves the pass filter unchanged. */
export function selectRow(row: RowView, { pass }: State): Action {
  const { part, of, iteration } = row;
  return { do: "tensor", node: nodeOf(row), part, of, iteration, pass: row.n_passes > 1 ? row.pass_ : pass };
}

/** `nKept` is the number of kept samples of the step, if known. */
export function choose(run: RunView, state: State, nKept = Infinity): Choice {
  const { ofs, iterations, passes } = optionsOf(run);
  const { kind, place } = chosenStep(run, state);
  const step = place < 0 ? -1 : run.steps[place];
  const sample = state.sample !== null && state.sample < nKept ? state.sample : null;
  const row = state.node === null ? null : rowOfNode(run, state, state.node);
  if (row) {
    return {
      step, place, kind, node: state.node, row, of: row.of, iteration: row.iteration, pass: row.pass_, passFilter: passFilterOf(row, state), part: row.part, sample,
    };
  }
  return {
    step, place, kind, node: null, row: null, part: "", sample,
    of: least(ofs, (of) => quantityDistance(of, state.of)) ?? "value",
    iteration: least(iterations, (iteration) => Math.abs(iteration - state.iteration)) ?? 0,
    pass: least(passes, (pass) => Math.abs(pass - state.pass)) ?? 1,
    passFilter: { iteration: null, pass: null },
  };
}

function passFilterOf(row: RowView, state: State): PassFilter {
  return { iteration: state.iteration > 0 ? row.iteration : null, pass: state.pass > 0 ? row.pass_ : null };
}

/** The row of a node that is closest to the selection; selectors changed last take precedence. */
export function rowOfNode(run: RunView, state: State, node: string): RowView | null {
  const rows = rowsOfNode(run, node);
  const far = (row: RowView): number[] => state.order.map((selector) => {
    if (selector === "of") return quantityDistance(row.of, state.of);
    if (selector === "iteration") return Math.abs(row.iteration - state.iteration);
    if (selector === "pass") return Math.abs(row.pass_ - state.pass);
    return row.part === state.part ? 0 : 1;
  });
  let best: { row: RowView; far: number[] } | null = null;
  for (const row of rows) {
    const own = far(row);
    if (!best || isLess(own, best.far)) best = { row, far: own };
  }
  return best?.row ?? null;
}

function isLess(a: readonly number[], b: readonly number[]): boolean {
  const place = a.findIndex((value, i) => value !== b[i]);
  return place >= 0 && a[place] < b[place];
}

/** Distance between quantities: another gradient of the same kind is closest, then the value. */
function quantityDistance(of: string, wanted: string): number {
  if (of === wanted) return 0;
  const { what } = quantity(of);
  if (what !== "value" && what === quantity(wanted).what) return of === what ? 1 : 2;
  return of === "value" ? 3 : 4;
}

function least<T>(choices: readonly T[], far: (choice: T) => number): T | undefined {
  return choices.reduce<T | undefined>((best, choice) => (best === undefined || far(choice) < far(best) ? choice : best), undefined);
}

function chosenStep(run: RunView, state: State): { kind: string | null; place: number } {
  const { places } = optionsOf(run);
  const kind = state.kind !== null && places.get(state.kind)?.length ? state.kind : null;
  const possible = places.get(kind)!;
  if (state.step === null) return { kind, place: possible.at(-1) ?? -1 };
  return { kind, place: possible.length ? possible[nearest(possible, (place) => run.steps[place], state.step)] : -1 };
}

/** Says that another step is shown than the one asked for, and why; "" if it is the one. */
export function stepNotice(run: RunView, { step: asked }: State, { step, kind }: Choice): string {
  if (asked === null || step < 0 || asked === step) return "";
  const [own, other] = [asked.toLocaleString("en"), step.toLocaleString("en")];
  if (run.steps.includes(asked)) return `step ${own} is not of kind ${kind}; nearest that is: ${other}`;
  return `step ${own} was not recorded; nearest${kind === null ? "" : ` of kind ${kind}`}: ${other}`;
}

/** How many of the steps of a run were recorded: `12 recorded of 120`. */
export function describeSteps({ steps, logged }: RunView): string {
  if (!steps.length) return "none recorded yet";
  // Counted, because the number of the last step says little: counting may begin at 0, at 1, or where a checkpoint ended.
  const n = Math.max(steps.at(-1)!, logged[1] ?? 0) - Math.min(steps[0], logged[0] ?? Infinity) + 1;
  const recorded = `${steps.length.toLocaleString("en")} recorded`;
  return n > steps.length ? `${recorded} of ${n.toLocaleString("en")}` : recorded;
}

/** The index of the item whose number is nearest to one, where numbers rise; the lower one of two. */
export function nearest<T>(items: readonly T[], number: (item: T) => number, to: number): number {
  let [low, high] = [0, items.length - 1];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (number(items[middle]) < to) low = middle + 1;
    else high = middle;
  }
  return low > 0 && to - number(items[low - 1]) <= Math.abs(number(items[low]) - to) ? low - 1 : low;
}

/** The places of a kind that the filters leave. */
export function placesLeft(run: RunView, kind: string | null, left: Choice["left"]): readonly number[] {
  const places = optionsOf(run).places.get(kind) ?? [];
  if (!left) return places;
  const of = kind === null ? -1 : run.kinds.indexOf(kind);
  return of < 0 ? left : left.filter((place) => run.kind_of[place] === of);
}

/** The index of the step that is `by` recorded steps of a kind away, clamped to the ends. */
export function stepBy(run: RunView, place: number, by: number, kind: string | null, left: Choice["left"] = null): number {
  const possible = placesLeft(run, kind, left);
  if (!possible.length) return place;
  const at = nearest(possible, (other) => other, place);
  const isBetween = possible[at] !== place;
  // From a position between two steps of a kind, back is the lower and forward the upper one.
  const from = isBetween && by > 0 && possible[at] > place ? at - 1 : isBetween && by < 0 && possible[at] < place ? at + 1 : at;
  return possible[Math.max(0, Math.min(possible.length - 1, from + by))];
}
