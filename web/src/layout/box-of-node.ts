// Maps nodes of the graph to boxes of the picture, whatever is folded, rolled up or drawn once.

import type { GraphView, Measure, Picture } from "../lib/wire";

/** The nodes and the boxes that stand for them. */
export interface NodeBoxes {
  /** Node → its box; -1 where it is not drawn. */
  readonly box: Int32Array;
  /** Box → its nodes, in the order of the graph; a stand-in has those of what it stands for. */
  readonly nodes: readonly (readonly number[])[];
}

/** The nodes of every box, where the box of every node is known. */
export function nodeBoxes(picture: Picture, box: Int32Array): NodeBoxes {
  const nodes: number[][] = picture.boxes.map(() => []);
  for (let node = 0; node < box.length; node++) if (box[node] >= 0) nodes[box[node]].push(node);
  const numbers = new Map(picture.boxes.map(({ key }, number) => [key, number]));
  picture.boxes.forEach(({ stands_for }, number) => {
    if (stands_for.length) nodes[number] = stands_for.flatMap((key) => nodes[numbers.get(key) ?? -1] ?? []).sort((a, b) => a - b);
  });
  return { box, nodes };
}

/** The value of a measure for several nodes together; null where none of them has one. */
export function aggregate(measure: Measure, nodes: Iterable<number>): number | null {
  let found: number | null = null;
  for (const node of nodes) {
    const value = measure.values[node];
    if (value === null || value === undefined) continue;
    if (found === null) found = value;
    else if (measure.total === "sum") found += value;
    else if (!(Math.abs(value) <= Math.abs(found))) found = value;
  }
  return found;
}

/** The nodes that a key of a box, a frame or a stand-in means. */
export function nodesOf(view: GraphView, picture: Picture, nodeBoxes: NodeBoxes, key: string): readonly number[] {
  const box = picture.boxes.findIndex((candidate) => candidate.key === key);
  if (box >= 0) return nodeBoxes.nodes[box];
  const number = Number(key.slice(1));
  if (key.startsWith("n")) return [number];
  if (!key.startsWith("g")) return [];
  const { first, end } = view.groups;
  return Array.from({ length: end[number] - first[number] }, (_, i) => first[number] + i);
}
