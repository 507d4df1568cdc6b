// Layout overrides: groups and an order that the user gives to nodes. The server applies them; they are stored per graph structure.

import type { GraphView, RunGraph } from "../../lib/wire";

/** Overrides the layout of one node, given by its site or name. Of several for one node, the last wins. */
export interface LayoutOverride {
  readonly at: string;
  /** Name of the group around it and its modules; "" for none. */
  readonly within?: string;
  /** Its position among nodes that edges do not order. */
  readonly order?: number;
}

/** More would not fit into a URL. */
const MOST = 400;

/** Parse overrides from JSON; an empty list for invalid text. */
export function parseOverrides(text: string | undefined): readonly LayoutOverride[] {
  try {
    const found: unknown = JSON.parse(text || "[]");
    return Array.isArray(found) ? found.filter((override): override is LayoutOverride => typeof override?.at === "string").slice(-MOST) : [];
  } catch {
    return [];
  }
}

/** Format overrides as JSON, merged per node; "" for none. */
export function formatOverrides(overrides: readonly LayoutOverride[]): string {
  const merged = new Map<string, LayoutOverride>();
  for (const override of overrides) merged.set(override.at, { ...merged.get(override.at), ...override });
  const entries = [...merged.values()].flatMap(({ at, within, order }) => {
    const entry = { at, ...(within && { within }), ...(order !== undefined && { order }) };
    return Object.keys(entry).length > 1 ? [entry] : [];
  });
  return entries.length ? JSON.stringify(entries) : "";
}

/** Put nodes into one group: that of one of them, or a new one. */
export function groupNodes(overrides: readonly LayoutOverride[], names: readonly string[]): readonly LayoutOverride[] {
  const known = new Map(overrides.map(({ at, within }) => [at, within ?? ""]));
  const own = names.map((name) => known.get(name) ?? "").find(Boolean) ?? freeName([...known.values()]);
  return [...overrides, ...names.map((at) => ({ at, within: own }))];
}

function freeName(taken: readonly string[]): string {
  for (let number = 1; ; number++) if (!taken.includes(`group ${number}`)) return `group ${number}`;
}

/** Remove nodes from their groups. */
export function ungroupNodes(overrides: readonly LayoutOverride[], names: readonly string[]): readonly LayoutOverride[] {
  return [...overrides, ...names.map((at) => ({ at, within: "" }))];
}

/** Rename a group. */
export function renameGroup(overrides: readonly LayoutOverride[], from: string, to: string): readonly LayoutOverride[] {
  return overrides.map((override) => (override.within === from ? { ...override, within: to } : override));
}

/** Place nodes before or after all others, as far as their edges allow. */
export function orderNodes(overrides: readonly LayoutOverride[], names: readonly string[], isFirst: boolean): readonly LayoutOverride[] {
  const known = overrides.map(({ order = 0 }) => order);
  const order = isFirst ? Math.min(0, ...known) - 1 : Math.max(1e6, ...known) + 1;
  return [...overrides, ...names.map((at) => ({ at, order }))];
}

/** The key of an arrangement: groups renumber nodes and modules, so each set of overrides has its own. */
export function arrangementKey(structure: string, overrides: string): string {
  if (!overrides) return structure;
  let hash = 2166136261;
  for (const letter of overrides) hash = Math.imul(hash ^ letter.codePointAt(0)!, 16777619) >>> 0;
  return `${hash.toString(36).padStart(7, "0")}~${structure}`;
}

/** Names of nodes and modules, by number: they stay the same when numbers change. */
export interface Names {
  readonly nodes: readonly string[];
  readonly groups: readonly string[];
}

export function namesOf(graph: RunGraph, { nodes, groups }: GraphView): Names {
  return { nodes: nodes.row.map((row) => graph.nodes[row]?.name ?? ""), groups: groups.label };
}

/** The numbers that the same nodes or modules have in another numbering. */
export function renumber(numbers: Iterable<number>, from: readonly string[], to: readonly string[]): Set<number> {
  const places = new Map(to.map((name, number) => [name, number]));
  return new Set([...numbers].flatMap((number) => places.get(from[number]) ?? []));
}
