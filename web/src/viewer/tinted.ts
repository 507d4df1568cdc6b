// The looks of boxes under a statistic: a strip or a fill for each, and signs for what no colour can tell.

import type { Decorations, EdgeLook, Look } from "../canvas";
import { edgeKey } from "../canvas";
import type { Drawn } from "../app/decorate";
import { at, css, type ColourScale } from "../lib/colours";
import { foremost, placeOn, type Oddity, type Tints } from "../lib/tinting";

/** Not on any ramp, by day and by night. */
export const ODD: Readonly<Record<Exclude<Oddity, "">, string>> = { nonfinite: "#e000e0", zero: "#868c95", none: "transparent" };

/** Steps of a ramp that nobody can tell apart. */
const SHADES = 200;

export interface Tinting {
  readonly tints: Tints;
  readonly scale: ColourScale | null;
  /** Whether colours fill the boxes, not only a strip. */
  readonly isFilled: boolean;
  /** Which of the nodes of a box count: those of the iteration that is looked at, where it stands for several. */
  chosen(nodes: readonly number[]): readonly number[];
}

type Draft = { -readonly [K in keyof Look]: Look[K] };

/** The looks there are, with colours over them. */
export function tinted(base: Decorations, drawn: Drawn, { tints, scale, isFilled, chosen }: Tinting): Decorations {
  const boxes = new Map(base.boxes);
  const shades: string[] = [];
  drawn.picture.boxes.forEach(({ key, kind }, number) => {
    if (kind === "standin") return;
    const { node, oddity } = foremost(tints, chosen(drawn.shown.nodes[number]));
    const place = node < 0 ? null : placeOn(scale, tints.values[node]);
    const look: Draft = { ...base.boxes.get(key) };
    if (oddity === "nonfinite") {
      look.strip = ODD.nonfinite;
      look.badge ??= "NaN";
    } else if (oddity === "zero") {
      look.strip = ODD.zero;
      look.badge ??= "all 0";
    } else if (place !== null && scale) {
      const step = Math.round(place * SHADES);
      look.strip = shades[step] ??= css(at(scale.ramp, step / SHADES));
    } else return;
    if (isFilled) look.fill = look.strip;
    boxes.set(key, look);
  });
  return { ...base, boxes };
}

/** The looks of edges where those that carry no gradient are faint, and where there are too many, all are hidden. */
export function withEdges(base: Decorations, drawn: Drawn, noGradient: ReadonlySet<number>, areHidden: boolean): Decorations {
  if (areHidden) return base.otherEdges ? base : { ...base, otherEdges: "hidden" };
  if (!noGradient.size) return base;
  const { view, picture, shown } = drawn;
  const n = picture.boxes.length;
  const carrying = new Set<number>();
  view.edges.parent.forEach((parent, edge) => {
    if (!noGradient.has(edge)) carrying.add(shown.box[parent] * n + shown.box[view.edges.child[edge]]);
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
