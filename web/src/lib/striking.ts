// What should leap to the eye among coloured nodes: where NaN begins, what is far from its like, what changed beyond measure.

import { deviations } from "./overview";
import type { Tints } from "./tinting";

/** A mark at a node: in a few words, and whether it is too large, too small or broken. */
export interface Striking {
  readonly text: string;
  readonly how: "broken" | "above" | "below";
}

/** Edges of a graph as two columns. */
export interface Links {
  readonly parent: readonly number[];
  readonly child: readonly number[];
}

/** More beginnings than this are none: then everything is broken alike. */
const FEW = 3;
/** More than this part of all nodes is no exception: colours tell that everything changed. */
const PART = 0.25;
const MOST = 12;
/** Robust deviations from which on a node is far from its like. */
const FAR = 7;
/** A change by this factor, in doublings. */
const HUGE = Math.log2(100);

/**
 * The nodes to mark. Values break from what they were made from onwards, gradients the other way round.
 *
 * @param likes by node, what it is to be held against: its role, say; "" for nothing.
 */
export function striking(tints: Tints, links: Links, likes: readonly string[], isBackward: boolean): Map<number, Striking> {
  const marks = new Map<number, Striking>();
  const firsts = beginnings(tints, isBackward ? { parent: links.child, child: links.parent } : links);
  if (firsts.length <= FEW) for (const node of firsts) marks.set(node, { text: "NaN begins here", how: "broken" });
  const far = tints.isChange ? Float64Array.from(tints.values, (value) => value * (FAR / HUGE)) : deviations(tints.values, likes);
  const loud = [...far.keys()].filter((node) => likes[node] && Math.abs(far[node]) >= FAR).sort((a, b) => Math.abs(far[b]) - Math.abs(far[a]));
  if (loud.length > Math.max(FEW, PART * far.length)) return marks;
  for (const node of loud.slice(0, MOST)) {
    if (marks.has(node)) continue;
    const isAbove = far[node] > 0;
    const text = tints.isChange ? (isAbove ? "exploded" : "died away") : isAbove ? "far above its like" : "far below its like";
    marks.set(node, { text, how: isAbove ? "above" : "below" });
  }
  return marks;
}

/** Nodes that hold NaN or Inf, and got it from nowhere. */
function beginnings({ oddities }: Tints, { parent, child }: Links): number[] {
  const isHeir = new Uint8Array(oddities.length);
  child.forEach((node, edge) => {
    if (oddities[parent[edge]] === "nonfinite") isHeir[node] = 1;
  });
  return [...oddities.keys()].filter((node) => oddities[node] === "nonfinite" && !isHeir[node]);
}
