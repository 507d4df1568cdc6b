// Context menu of the dependency graph: hide, isolate, pin, move, group.

import type { Item } from "../../graph/context-menu";
import { toggled } from "../../lib/collections";
import type { Adjacency } from "../../lib/reachability";
import type { LayoutOverride } from "./layout-overrides";
import { groupNodes, orderNodes, ungroupNodes } from "./layout-overrides";

/** The box or module that was right-clicked. */
export interface MenuTarget {
  readonly key: string;
  /** Numbers of the nodes it stands for, and their names. */
  readonly nodes: readonly number[];
  readonly names: readonly string[];
  /** The same for the selection, with a title; null if it is the same box. */
  readonly selected: { readonly names: readonly string[]; readonly title: string } | null;
}

/** The current arrangement, and the functions that change it. */
export interface LayoutActions {
  readonly n: number;
  readonly ways: Adjacency;
  readonly hidden: ReadonlySet<number>;
  readonly pinned: ReadonlySet<number>;
  readonly isMoved: boolean;
  readonly overrides: readonly LayoutOverride[];
  hide(hidden: ReadonlySet<number>, isFitted: boolean): void;
  pin(pinned: ReadonlySet<number>): void;
  back(): void;
  move(): void;
  override(overrides: readonly LayoutOverride[]): void;
  rename(group: string): void;
}

export function menuItems({ key, nodes, names, selected }: MenuTarget, how: LayoutActions): Item[] {
  const { hidden, pinned, overrides } = how;
  const node = Number(key.slice(1));
  const group = groupOf(overrides, names);
  const isPinned = pinned.has(node);
  return [
    { text: "Hide", run: () => how.hide(new Set([...hidden, ...nodes]), false) },
    { text: "Show only this and its neighbors", run: () => how.hide(allBut(how.n, withNeighbors(nodes, how.ways)), true) },
    ...(key.startsWith("n") ? [{ text: isPinned ? "Unpin" : "Pin its value", run: () => how.pin(toggled(pinned, node)) }] : []),
    { text: "Move with the arrow keys", run: how.move },
    ...(how.isMoved ? [{ text: "Reset position", run: how.back }] : []),
    { text: "Place as early as possible", run: () => how.override(orderNodes(overrides, names, true)) },
    { text: "Place as late as possible", run: () => how.override(orderNodes(overrides, names, false)) },
    ...(selected ? [{ text: `Group with ${selected.title}`, run: () => how.override(groupNodes(overrides, [...selected.names, ...names])) }] : []),
    ...(group ? [
      { text: `Rename ${group}…`, run: () => how.rename(group) },
      { text: `Remove from ${group}`, run: () => how.override(ungroupNodes(overrides, names)) },
    ] : [{ text: "New group", run: () => how.override(groupNodes(overrides, names)) }]),
  ];
}

/** The user's group that holds all of these nodes; "" for none. */
function groupOf(overrides: readonly LayoutOverride[], names: readonly string[]): string {
  const known = new Map(overrides.map(({ at, within }) => [at, within ?? ""]));
  const groups = new Set(names.map((name) => known.get(name) ?? ""));
  return groups.size === 1 ? [...groups][0] : "";
}

function withNeighbors(nodes: readonly number[], { up, down }: Adjacency): Set<number> {
  const out = new Set(nodes);
  for (const node of nodes) {
    for (const { start, to } of [up, down]) for (let at = start[node]; at < start[node + 1]; at++) out.add(to[at]);
  }
  return out;
}

function allBut(n: number, nodes: ReadonlySet<number>): Set<number> {
  return new Set(Array.from({ length: n }, (_, node) => node).filter((node) => !nodes.has(node)));
}
