// From boxes of a dependency graph to tensors of a run, and back.

import type { GraphView, NodeRows, RunGraph } from "../lib/wire";
import type { Action, State } from "./state";

/** The node that a box or a module stands for, a number among the nodes of the view; -1 for none. */
export function nodeAt({ group_node }: RunGraph, key: string | null): number {
  const number = Number(key?.slice(1));
  return key?.startsWith("n") ? number : key?.startsWith("g") ? group_node[number] ?? -1 : -1;
}

/** The nodes of one iteration among those that stand for all of them; all, where none is of it. */
export function ofIteration({ nodes }: RunGraph, view: GraphView, among: readonly number[], iteration: number): readonly number[] {
  if (among.length < 2) return among;
  const own = among.filter((node) => [0, iteration].includes(nodes[view.nodes.row[node]]?.iteration ?? 0));
  return own.length ? own : among;
}

/** The box of the same node in this iteration, where boxes stand for all of them. */
export function keyIn(graph: RunGraph, view: GraphView, key: string, iteration: number): string {
  const node = Number(key.slice(1));
  if (!key.startsWith("n")) return key;
  const passes = view.nodes.rolled.flatMap((first, other) => (first === view.nodes.rolled[node] ? [other] : []));
  const [own = node] = ofIteration(graph, view, passes, iteration);
  return passes.length > 1 ? `n${own}` : key;
}

/** What was recorded of a box or of the result of a module; null for nothing. */
export function recordedAt(graph: RunGraph, view: GraphView, key: string | null): NodeRows | null {
  const node = nodeAt(graph, key);
  return node < 0 ? null : graph.nodes[view.nodes.row[node]] ?? null;
}

/** The box of a node of the run, in this iteration where each has its own; null where the graph has none. */
export function keyOf({ nodes }: RunGraph, view: GraphView, node: string | null, iteration: number): string | null {
  if (node === null) return null;
  const fits = (one: NodeRows): boolean => one.node === node || one.name === node || one.sites.includes(node);
  let first = -1;
  for (let number = 0; number < view.nodes.row.length; number++) {
    const one = nodes[view.nodes.row[number]];
    if (!one || !fits(one)) continue;
    if (one.iteration === 0 || one.iteration === iteration) return `n${number}`;
    if (first < 0) first = number;
  }
  return first < 0 ? null : `n${first}`;
}

/** What the page is told when a box is selected; null where it stands for no tensor. */
export function selecting(graph: RunGraph, view: GraphView, key: string | null, { of, part, iteration }: State): Action | null {
  if (key === null) return { do: "node", node: null };
  const recorded = recordedAt(graph, view, key);
  return recorded && { do: "tensor", node: recorded.node, part, of, iteration: recorded.iteration || iteration };
}
