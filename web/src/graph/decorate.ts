// Decorations of boxes: colored and sized by a measure, matched by a search, highlighted or dimmed.

import { edgeKey, type Decorations, type EdgeLook, type Look } from "../canvas/types";
import { colorAt, css, isOnScale, position, scaleOf, type ColorScale } from "../lib/colors";
import type { NodeMask } from "../lib/reachability";
import type { Found } from "../lib/search";
import { aggregate, type NodeBoxes } from "../layout/box-of-node";
import type { Representatives } from "../layout/representatives";
import type { Fold, GraphView, Measure, Picture } from "../lib/wire";
import { quantity } from "../lib/formatting";

/** Color of the end of a path, visible on light and dark backgrounds. */
const OTHER = "#e0862c";
/** Number of color steps: more are indistinguishable. */
const SHADES = 400;

/** What is drawn now. */
export interface Drawn {
  readonly view: GraphView;
  readonly fold: Fold;
  readonly picture: Picture;
  readonly nodeBoxes: NodeBoxes;
  readonly representatives: Representatives;
}

/** A measure for every box, and the scale that colors it. */
export interface BoxMeasure {
  readonly measure: Measure;
  readonly values: readonly (number | null)[];
  readonly scale: ColorScale | null;
}

/** What the looks depend on. */
export interface DecorationInput {
  readonly color: BoxMeasure | null;
  readonly size: BoxMeasure | null;
  readonly reached: NodeMask | null;
  readonly found: Found | null;
  /** The other end of paths. */
  readonly second: string | null;
}

/** A measure by box. The color range of sums covers the visible boxes, that of other measures the whole graph. */
export function boxMeasure({ picture, nodeBoxes }: Drawn, measure: Measure, isDark: boolean): BoxMeasure {
  const values = picture.boxes.map((_, box) => aggregate(measure, nodeBoxes.nodes[box]));
  return { measure, values, scale: scaleOf(measure, measure.total === "sum" ? values : measure.values, isDark) };
}

type Draft = { -readonly [K in keyof Look]: Look[K] };

/** The looks of all boxes and edges. */
export function decorations(drawn: Drawn, asked: DecorationInput): Decorations {
  const { picture, nodeBoxes } = drawn;
  const found = asked.found ? counts(drawn, asked.found) : null;
  const color = asked.color?.scale ? shades(asked.color.scale) : null;
  const boxes = new Map<string, Look>();
  const keep = (key: string, look: Draft): void => {
    for (const _ in look) return void boxes.set(key, look);
  };
  picture.boxes.forEach(({ key, group, stack }, number) => {
    const look: Draft = {};
    const value = asked.color?.values[number];
    if (color && asked.color?.scale && isOnScale(asked.color.scale, value)) look.strip = color(value);
    if (asked.size) addSize(look, asked.size, number);
    if (asked.reached) addReached(look, asked.reached, nodeBoxes.nodes[number]);
    if (found) addFound(look, found, key);
    const action = actionOf(drawn, group, stack);
    if (action) look.action = action;
    if (key === asked.second) [look.ring, look.note] = [OTHER, "to here"];
    keep(key, look);
  });
  const lit = asked.reached && highlightedFrames(drawn, asked.reached);
  for (const { key, group, stack } of picture.frames.slice(1)) {
    const look: Draft = {};
    const action = actionOf(drawn, group, stack);
    if (action) look.action = action;
    if (lit && !lit.has(key)) look.dim = true;
    if (found?.has(key)) look.strong = true;
    keep(key, look);
  }
  if (!asked.reached) return { boxes, edges: new Map() };
  return { boxes, edges: highlightedEdges(drawn, asked.reached), otherEdges: "faint" };
}

/** Label of the button of a block among identical ones: show all, or, at the first of all, show once. */
function actionOf({ view: { groups, runs }, fold }: Drawn, group: number, stack: number): string {
  if (stack > 1) return `show all ${stack}`;
  const run = group > 0 ? groups.run[group] : -1;
  return run >= 0 && fold.apart.includes(run) && runs[run].groups[0] === group ? "show once" : "";
}

/** Cache of colors: thousands of boxes share a few hundred. */
function shades(scale: ColorScale): (value: number) => string {
  const made: string[] = [];
  return (value) => {
    const step = Math.round(position(scale, value) * SHADES);
    return (made[step] ??= css(colorAt(scale.ramp, step / SHADES)));
  };
}

function addSize(look: Draft, { measure, scale, values }: BoxMeasure, box: number): void {
  const value = values[box];
  if (value === null || value === undefined || !scale) return;
  // Lengths are read as amounts, so sums are drawn in proportion, even where their color scale is logarithmic.
  const share = measure.total === "sum" ? Math.abs(value) / scale.high : position(scale, value);
  look.size = Number.isFinite(share) ? Math.max(0, Math.min(1, share)) : 1;
}

function addReached(look: Draft, reached: NodeMask, nodes: readonly number[]): void {
  let n = 0;
  for (const node of nodes) n += reached[node];
  if (n === 0) look.dim = true;
  else if (n < nodes.length) {
    look.badge = `${n.toLocaleString("en")} of ${nodes.length.toLocaleString("en")}`;
    look.about = `${look.badge} inside are highlighted`;
  }
}

function addFound(look: Draft, found: ReadonlyMap<string, number>, key: string): void {
  const n = found.get(key);
  if (n === undefined) return;
  look.strong = true;
  if (n > 1) {
    look.badge = n.toLocaleString("en");
    look.about = `${look.badge} matches inside`;
  }
}

/** Number of matches in each box or frame. */
export function counts({ view, picture, nodeBoxes, representatives }: Drawn, found: Found): Map<string, number> {
  const out = new Map<string, number>();
  const add = (key: string): void => void out.set(key, (out.get(key) ?? 0) + 1);
  for (const node of found.nodes) if (nodeBoxes.box[node] >= 0) add(picture.boxes[nodeBoxes.box[node]].key);
  const drawn = new Set([...picture.boxes, ...picture.frames].map(({ key }) => key));
  for (const group of found.groups) {
    const own = `g${representatives.representative(group)}`;
    if (drawn.has(own)) add(own);
    else {
      const box = nodeBoxes.box[view.groups.first[group]];
      if (box >= 0) add(picture.boxes[box].key);
    }
  }
  return out;
}

/** The keys of the frames around boxes that hold something reached. */
function highlightedFrames({ picture: { boxes, frames }, nodeBoxes }: Drawn, reached: NodeMask): Set<string> {
  const lit = new Set<string>();
  boxes.forEach(({ frame }, box) => {
    if (!nodeBoxes.nodes[box].some((node) => reached[node])) return;
    for (let at = frame; at > 0; at = frames[at].parent) lit.add(frames[at].key);
  });
  return lit;
}

/** The edges between boxes along which something reached leads to something reached. */
function highlightedEdges({ view, picture, nodeBoxes }: Drawn, reached: NodeMask): Map<string, EdgeLook> {
  const n = picture.boxes.length;
  const pairs = new Set<number>();
  view.edges.parent.forEach((parent, edge) => {
    const child = view.edges.child[edge];
    if (reached[parent] && reached[child]) pairs.add(nodeBoxes.box[parent] * n + nodeBoxes.box[child]);
  });
  const numbers = new Map(picture.boxes.map(({ key }, number) => [key, number]));
  const out = new Map<string, EdgeLook>();
  for (const { parent, child } of picture.edges) {
    const upper = picture.boxes[parent];
    const from = upper.stands_for.length ? upper.stands_for.map((key) => numbers.get(key) ?? -1) : [parent];
    if (from.some((one) => pairs.has(one * n + child))) out.set(edgeKey(upper.key, picture.boxes[child].key), "strong");
  }
  return out;
}

/** Tooltip line of a colored box: the value behind the color. */
export function describeValue(colored: BoxMeasure, box: number): string {
  const { measure, values } = colored;
  return `${measure.title} ${quantity(values[box] ?? null, measure.unit)}`;
}
