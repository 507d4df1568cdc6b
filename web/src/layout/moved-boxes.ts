// Applies the offsets of boxes that the user moved: line ends follow, frames grow.

import type { Line, Placement, Point, Rect } from "./place";
import type { Picture } from "../lib/wire";

/** Key of a box → how far it is from its place. */
export type Offsets = ReadonlyMap<string, Point>;

export interface Moved {
  readonly placement: Placement;
  /** How far everything was shifted, so that nothing lies left of or above the corner. */
  readonly shift: Point;
}

const MARGIN = 14;

/** The same placement with boxes moved. */
export function moveBoxes(placement: Placement, { boxes, frames }: Picture, offsets: Offsets): Moved {
  const by = boxes.map(({ key }) => offsets.get(key));
  if (!by.some(Boolean)) return { placement, shift: [0, 0] };
  const placed = placement.boxes.map((rect, box) => (by[box] ? at(rect, by[box]) : rect));
  const around = placement.frames.map((rect) => ({ ...rect }));
  boxes.forEach(({ frame }, box) => {
    if (by[box]) for (let inner = placed[box], out = frame; out > 0; inner = around[out], out = frames[out].parent) around[out] = enclosing(around[out], inner);
  });
  const lines = placement.lines.map((line) => withEnds(line, placement.boxes[line.parent], by));
  const all = [...placed, ...around.slice(1)];
  const beyond = (side: "x" | "y"): number => Math.max(0, ...all.map((rect) => MARGIN - rect[side]));
  const offset = (side: "x" | "y"): number => Math.max(0, ...placement.boxes.map((rect) => MARGIN - rect[side]));
  // Only as far as a box was moved there: what lies near the corner by itself stays.
  const shift: Point = [Math.max(0, beyond("x") - offset("x")), Math.max(0, beyond("y") - offset("y"))];
  const move = (rect: Rect): Rect => at(rect, shift);
  const width = Math.max(placement.width, ...all.map((rect) => rect.x + rect.width + MARGIN)) + shift[0];
  const height = Math.max(placement.height, ...all.map((rect) => rect.y + rect.height + MARGIN)) + shift[1];
  return {
    shift,
    placement: {
      width, height, boxes: placed.map(move),
      frames: around.map((rect, frame) => (frame ? move(rect) : { ...rect, width, height })),
      lines: lines.map((line) => ({ ...line, points: line.points.map(([x, y]): Point => [x + shift[0], y + shift[1]]) })),
    },
  };
}

function at({ x, y, width, height }: Rect, [dx, dy]: Point): Rect {
  return { x: x + dx, y: y + dy, width, height };
}

function enclosing(outer: Rect, inner: Rect): Rect {
  const [x, y] = [Math.min(outer.x, inner.x - MARGIN), Math.min(outer.y, inner.y - MARGIN)];
  return {
    x, y,
    width: Math.max(outer.x + outer.width, inner.x + inner.width + MARGIN) - x,
    height: Math.max(outer.y + outer.height, inner.y + inner.height + MARGIN) - y,
  };
}

/** A line goes with the boxes at its ends; one that goes on where another ended does not begin at a box. */
function withEnds(line: Line, parent: Rect, by: readonly (Point | undefined)[]): Line {
  const start = by[line.parent];
  const end = line.child === null ? undefined : by[line.child];
  if (!start && !end) return line;
  const last = line.points.length - 1;
  const points = line.points.map(([x, y], i): Point => {
    const offset = i === 0 && touches(parent, line.points[0]) ? start : i === last ? end : undefined;
    return offset ? [x + offset[0], y + offset[1]] : [x, y];
  });
  return { ...line, points };
}

function touches({ x, y, width, height }: Rect, [px, py]: Point): boolean {
  return px >= x - 1 && px <= x + width + 1 && py >= y - 1 && py <= y + height + 1;
}

/** `n3:40:-20,g1:0:12` for two boxes. */
export function offsetsText(offsets: Offsets): string {
  return [...offsets].map(([key, [x, y]]) => `${key}:${Math.round(x)}:${Math.round(y)}`).join(",");
}

/** The offsets behind such a text. */
export function offsetsOf(text: string): Offsets {
  const found = [...text.matchAll(/([ng]\d+):(-?\d{1,6}):(-?\d{1,6})/g)];
  return new Map(found.map(([, key, x, y]) => [key, [Number(x), Number(y)]]));
}

/** The offsets with one box moved further; back at its place, it has none. */
export function movedBy(offsets: Offsets, key: string, [dx, dy]: Point): Offsets {
  const [x, y] = offsets.get(key) ?? [0, 0];
  const out = new Map(offsets);
  out.delete(key);
  return x + dx || y + dy ? out.set(key, [x + dx, y + dy]) : out;
}
