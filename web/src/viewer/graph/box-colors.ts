// Decorations of boxes for a statistic: a color strip or fill, marks for what has no color, and for what training does not reach.

import type { Decorations, EdgeLook, Look } from "../../canvas";
import { edgeKey } from "../../canvas";
import type { Drawn } from "../../graph/decorate";
import { colorAt, css, type ColorScale } from "../../lib/colors";
import { trainingOf, type OutlierMark } from "../../lib/values/outlier-marks";
import { foremost, positionOn, type Anomaly, type NodeValues } from "../../lib/values/node-colors";
import type { TrainingMark } from "../../lib/wire";

/** Number of color steps: more are indistinguishable. */
const SHADES = 200;

export interface NodeColoring {
  readonly nodeValues: NodeValues;
  readonly scale: ColorScale | null;
  /** Whether colors fill the boxes, not only a strip. */
  readonly isFilled: boolean;
  /** Marks by node. */
  readonly marks?: ReadonlyMap<number, OutlierMark>;
  /** Number of unusual nodes beside those that are marked. */
  readonly nMore?: number;
  /** By node, that training does not reach it. */
  readonly training?: ReadonlyMap<number, TrainingMark>;
  /** Filters the nodes of a box: those of the selected iteration, where it stands for several. */
  chosen(nodes: readonly number[]): readonly number[];
}

type Draft = { -readonly [K in keyof Look]: Look[K] };

/** Colors of the rings around marked boxes, visible in light and dark mode. */
const RINGS: Readonly<Record<OutlierMark["how"], string>> = { broken: "#d000d0", above: "#d9304c", below: "#3f6fe0" };
const NO_CELL = "rgba(128,134,145,0.25)";
/** Cells of blocks without a color: their marks are too small to draw. */
const CELLS_WITHOUT: Readonly<Partial<Record<Anomaly, string>>> = { nan: "#d000d0", inf: "#1d1f23", zero: "#ffffff" };
/** Maximum number of cells; with more blocks, several share one. */
const CELLS = 48;
/** Words for what a color cannot show. */
export const ANOMALY_WORDS: Readonly<Record<Anomaly, string>> = {
  "": "", nan: "holds NaN", inf: "holds Inf", mask: "holds −Inf, as a mask does", zero: "all zero",
  apart: "not colored: a buffer or whole numbers", none: "not recorded at this step",
};

/** Add colors to the decorations. */
export function colorBoxes(base: Decorations, drawn: Drawn, coloring: NodeColoring): Decorations {
  const { nodeValues, scale, isFilled, chosen, marks, training } = coloring;
  const boxes = new Map(base.boxes);
  const shades: string[] = [];
  const placeOf = placesIn(drawn);
  const colorOf = (nodes: readonly number[]): { color: string | null; anomaly: Anomaly } => {
    const { node, anomaly } = foremost(nodeValues, nodes);
    const place = node < 0 || anomaly !== "" ? null : positionOn(scale, nodeValues.values[node]);
    if (place === null || !scale) return { color: null, anomaly };
    const step = Math.round(place * SHADES);
    return { color: (shades[step] ??= css(colorAt(scale.ramp, step / SHADES))), anomaly };
  };
  const isTrained = (node: number): boolean => !["input", "buffer", "target", "loss"].includes(drawn.view.nodes.kind[node]);
  drawn.picture.boxes.forEach(({ key, kind }, number) => {
    if (kind === "standin") return;
    const nodes = chosen(drawn.nodeBoxes.nodes[number]);
    const { color, anomaly } = colorOf(nodes);
    const mark = first(nodes, marks);
    const state = training && trainingOf(training, nodes, isTrained);
    const holds = anomaly === "nan" || anomaly === "inf" || anomaly === "zero" || anomaly === "mask" ? anomaly : undefined;
    if (color === null && !mark && !state && !holds) return;
    const look: Draft = { ...base.boxes.get(key) };
    if (color !== null) look.strip = color;
    if (holds) look.holds = holds;
    if (holds === "zero") look.words = "all zero";
    if (state) [look.corner, look.words, look.about] = [state.state, state.text, look.about ?? state.about];
    if (mark && !look.ring) [look.ring, look.note] = [RINGS[mark.how], mark.text];
    const cells = placeOf && inPlaces(nodes, placeOf);
    if (cells) {
      look.cells = cells.map((own) => {
        const cell = colorOf(own);
        return cell.color ?? CELLS_WITHOUT[cell.anomaly] ?? NO_CELL;
      });
    }
    if (isFilled && color !== null) look.fill = color;
    boxes.set(key, look);
  });
  return { ...base, boxes };
}

function first(nodes: readonly number[], marks: ReadonlyMap<number, OutlierMark> | undefined): OutlierMark | undefined {
  if (!marks?.size) return undefined;
  for (const node of nodes) if (marks.has(node)) return marks.get(node);
  return undefined;
}

/** By node, its place among identical blocks that are drawn once, -1 for none; null where there are no such blocks. */
function placesIn({ view: { groups, nodes, runs }, fold }: Drawn): ((node: number) => number) | null {
  if (runs.length === fold.apart.length) return null;
  const places = new Int32Array(groups.parent.length).fill(-1);
  for (let group = 1; group < places.length; group++) {
    const run = groups.run[group];
    const around = places[groups.parent[group]];
    places[group] = around >= 0 ? around : run >= 0 && !fold.apart.includes(run) ? groups.place[group] : -1;
  }
  return (node) => places[nodes.group[node]];
}

/** Nodes by the block they belong to; null where all are of one. */
function inPlaces(nodes: readonly number[], placeOf: (node: number) => number): number[][] | null {
  const last = nodes.reduce((most, node) => Math.max(most, placeOf(node)), -1);
  if (last < 1) return null;
  const cells = Array.from({ length: Math.min(CELLS, last + 1) }, (): number[] => []);
  for (const node of nodes) {
    const place = placeOf(node);
    if (place >= 0) cells[Math.floor((place * cells.length) / (last + 1))].push(node);
  }
  return cells;
}

/** The block that a cell of a box stands for: the key of its module, or of its first node; null if there is none. */
export function keyOfCell(drawn: Drawn, key: string, cell: number, chosen: NodeColoring["chosen"]): string | null {
  const { view, picture, nodeBoxes } = drawn;
  const number = picture.boxes.findIndex((box) => box.key === key);
  const placeOf = placesIn(drawn);
  const nodes = number < 0 || !placeOf ? null : inPlaces(chosen(nodeBoxes.nodes[number]), placeOf)?.[cell];
  if (!nodes?.length) return null;
  const group = key.startsWith("g") ? Number(key.slice(1)) : -1;
  const run = group >= 0 ? view.groups.run[group] : -1;
  const place = placeOf!(nodes[0]);
  return run >= 0 ? `g${view.runs[run].groups[place]}` : `n${nodes[0]}`;
}

/** Decorations of edges: those without gradient are faint; if there are too many, all are hidden. */
export function withEdges(base: Decorations, drawn: Drawn, noGradient: ReadonlySet<number>, areHidden: boolean): Decorations {
  if (areHidden) return base.otherEdges ? base : { ...base, otherEdges: "hidden" };
  if (!noGradient.size) return base;
  const { view, picture, nodeBoxes } = drawn;
  const n = picture.boxes.length;
  const carrying = new Set<number>();
  view.edges.parent.forEach((parent, edge) => {
    if (!noGradient.has(edge)) carrying.add(nodeBoxes.box[parent] * n + nodeBoxes.box[view.edges.child[edge]]);
  });
  const numbers = new Map(picture.boxes.map(({ key }, number) => [key, number]));
  const edges = new Map<string, EdgeLook>(base.edges);
  for (const { parent, child } of picture.edges) {
    const upper = picture.boxes[parent];
    const from = upper.stands_for.length ? upper.stands_for.map((key) => numbers.get(key) ?? -1) : [parent];
    const key = edgeKey(upper.key, picture.boxes[child].key);
    if (!edges.has(key) && !from.some((one) => carrying.has(one * n + child))) edges.set(key, "faint");
  }
  return { ...base, edges };
}
