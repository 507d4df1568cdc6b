/** Paints boxes, batched: one path per style. */

import type { BoxItem } from "../stage";
import type { Style } from "./style";
import type { Context, View } from "../view";

interface Pixels {
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
}

/** A box on the screen, its sides between pixels so that its outline is sharp. */
export function pixels(item: BoxItem, view: View): Pixels {
  const x = Math.round(item.x * view.k - view.ox);
  const y = Math.round(item.y * view.k - view.oy);
  return {
    x: x + 0.5, y: y + 0.5,
    width: Math.max(1, Math.round((item.x + item.width) * view.k - view.ox) - x - 1),
    height: Math.max(1, Math.round((item.y + item.height) * view.k - view.oy) - y - 1),
  };
}

export function radiusOf(style: Style, rect: Pixels, view: View): number {
  return Math.min(style.isRound ? 14 * view.k : 4 * view.k, rect.height / 2, rect.width / 2);
}

/** Plain rectangles in the most important color of each box. */
export function paintCoarse(ctx: Context, view: View, items: readonly BoxItem[]): void {
  const colorOf = ({ look, style }: BoxItem): string => look?.strip ?? (look?.holds === "zero" ? view.theme.panel : look?.holds === "nan" ? view.theme.plum : look?.holds === "inf" ? view.theme.ink : style.coarse);
  const groups = groupByKeys(items, (item) => `${colorOf(item)}|${item.alpha * item.style.alpha}`);
  const { k, ox, oy } = view;
  for (const group of groups) {
    const first = group[0]!;
    ctx.globalAlpha = first.alpha * first.style.alpha;
    ctx.fillStyle = colorOf(first);
    for (const { x, y, width, height } of group) {
      ctx.fillRect(Math.round(x * k - ox), Math.round(y * k - oy), Math.max(1, Math.round(width * k)), Math.max(1, Math.round(height * k)));
    }
  }
  ctx.globalAlpha = 1;
}

/** Bodies and outlines. */
export function paintBodies(ctx: Context, view: View, items: readonly BoxItem[]): void {
  for (const item of items) if (item.box.stack > 1) cards(ctx, view, item);
  for (const group of groupByKeys(items, (item) => item.style, (item) => item.alpha)) {
    const { style, alpha } = group[0]!;
    ctx.globalAlpha = style.alpha * alpha;
    ctx.beginPath();
    for (const item of group) outline(ctx, view, item);
    if (style.alpha * alpha < 1) {
      // Lines must not show through a dimmed box.
      ctx.fillStyle = view.theme.paper;
      ctx.fill();
    }
    ctx.fillStyle = style.fill;
    ctx.fill();
    ctx.strokeStyle = style.stroke;
    ctx.lineWidth = Math.max(1, style.width * view.dpr * Math.min(1.5, Math.max(0.7, view.scale)));
    ctx.setLineDash(style.dash.map((length) => Math.max(length * view.k, 1)));
    ctx.stroke();
    if (style.isDouble && view.scale > 0.3) {
      ctx.lineWidth = Math.max(1, 0.8 * view.dpr);
      ctx.beginPath();
      for (const item of group) outline(ctx, view, item, 3 * view.k);
      ctx.stroke();
    }
  }
  ctx.globalAlpha = 1;
  ctx.setLineDash([]);
}

/** The path around a box. */
export function outline(ctx: Context, view: View, item: BoxItem, inset = 0): void {
  const rect = pixels(item, view);
  if (item.style.shape !== "plain") {
    polygon(ctx, corners(item.style.shape, rect, inset));
    return;
  }
  const radius = Math.max(0, radiusOf(item.style, rect, view) - inset);
  const [width, height] = [rect.width - 2 * inset, rect.height - 2 * inset];
  if (width <= 0 || height <= 0) return;
  if (radius < 1) ctx.rect(rect.x + inset, rect.y + inset, width, height);
  else ctx.roundRect(rect.x + inset, rect.y + inset, width, height, radius);
}

type Corner = readonly [number, number];

/** The corners of a box that is no rectangle: pointed at both ends, or with its corners cut off. */
export function corners(shape: "hexagon" | "octagon", { x, y, width, height }: Pixels, inset = 0): Corner[] {
  const [left, top, right, bottom] = [x + inset, y + inset, x + width - inset, y + height - inset];
  if (right <= left || bottom <= top) return [];
  const middle = (top + bottom) / 2;
  const cut = Math.min((bottom - top) / (shape === "hexagon" ? 2 : 3), (right - left) / 4) * (shape === "hexagon" ? 0.75 : 1);
  if (shape === "hexagon") return [[left, middle], [left + cut, top], [right - cut, top], [right, middle], [right - cut, bottom], [left + cut, bottom]];
  return [
    [left + cut, top], [right - cut, top], [right, top + cut], [right, bottom - cut],
    [right - cut, bottom], [left + cut, bottom], [left, bottom - cut], [left, top + cut],
  ];
}

function polygon(ctx: Context, path: readonly Corner[]): void {
  path.forEach(([x, y], i) => (i ? ctx.lineTo(x, y) : ctx.moveTo(x, y)));
  if (path.length) ctx.closePath();
}

/** Stroke the outline of one box, inset by some pixels. */
export function outlineOf(ctx: Context, view: View, item: BoxItem, inset: number): void {
  ctx.beginPath();
  outline(ctx, view, item, inset);
  ctx.stroke();
}

// Two more cards behind it show that it stands for several.
function cards(ctx: Context, view: View, item: BoxItem): void {
  const rect = pixels(item, view);
  const radius = radiusOf(item.style, rect, view);
  ctx.globalAlpha = item.alpha * item.style.alpha;
  ctx.strokeStyle = item.style.stroke;
  ctx.lineWidth = view.dpr;
  for (const step of [2, 1]) {
    const by = Math.round(step * 3.5 * view.k);
    ctx.beginPath();
    ctx.roundRect(rect.x + by, rect.y + by, rect.width, rect.height, radius);
    ctx.fillStyle = view.theme.paper;
    ctx.fill();
    ctx.fillStyle = item.style.fill;
    ctx.fill();
    ctx.stroke();
  }
  ctx.beginPath();
  ctx.roundRect(rect.x, rect.y, rect.width, rect.height, radius);
  ctx.fillStyle = view.theme.paper;
  ctx.fill();
}

/** Items with the same keys together. */
function groupByKeys(items: readonly BoxItem[], ...keys: ((item: BoxItem) => unknown)[]): BoxItem[][] {
  let groups: BoxItem[][] = [[...items]];
  for (const key of keys) {
    groups = groups.flatMap((group) => {
      const parts = new Map<unknown, BoxItem[]>();
      for (const item of group) {
        const value = key(item);
        const part = parts.get(value);
        if (part) part.push(item);
        else parts.set(value, [item]);
      }
      return [...parts.values()];
    });
  }
  return groups;
}
