// Marks on nodes that stand out: first NaN, z-score outliers, hundredfold changes.

import { zText } from "./statistics";
import type { NodeValues } from "./node-colors";
import { FAR } from "../wire";

/** A mark at a node: a short text, a sentence, and whether it is too large, too small or not finite. */
export interface OutlierMark {
  readonly text: string;
  readonly about: string;
  readonly how: "broken" | "above" | "below";
}

/** Edges of a graph as two columns. */
export interface Links {
  readonly parent: readonly number[];
  readonly child: readonly number[];
}

/** With more origins than this, none is marked: then everything is broken alike. */
const FEW = 3;
/** If more than this share of all nodes changed, none is marked: the colors show it already. */
const PART = 0.25;
const MOST = 12;
/** log2 of a hundredfold change. */
const HUGE = Math.log2(100);

/**
 * The nodes to mark. NaN spreads forwards in values and backwards in gradients.
 *
 * @param scores by node, the z-score that Python computed, or the log2 of a change; NaN for none.
 */
export function outlierMarks(nodeValues: NodeValues, links: Links, scores: ArrayLike<number>, isBackward: boolean): Map<number, OutlierMark> {
  const marks = new Map<number, OutlierMark>();
  const firsts = firstNonFinite(nodeValues, isBackward ? { parent: links.child, child: links.parent } : links);
  if (firsts.length <= FEW) for (const node of firsts) marks.set(node, { text: "NaN starts here", about: `none of its ${isBackward ? "children" : "parents"} hold NaN or Inf`, how: "broken" });
  const far = Float64Array.from(scores);
  const least = nodeValues.isChange ? HUGE : FAR;
  const loud = [...far.keys()].filter((node) => Math.abs(far[node]) >= least).sort((a, b) => Math.abs(far[b]) - Math.abs(far[a]));
  if (loud.length > Math.max(FEW, PART * far.length)) return marks;
  for (const node of loud.slice(0, MOST)) if (!marks.has(node)) marks.set(node, nodeValues.isChange ? changeMark(far[node]) : zScoreMark(far[node]));
  return marks;
}

function changeMark(doublings: number): OutlierMark {
  return doublings > 0 ? { text: "exploded", about: "grew at least 100×", how: "above" } : { text: "vanished", about: "shrank at least 100×", how: "below" };
}

function zScoreMark(z: number): OutlierMark {
  const how = z > 0 ? "above" : "below";
  return { text: `z ${zText(z)} vs. step`, about: `far ${how} the other tensors of its role at this step (robust z-score)`, how };
}

/** Nodes with NaN or Inf whose inputs are finite. */
function firstNonFinite({ anomalies }: NodeValues, { parent, child }: Links): number[] {
  const isHeir = new Uint8Array(anomalies.length);
  child.forEach((node, edge) => {
    if (anomalies[parent[edge]] === "nonfinite") isHeir[node] = 1;
  });
  return [...anomalies.keys()].filter((node) => anomalies[node] === "nonfinite" && !isHeir[node]);
}
