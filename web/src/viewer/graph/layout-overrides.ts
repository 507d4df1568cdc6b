// The reader's own groups and order of a graph: wishes that the server puts into effect, kept for each structure.

import type { GraphView, RunGraph } from "../../lib/wire";

/** About the node at a site or of a name. Of what contradicts itself, the last counts. */
export interface Wish {
  readonly at: string;
  /** A frame of this name stands around it and its modules; "" for none. */
  readonly within?: string;
  /** Its place where nothing else decides. */
  readonly order?: number;
}

/** More would not fit into an address. */
const MOST = 400;

/** The wishes behind a text; none for what is no such text. */
export function wishesOf(text: string | undefined): readonly Wish[] {
  try {
    const found: unknown = JSON.parse(text || "[]");
    return Array.isArray(found) ? found.filter((wish): wish is Wish => typeof wish?.at === "string").slice(-MOST) : [];
  } catch {
    return [];
  }
}

/** "" for none; groups that were left again are forgotten. */
export function wishesText(wishes: readonly Wish[]): string {
  const merged = new Map<string, Wish>();
  for (const wish of wishes) merged.set(wish.at, { ...merged.get(wish.at), ...wish });
  const lasting = [...merged.values()].flatMap(({ at, within, order }) => {
    const told = { at, ...(within && { within }), ...(order !== undefined && { order }) };
    return Object.keys(told).length > 1 ? [told] : [];
  });
  return lasting.length ? JSON.stringify(lasting) : "";
}

/** All of these nodes in one group: that of one of them, or a new one. */
export function grouped(wishes: readonly Wish[], names: readonly string[]): readonly Wish[] {
  const known = new Map(wishes.map(({ at, within }) => [at, within ?? ""]));
  const own = names.map((name) => known.get(name) ?? "").find(Boolean) ?? freeName([...known.values()]);
  return [...wishes, ...names.map((at) => ({ at, within: own }))];
}

function freeName(taken: readonly string[]): string {
  for (let number = 1; ; number++) if (!taken.includes(`group ${number}`)) return `group ${number}`;
}

/** These nodes in no group of the reader's. */
export function ungrouped(wishes: readonly Wish[], names: readonly string[]): readonly Wish[] {
  return [...wishes, ...names.map((at) => ({ at, within: "" }))];
}

/** The group goes by another name. */
export function renamed(wishes: readonly Wish[], from: string, to: string): readonly Wish[] {
  return wishes.map((wish) => (wish.within === from ? { ...wish, within: to } : wish));
}

/** These nodes before all others, or behind them, as far as what they are made from allows. */
export function ordered(wishes: readonly Wish[], names: readonly string[], isFirst: boolean): readonly Wish[] {
  const known = wishes.map(({ order = 0 }) => order);
  const order = isFirst ? Math.min(0, ...known) - 1 : Math.max(1e6, ...known) + 1;
  return [...wishes, ...names.map((at) => ({ at, order }))];
}

/** What identifies an arrangement: groups of the reader's own number nodes and modules anew. */
export function spotOf(structure: string, wishes: string): string {
  if (!wishes) return structure;
  let hash = 2166136261;
  for (const letter of wishes) hash = Math.imul(hash ^ letter.codePointAt(0)!, 16777619) >>> 0;
  return `${hash.toString(36).padStart(7, "0")}~${structure}`;
}

/** Numbers of nodes and modules in the words of the run, from one numbering to another. */
export interface Names {
  readonly nodes: readonly string[];
  readonly groups: readonly string[];
}

export function namesOf(graph: RunGraph, { nodes, groups }: GraphView): Names {
  return { nodes: nodes.row.map((row) => graph.nodes[row]?.name ?? ""), groups: groups.label };
}

/** The same things by the numbers they have among other names. */
export function renumbered(numbers: Iterable<number>, from: readonly string[], to: readonly string[]): Set<number> {
  const places = new Map(to.map((name, number) => [name, number]));
  return new Set([...numbers].flatMap((number) => places.get(from[number]) ?? []));
}
