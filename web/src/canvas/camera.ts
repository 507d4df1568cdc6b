/** The camera: pan, zoom, fit. Screen coordinates are CSS pixels, picture coordinates are layout units. */

import type { Camera, Point, Rect } from "./types";

export interface Size {
  readonly width: number;
  readonly height: number;
}

export const NEAREST = 4;
/** Below this scale, text is too small to read. */
const READABLE = 0.45;
const FIRST = 0.8;

/** Picture coordinates to screen coordinates. */
export function toScreen(camera: Camera, x: number, y: number): Point {
  return [(x - camera.x) * camera.scale, (y - camera.y) * camera.scale];
}

/** Screen coordinates to picture coordinates. */
export function toPicture(camera: Camera, x: number, y: number): Point {
  return [x / camera.scale + camera.x, y / camera.scale + camera.y];
}

/** The part of the picture that is on the screen. */
export function inView(camera: Camera, size: Size): Rect {
  return { x: camera.x, y: camera.y, width: size.width / camera.scale, height: size.height / camera.scale };
}

export function panCamera(camera: Camera, dx: number, dy: number): Camera {
  return { ...camera, x: camera.x + dx / camera.scale, y: camera.y + dy / camera.scale };
}

/** Zoom by a factor; the point at (x, y) of the screen stays in place. */
export function zoomCamera(camera: Camera, factor: number, x: number, y: number, farthest: number): Camera {
  const scale = Math.min(NEAREST, Math.max(farthest, camera.scale * factor));
  return { x: camera.x + x / camera.scale - x / scale, y: camera.y + y / camera.scale - y / scale, scale };
}

/** Center a rectangle on the screen, as large as fits, at most at the scale `nearest`. */
export function fitCamera(rect: Rect, size: Size, margin = 24, nearest = 1): Camera {
  const room = (whole: number): number => Math.max(whole - 2 * margin, whole / 2, 1);
  const scale = Math.min(nearest, room(size.width) / Math.max(rect.width, 1), room(size.height) / Math.max(rect.height, 1));
  return {
    x: rect.x + rect.width / 2 - size.width / scale / 2,
    y: rect.y + rect.height / 2 - size.height / scale / 2,
    scale,
  };
}

/** The initial view: everything, or, if text would be unreadable, the start of the picture. */
export function initialCamera(rect: Rect, size: Size, margin = 24): Camera {
  const whole = fitCamera(rect, size, margin);
  if (whole.scale >= READABLE || size.width <= 0) return whole;
  const isWide = rect.width / size.width > rect.height / size.height;
  const across = isWide ? (size.height - 2 * margin) / rect.height : (size.width - 2 * margin) / rect.width;
  const scale = Math.max(whole.scale, Math.min(FIRST, across));
  const middle = { x: rect.x + rect.width / 2 - size.width / scale / 2, y: rect.y + rect.height / 2 - size.height / scale / 2 };
  const start = { x: rect.x - margin / scale, y: rect.y - margin / scale };
  return isWide ? { x: start.x, y: middle.y, scale } : { x: middle.x, y: start.y, scale };
}

/** Fit these boxes into the part of the screen that overlays leave free, unless that part is too small. */
export function avoidCovered(covered: readonly Rect[], boxes: Iterable<Rect>, size: Size, look: (size: Size) => Camera): Camera {
  const whole = look(size);
  const seen = covered.filter(({ width, height }) => width > 0 && height > 0);
  if (!seen.length || !isAnyCovered(seen, boxes, whole)) return whole;
  const bottom = Math.min(...seen.map(({ y }) => y));
  const left = Math.max(...seen.map(({ x, width }) => x + width));
  const above = look({ width: size.width, height: bottom });
  const beside = look({ width: size.width - left, height: size.height });
  const moved = { ...beside, x: beside.x - left / beside.scale };
  const best = above.scale >= moved.scale ? above : moved;
  const room = best === above ? bottom / size.height : 1 - left / size.width;
  return room > 0.45 ? best : whole;
}

function isAnyCovered(covered: readonly Rect[], boxes: Iterable<Rect>, camera: Camera): boolean {
  for (const box of boxes) {
    const [x, y] = toScreen(camera, box.x, box.y);
    const onScreen = { x, y, width: box.width * camera.scale, height: box.height * camera.scale };
    if (covered.some((rect) => intersects(rect, onScreen))) return true;
  }
  return false;
}

/** Move the camera as little as needed to show the whole rectangle; if it is too large, its upper left corner. */
export function revealRect(camera: Camera, rect: Rect, size: Size, margin = 40): Camera {
  const along = (at: number, from: number, length: number, whole: number): number => {
    const pad = Math.min(margin, Math.max(0, (whole - length * camera.scale) / 2)) / camera.scale;
    const room = whole / camera.scale;
    if (from - pad < at) return from - pad;
    return Math.max(at, Math.min(from + length + pad - room, from - pad));
  };
  return {
    x: along(camera.x, rect.x, rect.width, size.width),
    y: along(camera.y, rect.y, rect.height, size.height),
    scale: camera.scale,
  };
}

/** Limit the pan so that part of the picture stays on the screen. */
export function clampCamera(camera: Camera, picture: Size, size: Size): Camera {
  const keep = 60 / camera.scale;
  const along = (at: number, length: number, whole: number): number =>
    Math.min(Math.max(at, keep - whole / camera.scale), length - keep);
  if (picture.width <= 0) return camera;
  const kept = (length: number): number => Math.max(length, 2 * keep);
  return {
    x: along(camera.x, kept(picture.width), size.width),
    y: along(camera.y, kept(picture.height), size.height),
    scale: camera.scale,
  };
}

/** Interpolate between two cameras. The scale changes geometrically, so that the zoom looks even and the path straight. */
export function interpolateCamera(a: Camera, b: Camera, t: number): Camera {
  if (Math.abs(b.scale / a.scale - 1) < 1e-6) {
    return { x: a.x + (b.x - a.x) * t, y: a.y + (b.y - a.y) * t, scale: b.scale };
  }
  const scale = a.scale * (b.scale / a.scale) ** t;
  const share = (1 / a.scale - 1 / scale) / (1 / a.scale - 1 / b.scale);
  return { x: a.x + (b.x - a.x) * share, y: a.y + (b.y - a.y) * share, scale };
}

/** Easing from 0 to 1, slow at both ends. */
export function easeInOut(t: number): number {
  const x = Math.min(1, Math.max(0, t));
  return x < 0.5 ? 4 * x ** 3 : 1 - (2 - 2 * x) ** 3 / 2;
}

export function intersects(a: Rect, b: Rect): boolean {
  return a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height;
}

/** The smallest rectangle around all of these; null if there are none. */
export function boundingRect(rects: Iterable<Rect>): Rect | null {
  let [left, top, right, bottom] = [Infinity, Infinity, -Infinity, -Infinity];
  for (const rect of rects) {
    left = Math.min(left, rect.x);
    top = Math.min(top, rect.y);
    right = Math.max(right, rect.x + rect.width);
    bottom = Math.max(bottom, rect.y + rect.height);
  }
  return left <= right ? { x: left, y: top, width: right - left, height: bottom - top } : null;
}
