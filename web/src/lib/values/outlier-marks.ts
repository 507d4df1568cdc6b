// Marks on nodes that stand out: where NaN or Inf starts, what the server calls unusual, large changes, what training does not reach.

import { short } from "../formatting";
import type { TrainingMark, TrainingState, Unusual } from "../wire";
import type { NodeValues } from "./node-colors";

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
/** At most this many nodes are marked, the strongest. */
export const MOST_MARKS = 12;
/** log2 of a hundredfold change. */
const HUGE = Math.log2(100);

/** What the nodes to mark are found in. */
export interface Standing {
  readonly nodeValues: NodeValues;
  readonly links: Links;
  /** By node, the row of its tensor; -1 for none. */
  readonly rows: ArrayLike<number>;
  readonly statistic: string;
  /** What the server calls unusual at this step, the strongest first. */
  readonly unusual: readonly Unusual[];
  /** The step that changes are relative to. */
  readonly since: number | null;
  /** Whether gradients are shown, through which NaN spreads backwards. */
  readonly isBackward: boolean;
}

/** The nodes to mark, and how many more are unusual. */
export function outlierMarks({ nodeValues, links, rows, statistic, unusual, since, isBackward }: Standing): { marks: Map<number, OutlierMark>; nMore: number } {
  const marks = new Map<number, OutlierMark>();
  const { anomalies } = nodeValues;
  const firsts = firstBroken(nodeValues, isBackward ? { parent: links.child, child: links.parent } : links);
  if (firsts.length <= FEW) {
    for (const node of firsts) {
      const word = anomalies[node] === "nan" ? "NaN" : "Inf";
      marks.set(node, { text: `${word} starts here`, about: `none of its ${isBackward ? "children" : "parents"} hold NaN or Inf`, how: "broken" });
    }
  }
  const found = since === null ? unusualNodes(rows, statistic, unusual) : changedNodes(nodeValues, since);
  const others = found.filter(([node]) => !marks.has(node));
  for (const [node, mark] of others.slice(0, MOST_MARKS)) marks.set(node, mark);
  return { marks, nMore: Math.max(0, others.length - MOST_MARKS) };
}

function unusualNodes(rows: ArrayLike<number>, statistic: string, unusual: readonly Unusual[]): [number, OutlierMark][] {
  const nodes = new Map<number, number>(Array.from(rows, (row, node) => [row, node]));
  return unusual.filter((one) => one.statistic === statistic && nodes.has(one.row))
    .map(({ row, text, about, is_above: isAbove }) => [nodes.get(row)!, { text, about, how: isAbove ? "above" : "below" }]);
}

function changedNodes({ values, anomalies, ends }: NodeValues, since: number): [number, OutlierMark][] {
  const nodes = [...values.keys()].filter((node) => anomalies[node] === "" && Math.abs(values[node]) >= HUGE);
  return nodes.sort((a, b) => Math.abs(values[b]) - Math.abs(values[a])).map((node) => [node, {
    text: `×${short(2 ** values[node])} since step ${since.toLocaleString("en")}`,
    about: ends ? `from ${short(ends.then[node])} to ${short(ends.now[node])}` : "", how: values[node] > 0 ? "above" : "below",
  }]);
}

/** Nodes with NaN or Inf whose inputs have neither. A mask of −Inf is no fault. */
function firstBroken({ anomalies }: NodeValues, { parent, child }: Links): number[] {
  const isBroken = (node: number): boolean => anomalies[node] === "nan" || anomalies[node] === "inf";
  const isHeir = new Uint8Array(anomalies.length);
  child.forEach((node, edge) => {
    if (isBroken(parent[edge])) isHeir[node] = 1;
  });
  return [...anomalies.keys()].filter((node) => isBroken(node) && !isHeir[node]);
}

/** What the training marks of several nodes say together; null if none has one. */
export interface TrainingSummary {
  readonly state: TrainingState;
  readonly text: string;
  readonly about: string;
}

const GRAVITY: readonly TrainingState[] = ["no gradient", "not updated", "frozen"];

/**
 * @param byNode the mark of each node that has one.
 * @param nodes those of one box.
 * @param isTrained whether a node could have a gradient: not an input, a buffer, a target.
 */
export function trainingOf(byNode: ReadonlyMap<number, TrainingMark>, nodes: readonly number[], isTrained: (node: number) => boolean): TrainingSummary | null {
  if (!byNode.size) return null;
  const marks = nodes.flatMap((node) => byNode.get(node) ?? []);
  const state = GRAVITY.find((one) => marks.some((mark) => mark.state === one));
  if (!state) return null;
  const own = marks.filter((mark) => mark.state === state);
  const n = nodes.filter(isTrained).length;
  const last = own.reduce((latest, mark) => (mark.since > latest.since ? mark : latest));
  const isWhole = own.length >= n || nodes.length === 1;
  // A folded module that is partly frozen is as it should be.
  if (!isWhole && state === "frozen") return null;
  return { state, text: isWhole ? last.text : `${own.length} of ${n}: ${state}`, about: last.about };
}
