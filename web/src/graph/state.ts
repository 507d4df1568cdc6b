// The state of the graph page and its reducer.

import { Representatives } from "../layout/representatives";
import type { Fold, GraphView } from "../lib/wire";

export type Direction = "down" | "right";
export type Highlight = "" | "ancestors" | "descendants" | "paths";

export interface State {
  readonly open: ReadonlySet<number>;
  readonly rolled: boolean;
  readonly apart: ReadonlySet<number>;
  readonly direction: Direction;
  /** Key of a box or frame. */
  readonly selection: string | null;
  /** The other end of the paths that are shown. */
  readonly second: string | null;
  /** Whether the next box that is clicked becomes the other end. */
  readonly isPicking: boolean;
  readonly highlight: Highlight;
  /** Name of the measure; "" colors by role. */
  readonly color: string;
  /** Name of the measure; "" for no bars. */
  readonly size: string;
  readonly query: string;
  /** Index of the current match; -1 for none yet. */
  readonly hit: number;
}

export type Action =
  | { do: "toggle"; group: number }
  | { do: "depth"; depth: number }
  | { do: "rolled"; is: boolean }
  | { do: "apart"; run: number; is: boolean }
  | { do: "apart all"; is: boolean }
  | { do: "direction"; direction: Direction }
  | { do: "select"; key: string | null }
  | { do: "pick" }
  | { do: "highlight"; highlight: Highlight }
  | { do: "clear highlight" }
  | { do: "color"; measure: string }
  | { do: "size"; measure: string }
  | { do: "query"; query: string }
  | { do: "hit"; hit: number }
  | { do: "reveal"; key: string }
  | { do: "restore"; state: State }
  | { do: "clear" };

/** Maximum number of boxes shown initially. */
const MANY = 60;

/** The depth at which everything is open. */
export function deepest({ groups }: GraphView): number {
  return groups.depth.reduce((most, depth) => Math.max(most, depth), 0) + 1;
}

/** The groups that are open at a depth; 1 shows the direct children of the model. */
export function toDepth({ groups }: GraphView, depth: number): Set<number> {
  return new Set([...groups.depth.keys()].filter((group) => group === 0 || groups.depth[group] < depth));
}

/** How many boxes show at each depth, from 1, with repeated blocks folded. */
export function boxesAtDepths(view: GraphView, rolled: boolean): number[] {
  const { depth, parent } = view.groups;
  const counts = new Array<number>(deepest(view)).fill(0);
  const representatives = new Representatives(view, { open: [], rolled, apart: [] });
  const count = (from: number, end: number): void => {
    for (let at = Math.max(1, from); at < end; at++) counts[at - 1] += 1;
  };
  // A node is visible if its group is open; a group is a box if its parent is open and it is not.
  for (let group = 1; group < parent.length; group++)
    if (representatives.representative(group) === group) count(depth[parent[group]] + 1, depth[group] + 1);
  view.nodes.group.forEach((group, node) => {
    if (representatives.node(node) === node) count(depth[group] + 1, counts.length + 1);
  });
  return counts;
}

/** The initial state: the deepest level with at most `MANY` boxes. */
export function initial(view: GraphView): State {
  const counts = boxesAtDepths(view, view.is_rolled);
  const depth = Math.max(1, counts.findLastIndex((count) => count <= MANY) + 1);
  return {
    open: toDepth(view, depth), rolled: view.is_rolled, apart: new Set(), direction: "down",
    selection: null, second: null, isPicking: false, highlight: "", color: "", size: "", query: "", hit: -1,
  };
}

/** The options of `fold`. */
export function foldOf({ open, rolled, apart }: Pick<State, "open" | "rolled" | "apart">): Fold {
  const sorted = (set: ReadonlySet<number>): number[] => [...set].sort((a, b) => a - b);
  return { open: sorted(open), rolled, apart: sorted(apart) };
}

/** The depth up to which all is open, and whether nothing beyond it is. */
export function depthOf(view: GraphView, open: ReadonlySet<number>): { depth: number; isExact: boolean } {
  const at = view.groups.depth;
  let depth = deepest(view);
  for (let group = 1; group < at.length; group++) if (!open.has(group)) depth = Math.min(depth, at[group]);
  depth = Math.max(1, depth);
  return { depth, isExact: [...open].every((group) => group === 0 || at[group] < depth) };
}

/** The groups around a box or frame that must be open for it to show, outermost first. */
export function around(view: GraphView, key: string): number[] {
  const number = Number(key.slice(1));
  const out: number[] = [];
  let group = key.startsWith("g") ? view.groups.parent[number] : key.startsWith("n") ? view.nodes.group[number] : 0;
  for (; group > 0; group = view.groups.parent[group]) out.unshift(group);
  return out;
}

/** The key itself, if it belongs to a block of a run; else null. */
export function inRun(view: GraphView, key: string | null, run: number): string | null {
  if (key === null) return null;
  const groups = key.startsWith("g") ? [...around(view, key), Number(key.slice(1))] : around(view, key);
  return groups.some((group) => view.groups.run[group] === run) ? key : null;
}

/** The same box or frame as it is drawn: in the first of identical blocks, in the first pass. */
export function drawnAs(representatives: Representatives, key: string): string {
  const number = Number(key.slice(1));
  if (key.startsWith("n")) return `n${representatives.node(number)}`;
  return key.startsWith("g") ? `g${representatives.representative(number)}` : key;
}

/** All groups that share a representative with these; an action applies to all of them. */
function identicalGroups(view: GraphView, state: State, groups: readonly number[]): number[] {
  const representatives = new Representatives(view, foldOf(state));
  const drawn = new Set(groups.map((group) => representatives.representative(group)));
  return [...view.groups.parent.keys()].filter((other) => other > 0 && drawn.has(representatives.representative(other)));
}

function withOpen(state: State, groups: Iterable<number>, is: boolean): State {
  const open = new Set(state.open);
  for (const group of groups) is ? open.add(group) : open.delete(group);
  return { ...state, open };
}

function selected(state: State, key: string | null): State {
  if (state.isPicking && key !== null && key !== state.selection)
    return { ...state, second: key, isPicking: false, highlight: "paths" };
  const highlight = key === null || state.highlight === "paths" ? "" : state.highlight;
  return { ...state, selection: key, second: null, isPicking: false, highlight };
}

/** The state after an action. */
export function reduce(view: GraphView, state: State, action: Action): State {
  switch (action.do) {
    case "toggle":
      return withOpen(state, identicalGroups(view, state, [action.group]), !state.open.has(action.group));
    case "depth":
      return { ...state, open: toDepth(view, Math.max(1, Math.min(action.depth, deepest(view)))) };
    case "rolled":
      return { ...state, rolled: action.is };
    case "apart": {
      const apart = new Set(state.apart);
      if (action.is) apart.add(action.run);
      else apart.delete(action.run);
      return { ...state, apart };
    }
    case "apart all":
      return { ...state, apart: new Set(action.is ? view.runs.keys() : []) };
    case "direction":
      return { ...state, direction: action.direction };
    case "select":
      return selected(state, action.key);
    case "pick":
      return state.selection === null ? state : { ...state, isPicking: !state.isPicking };
    case "highlight":
      return state.selection === null ? state
        : { ...state, second: null, isPicking: false, highlight: state.highlight === action.highlight ? "" : action.highlight };
    case "clear highlight":
      return { ...state, highlight: "", second: null, isPicking: false };
    case "color":
      return { ...state, color: action.measure };
    case "size":
      return { ...state, size: action.measure };
    case "query":
      return { ...state, query: action.query, hit: -1 };
    case "hit":
      return { ...state, hit: action.hit };
    case "reveal": {
      const groups = identicalGroups(view, state, around(view, action.key));
      const isOpen = groups.every((group) => state.open.has(group));
      return isOpen ? state : withOpen(state, groups, true);
    }
    case "restore":
      return action.state;
    case "clear":
      // One at a time, the most recent first.
      if (state.isPicking) return { ...state, isPicking: false };
      if (state.highlight) return { ...state, highlight: "", second: null };
      if (state.query) return { ...state, query: "", hit: -1 };
      return { ...state, selection: null, second: null };
  }
}
