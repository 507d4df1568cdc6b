// Maps boxes of the dependency graph to tensors of a run, and back.

import type { GraphView, NodeRows, RunGraph } from "../../lib/wire";
import type { Action, State } from "../state";

/** The node that a box or a module stands for, a number among the nodes of the view; -1 for none. */
export function nodeAt({ group_node }: RunGraph, key: string | null): number {
  const number = Number(key?.slice(1));
  return key?.startsWith("n") ? number : key?.startsWith("g") ? group_node[number] ?? -1 : -1;
}

/** One pass of a tensor within a step. */
export interface Pass {
  /** From 1; 0 where there are none. */
  readonly iteration: number;
  /** Within the iteration, from 1; 0 for any. */
  readonly pass: number;
}

/** Filter nodes by iteration and pass; all of them if none matches. */
export function ofPass({ nodes }: RunGraph, view: GraphView, among: readonly number[], { iteration, pass }: Pass): readonly number[] {
  if (among.length < 2) return among;
  const narrowed = (some: readonly number[], fits: (one: NodeRows | undefined) => boolean): readonly number[] => {
    const own = some.filter((node) => fits(nodes[view.nodes.row[node]]));
    return own.length ? own : some;
  };
  const ofIteration = narrowed(among, (one) => [0, iteration].includes(one?.iteration ?? 0));
  return pass > 0 ? narrowed(ofIteration, (one) => [0, pass].includes(one?.pass_ ?? 0)) : ofIteration;
}

/** The node of the same tensor in this pass, if one box represents all passes. */
export function keyIn(graph: RunGraph, view: GraphView, key: string, pass: Pass): string {
  const node = Number(key.slice(1));
  if (!key.startsWith("n")) return key;
  const passes = view.nodes.rolled.flatMap((first, other) => (first === view.nodes.rolled[node] ? [other] : []));
  const [own = node] = ofPass(graph, view, passes, pass);
  return passes.length > 1 ? `n${own}` : key;
}

/** The recorded data of a box, or of the result of a module; null for none. */
export function recordedAt(graph: RunGraph, view: GraphView, key: string | null): NodeRows | null {
  const node = nodeAt(graph, key);
  return node < 0 ? null : graph.nodes[view.nodes.row[node]] ?? null;
}

/** The box of a node of the run, in this pass where each has its own; null where the graph has none. */
export function keyOf({ nodes }: RunGraph, view: GraphView, node: string | null, { iteration, pass }: Pass): string | null {
  if (node === null) return null;
  const fits = (one: NodeRows): boolean => one.node === node || one.name === node || one.sites.some((site) => site === node || site.replace(/:\d+$/, "") === node);
  let [best, most] = [-1, -1];
  for (let number = 0; number < view.nodes.row.length; number++) {
    const one = nodes[view.nodes.row[number]];
    if (!one || !fits(one)) continue;
    const score = ([0, iteration].includes(one.iteration) ? 2 : 0) + ([0, pass].includes(one.pass_) ? 1 : 0);
    if (score > most) [best, most] = [number, score];
  }
  return best < 0 ? null : `n${best}`;
}

/**
 * The action for the selection of a box; null if it has no tensor.
 *
 * @param isRolled whether a box stands for all passes: then its selection filters none of them.
 */
export function selectBox(graph: RunGraph, view: GraphView, key: string | null, { of, part, iteration, pass }: State, isRolled = false): Action | null {
  if (key === null) return { do: "node", node: null };
  const recorded = recordedAt(graph, view, key);
  if (!recorded) return null;
  const own = isRolled ? { iteration, pass } : { iteration: recorded.iteration || iteration, pass: severalPasses(graph, recorded) ? recorded.pass_ : pass };
  return { do: "tensor", node: recorded.node, part, of, ...own };
}

/** Whether a tensor has a node for each of several passes within an iteration. */
function severalPasses({ nodes }: RunGraph, { node, iteration, pass_ }: NodeRows): boolean {
  return pass_ > 0 && nodes.some((other) => other.node === node && other.iteration === iteration && other.pass_ !== pass_);
}
