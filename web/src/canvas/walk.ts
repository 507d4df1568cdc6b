/** Arrow-key navigation: along edges in the direction of the layout, to neighboring boxes across it. */

import type { Stage } from "./stage";
import type { Direction, Rect } from "./types";

type Step = "before" | "after" | "less" | "more";

const DOWN: Record<Direction, Step> = { up: "before", down: "after", left: "less", right: "more" };
const RIGHT: Record<Direction, Step> = { left: "before", right: "after", up: "less", down: "more" };

export function neighbor(stage: Stage, key: string, direction: Direction): string | null {
  const step = (stage.isRight ? RIGHT : DOWN)[direction];
  const here = stage.rect(key);
  if (!here) return null;
  if (step === "before" || step === "after") return alongEdges(stage, key, here, step);
  return besideKey(stage, key, here, step);
}

function alongEdges(stage: Stage, key: string, here: Rect, step: "before" | "after"): string | null {
  const box = stage.boxOf.get(key);
  const inside = box === undefined ? stage.boxesIn(stage.frameOf.get(key)!) : [box];
  const isInside = new Set(inside);
  const edges = stage.edgesAt()[step];
  const ends = inside.flatMap((i) => edges[i]!).map((i) => {
    const edge = stage.scene.picture.edges[i]!;
    return step === "before" ? edge.parent : edge.child;
  });
  const others = ends.filter((end) => !isInside.has(end));
  const stands = box === undefined || step === "after" ? undefined : stage.boxes[box]!.box.stands_for?.find((each) => stage.boxOf.has(each));
  return nearest(stage, here, others) ?? stands ?? null;
}

/** The box with the smallest distance across the flow, then along it. */
function nearest(stage: Stage, here: Rect, boxes: readonly number[]): string | null {
  let best: { key: string; off: number } | null = null;
  for (const i of boxes) {
    const item = stage.boxes[i]!;
    const [dx, dy] = [middleX(item) - middleX(here), middleY(item) - middleY(here)];
    const off = stage.isRight ? Math.abs(dy) + Math.abs(dx) / 100 : Math.abs(dx) + Math.abs(dy) / 100;
    if (!best || off < best.off) best = { key: item.box.key, off };
  }
  return best?.key ?? null;
}

function besideKey(stage: Stage, key: string, here: Rect, step: "less" | "more"): string | null {
  const far = 1e7;
  const band = stage.isRight
    ? { x: here.x, y: step === "less" ? here.y - far : here.y + here.height, width: here.width, height: far }
    : { x: step === "less" ? here.x - far : here.x + here.width, y: here.y, width: far, height: here.height };
  const along = (rect: Rect): number => (stage.isRight ? middleY(rect) - middleY(here) : middleX(rect) - middleX(here));
  const home = stage.boxes[stage.boxOf.get(key) ?? -1]?.box.frame;
  let best: { key: string; off: number } | null = null;
  for (const i of stage.boxGrid.within(band)) {
    const item = stage.boxes[i]!;
    const away = along(item) * (step === "less" ? -1 : 1);
    if (away <= 0 || item.box.key === key) continue;
    // Its own frame first: neighbors in a frame belong together.
    const off = away + (home !== undefined && item.box.frame !== home ? far : 0);
    if (!best || off < best.off) best = { key: item.box.key, off };
  }
  return best?.key ?? null;
}

function middleX(rect: Rect): number {
  return rect.x + rect.width / 2;
}

function middleY(rect: Rect): number {
  return rect.y + rect.height / 2;
}
