/** A cached bitmap of the painted picture: while the camera pans, only newly exposed areas are painted. */

import { itemsIn, paint } from "./paint/paint";
import type { Stage } from "./stage";
import type { Rect } from "./types";
import { areaOf } from "./view";
import type { View } from "./view";

/** If painting takes more milliseconds than this (rasterizing takes several times as long), a zoom first shows the old bitmap, scaled. */
const SLOW = 6;

/**
 * A ring buffer in two dimensions: a pixel of the picture is always at the same pixel of the bitmap, modulo its size. So
 * nothing is ever copied within the bitmap, which would cost more than all painting.
 */
export class Surface {
  private readonly canvas = document.createElement("canvas");
  // An opaque canvas is composited faster, and text on it may use subpixel antialiasing.
  private readonly ctx = this.canvas.getContext("2d", { alpha: false })!;
  private drawn: View | null = null;
  private cost = 0;

  /** Forget what is drawn. */
  clear(): void {
    this.drawn = null;
  }

  resize(width: number, height: number): void {
    if (this.canvas.width === width && this.canvas.height === height) return;
    this.canvas.width = width;
    this.canvas.height = height;
    this.drawn = null;
  }

  /** Paint what is missing for this view. Returns false if that was postponed because the zoom is still changing. */
  update(view: View, stage: Stage, isZooming: boolean): boolean {
    const { drawn } = this;
    const { width, height } = this.canvas;
    const isSame = drawn !== null && drawn.theme === view.theme;
    if (isSame && drawn.k === view.k) {
      for (const strip of exposedAreas(width, height, drawn.ox - view.ox, drawn.oy - view.oy)) this.draw(view, stage, strip);
      this.drawn = view;
      return true;
    }
    const change = isSame ? view.k / drawn.k : 0;
    // Scaled by more than 2, the old bitmap is too blurred, or covers too little of the screen.
    if (isZooming && this.cost > SLOW && change < 2 && change > 0.5) return false;
    const start = performance.now();
    this.draw(view, stage, { x: 0, y: 0, width, height });
    this.drawn = view;
    this.cost = performance.now() - start;
    return true;
  }

  /** Put the bitmap on the screen: pixel for pixel, or scaled where drawing was put off. */
  show(ctx: CanvasRenderingContext2D, view: View): void {
    const { drawn, canvas } = this;
    if (!drawn) return;
    const change = view.k / drawn.k;
    if (change !== 1) {
      ctx.fillStyle = view.theme.paper;
      ctx.fillRect(0, 0, canvas.width, canvas.height);
      ctx.imageSmoothingQuality = "low";
    }
    for (const { x, y, width, height } of this.unrolled(drawn, { x: 0, y: 0, width: canvas.width, height: canvas.height })) {
      const [left, top] = [modulo(x + drawn.ox, canvas.width), modulo(y + drawn.oy, canvas.height)];
      const [toX, toY] = [(x + drawn.ox) * change - view.ox, (y + drawn.oy) * change - view.oy];
      ctx.drawImage(canvas, left, top, width, height, toX, toY, width * change, height * change);
    }
  }

  private draw(view: View, stage: Stage, strip: Rect): void {
    const { ctx, canvas } = this;
    for (const { x, y, width, height } of this.unrolled(view, strip)) {
      const [ox, oy] = [x + view.ox - modulo(x + view.ox, canvas.width), y + view.oy - modulo(y + view.oy, canvas.height)];
      const [left, top] = [x + view.ox - ox, y + view.oy - oy];
      ctx.save();
      ctx.beginPath();
      ctx.rect(left, top, width, height);
      ctx.clip();
      ctx.fillStyle = view.theme.paper;
      ctx.fillRect(left, top, width, height);
      paint(ctx, { ...view, ox, oy }, itemsIn(stage, areaOf(view, x, y, width, height)));
      ctx.restore();
    }
  }

  private unrolled({ ox, oy }: View, area: Rect): Rect[] {
    return cut(area, ox, oy, this.canvas.width, this.canvas.height);
  }
}

/** An area of the screen, split where the ring buffer wraps around. */
export function cut(area: Rect, ox: number, oy: number, width: number, height: number): Rect[] {
  const along = (from: number, length: number, offset: number, whole: number): [number, number][] => {
    const first = Math.min(length, whole - modulo(from + offset, whole));
    return first < length ? [[from, first], [from + first, length - first]] : [[from, length]];
  };
  return along(area.x, area.width, ox, width).flatMap(([x, wide]) =>
    along(area.y, area.height, oy, height).map(([y, high]) => ({ x, y, width: wide, height: high })));
}

/** The newly exposed area after a pan: up to two strips that do not overlap. */
export function exposedAreas(width: number, height: number, dx: number, dy: number): Rect[] {
  if (Math.abs(dx) >= width || Math.abs(dy) >= height) return [{ x: 0, y: 0, width, height }];
  const strips: Rect[] = [];
  if (dx) strips.push({ x: dx > 0 ? 0 : width + dx, y: 0, width: Math.abs(dx), height });
  if (dy) strips.push({ x: Math.max(dx, 0), y: dy > 0 ? 0 : height + dy, width: width - Math.abs(dx), height: Math.abs(dy) });
  return strips;
}

function modulo(value: number, whole: number): number {
  // % keeps the sign of the dividend.
  return ((value % whole) + whole) % whole;
}
