/** The animation between two scenes: shared boxes move, new ones grow out of their frame, removed ones shrink into it. */

import { interpolateCamera, easeInOut, intersects, inView } from "./camera";
import type { Size } from "./camera";
import type { Items } from "./paint/paint";
import type { BoxItem, FrameItem, LineItem, Stage } from "./stage";
import type { Camera, Point, Rect } from "./types";

/** With more visible boxes than this, the animation is skipped: it would stutter. */
const MOST = 1500;

interface Transition {
  readonly from: Rect;
  readonly to: Rect;
  readonly fade: "in" | "out" | "none";
}

interface End {
  readonly stage: Stage;
  readonly camera: Camera;
}

export class Glide {
  private readonly boxes: (Transition & { item: BoxItem })[] = [];
  private readonly frames: (Transition & { item: FrameItem })[] = [];
  private readonly lines: { item: LineItem; from: readonly Point[] | null; isNew: boolean }[] = [];

  constructor(private readonly before: End, private readonly after: End, private readonly size: Size) {
    const { stage: old } = before;
    const { stage: now } = after;
    // Only items visible at the start or the end: preparing all 20,000 boxes would take longer than the animation.
    const was = old.boxGrid.within(inView(before.camera, size));
    const coming = new Set(now.boxGrid.within(inView(after.camera, size)));
    for (const i of was) {
      const item = old.boxes[i]!;
      const there = now.boxOf.get(item.box.key);
      if (there !== undefined) coming.add(there);
      else this.boxes.push({ item, from: item, to: placeIn(now, old, item.box.key, item.box.frame, item), fade: "out" });
    }
    for (const i of coming) {
      const item = now.boxes[i]!;
      const from = placeIn(old, now, item.box.key, item.box.frame, item);
      this.boxes.push({ item, from, to: item, fade: old.boxOf.has(item.box.key) ? "none" : "in" });
    }
    now.frames.forEach((item, i) => {
      if (!i) return;
      const from = placeIn(old, now, item.frame.key, item.frame.parent, item);
      this.addFrame(item, from, item, old.frameOf.has(item.frame.key) ? "none" : "in");
    });
    old.frames.forEach((item, i) => {
      if (!i || now.frameOf.has(item.frame.key)) return;
      this.addFrame(item, item, placeIn(now, old, item.frame.key, item.frame.parent, item), "out");
    });
    this.addLines();
  }

  /** Whether there is anything to animate, and not too much. */
  get isWorthIt(): boolean {
    const moves = this.before.camera !== this.after.camera || [...this.boxes, ...this.frames].some(({ fade, from, to }) =>
      fade !== "none" || from.x !== to.x || from.y !== to.y);
    return moves && this.boxes.length <= MOST;
  }

  /** The frame at time `t`, from 0 to 1. */
  at(t: number): Items & { camera: Camera } {
    const s = easeInOut(t);
    // Removed items fade out early and new items fade in late, so that they do not show through each other.
    const alpha = { in: ramp(t, 0.2, 0.85), out: 1 - ramp(t, 0, 0.5), none: 1 };
    const frameAlpha = { ...alpha, in: ramp(t, 0, 0.3) };
    return {
      camera: interpolateCamera(this.before.camera, this.after.camera, s),
      frames: this.frames.map(({ item, from, to, fade }) => ({ ...item, ...interpolateRect(from, to, s), alpha: frameAlpha[fade] })),
      boxes: this.boxes.filter(({ fade }) => alpha[fade] > 0)
        .map(({ item, from, to, fade }) => ({ ...item, ...interpolateRect(from, to, s), alpha: alpha[fade], isBare: isTooSmallForText(fade, s) })),
      lines: this.lines.map(({ item, from, isNew }) => from
        ? { ...item, points: item.points.map(([x, y], i): Point => [interpolatePoints(from[i]![0], x, s), interpolatePoints(from[i]![1], y, s)]) }
        : { ...item, alpha: isNew ? ramp(t, 0.5, 1) : 1 - ramp(t, 0, 0.35) }),
    };
  }

  private isSeen(from: Rect, to: Rect): boolean {
    return intersects(from, inView(this.before.camera, this.size)) || intersects(to, inView(this.after.camera, this.size));
  }

  private addFrame(item: FrameItem, from: Rect, to: Rect, fade: Transition["fade"]): void {
    if (this.isSeen(from, to)) this.frames.push({ item, from, to, fade });
  }

  private addLines(): void {
    const seen = ({ stage, camera }: End): Map<string, number> => linesByEnds(stage, stage.lineGrid.within(inView(camera, this.size)));
    const [old, now] = [seen(this.before), seen(this.after)];
    for (const [name, i] of now) {
      const item = this.after.stage.lines[i]!;
      const was = old.get(name);
      const from = was === undefined ? null : this.before.stage.lines[was]!.points;
      const isAlike = from !== null && from.length === item.points.length;
      if (isAlike) old.delete(name);
      this.lines.push({ item, from: isAlike ? from : null, isNew: true });
    }
    for (const i of old.values()) this.lines.push({ item: this.before.stage.lines[i]!, from: null, isNew: false });
  }
}

/** Lines by their ends; several between the same ends are numbered. */
function linesByEnds(stage: Stage, lines: readonly number[]): Map<string, number> {
  const { boxes, frames } = stage.scene.picture;
  const names = new Map<string, number>();
  for (const i of lines) {
    const line = stage.scene.placement.lines[i]!;
    const name = `${boxes[line.parent]!.key}>${line.child === null ? "" : boxes[line.child]!.key}|${line.frame === null ? "" : frames[line.frame]!.key}`;
    let count = 0;
    while (names.has(`${name}#${count}`)) count++;
    names.set(`${name}#${count}`, i);
  }
  return names;
}

/** The position of an item in another stage: by its own key, or relative to the nearest frame around it that is there. */
export function placeIn(other: Stage, own: Stage, key: string, frame: number, rect: Rect): Rect {
  const there = other.rect(key);
  if (there) return there;
  for (let i = frame; i > 0; i = own.frames[i]!.frame.parent) {
    const around = own.frames[i]!;
    const home = other.rect(around.frame.key);
    if (home) return mapRect(rect, around, home);
  }
  return rect;
}

/** The item of both scenes nearest to the center of the screen; null if none was visible. */
export function nearestToCenter(old: Stage, now: Stage, view: Rect): string | null {
  const [x, y] = [view.x + view.width / 2, view.y + view.height / 2];
  let best: { key: string; off: number } | null = null;
  const consider = (key: string, rect: Rect): void => {
    if (!intersects(rect, view) || !now.rect(key)) return;
    const off = Math.hypot(rect.x + rect.width / 2 - x, rect.y + rect.height / 2 - y);
    if (!best || off < best.off) best = { key, off };
  };
  for (const item of old.boxes) consider(item.box.key, item);
  old.frames.forEach((item, i) => { if (i && !best) consider(item.frame.key, item); });
  return (best as { key: string } | null)?.key ?? null;
}

/** The same place relative to another rectangle. */
export function mapRect(rect: Rect, from: Rect, to: Rect): Rect {
  const [sx, sy] = [to.width / from.width, to.height / from.height];
  return { x: to.x + (rect.x - from.x) * sx, y: to.y + (rect.y - from.y) * sy, width: rect.width * sx, height: rect.height * sy };
}

/** Whether a box is so small during the animation that its text would overlap its neighbors. */
function isTooSmallForText(fade: Transition["fade"], s: number): boolean {
  return (fade === "in" && s < 0.7) || (fade === "out" && s > 0.3);
}

function interpolateRect(from: Rect, to: Rect, t: number): Rect {
  return {
    x: interpolatePoints(from.x, to.x, t), y: interpolatePoints(from.y, to.y, t), width: interpolatePoints(from.width, to.width, t), height: interpolatePoints(from.height, to.height, t),
  };
}

function interpolatePoints(from: number, to: number, t: number): number {
  return from + (to - from) * t;
}

function ramp(t: number, from: number, to: number): number {
  return Math.min(1, Math.max(0, (t - from) / (to - from)));
}

/** The camera that keeps an item in place on the screen, and visible. */
export function anchorCamera(camera: Camera, from: Rect, to: Rect, size: Size, isRight: boolean): Camera {
  const { scale } = camera;
  // The middle of the side where edges arrive stays in place, so everything before it does not move at all.
  if (isRight) {
    const left = clamp((from.x - camera.x) * scale, EDGE, size.width - Math.min(to.width * scale, 200) - EDGE);
    const middle = across(from.y + from.height / 2 - camera.y, to.height, size.height, scale);
    return { x: to.x - left / scale, y: to.y + to.height / 2 - middle / scale, scale };
  }
  const top = clamp((from.y - camera.y) * scale, EDGE, size.height - Math.min(to.height * scale, 120) - EDGE);
  const middle = across(from.x + from.width / 2 - camera.x, to.width, size.width, scale);
  return { x: to.x + to.width / 2 - middle / scale, y: to.y - top / scale, scale };
}

const EDGE = 12;

function across(middle: number, length: number, room: number, scale: number): number {
  const half = (length * scale) / 2;
  return clamp(middle * scale, Math.min(half, room - half), Math.max(half, room - half));
}

function clamp(value: number, low: number, high: number): number {
  return Math.min(Math.max(value, low), Math.max(low, high));
}
