/** Paints edges, batched: one path per line style, then arrowheads, then labels. */

import { SMALL } from "./detail";
import type { LineItem } from "../stage";
import { toneAt } from "./theme";
import type { Point } from "../types";
import type { Context, View } from "../view";

const ALPHA = { strong: 1, plain: 1, faint: 0.22, hidden: 0 };
const WIDTH = { strong: 2.2, plain: 1.1, faint: 1, hidden: 0 };
/** Coordinates this close are equal; the static pictures use the same limit. */
const FLAT = 0.05;

export function paintLines(ctx: Context, view: View, lines: readonly LineItem[]): void {
  const groups = new Map<string, LineItem[]>();
  for (const line of lines) {
    if (line.look === "hidden" || line.alpha <= 0 || isTooShort(line, view)) continue;
    const key = `${line.look}|${line.isFeedback}|${line.isRemoved}|${line.alpha}`;
    const group = groups.get(key);
    if (group) group.push(line);
    else groups.set(key, [line]);
  }
  // Strong ones last, over the others.
  const ordered = [...groups.values()].sort((a, b) => WIDTH[a[0]!.look] - WIDTH[b[0]!.look]);
  for (const group of ordered) paintGroup(ctx, view, group);
  ctx.globalAlpha = 1;
  ctx.setLineDash([]);
}

function paintGroup(ctx: Context, view: View, group: readonly LineItem[]): void {
  const first = group[0]!;
  const isStrong = first.look === "strong";
  const color = isStrong ? view.theme.accent : first.isRemoved ? view.theme.bad : view.theme.edge;
  ctx.globalAlpha = ALPHA[first.look] * first.alpha * (isStrong ? 1 : view.detail.edgeAlpha);
  ctx.strokeStyle = color;
  ctx.lineWidth = strokeWidth(view, WIDTH[first.look]);
  const isDashed = (first.isFeedback || first.isRemoved) && view.detail.curves;
  ctx.setLineDash(isDashed ? [5 * view.k, 3 * view.k] : []);
  ctx.beginPath();
  for (const line of group) trace(ctx, view, line.points);
  ctx.stroke();
  if (!view.detail.tips) return;
  ctx.fillStyle = color;
  ctx.beginPath();
  for (const line of group) if (line.hasTip) tip(ctx, view, line, isStrong ? 1.3 : 1);
  ctx.fill();
}

/** Line width: thinner when zoomed out, at least one device pixel. */
export function strokeWidth(view: View, width: number): number {
  return Math.max(1, width * view.dpr * Math.min(1.6, Math.max(0.6, view.scale)));
}

// With thousands of lines on the screen, short ones take most of the time and are invisible.
function isTooShort(line: LineItem, view: View): boolean {
  return !view.detail.tips && line.length * view.scale < 5 && line.look !== "strong";
}

/** Straight along an axis, curved with ends along the direction of the picture elsewhere. */
export function trace(ctx: Context, view: View, points: readonly Point[]): void {
  const { k, ox, oy, isRight } = view;
  let [x, y] = points[0]!;
  ctx.moveTo(x * k - ox, y * k - oy);
  for (let i = 1; i < points.length; i++) {
    const [toX, toY] = points[i]!;
    const isFlat = Math.abs(x - toX) < FLAT || Math.abs(y - toY) < FLAT;
    if (isFlat || !view.detail.curves) ctx.lineTo(toX * k - ox, toY * k - oy);
    else if (isRight) {
      const middle = ((x + toX) / 2) * k - ox;
      ctx.bezierCurveTo(middle, y * k - oy, middle, toY * k - oy, toX * k - ox, toY * k - oy);
    } else {
      const middle = ((y + toY) / 2) * k - oy;
      ctx.bezierCurveTo(x * k - ox, middle, toX * k - ox, middle, toX * k - ox, toY * k - oy);
    }
    [x, y] = [toX, toY];
  }
}

/** Direction of the arrowhead: along the flow of the picture, or along the last straight segment. */
export function arrival(points: readonly Point[], isRight: boolean): Point {
  const [toX, toY] = points.at(-1)!;
  const [x, y] = points.at(-2) ?? points.at(-1)!;
  if (Math.abs(y - toY) < FLAT && Math.abs(x - toX) >= FLAT) return [Math.sign(toX - x), 0];
  if (Math.abs(x - toX) < FLAT && Math.abs(y - toY) >= FLAT) return [0, Math.sign(toY - y)];
  return isRight ? [Math.sign(toX - x) || 1, 0] : [0, Math.sign(toY - y) || 1];
}

function tip(ctx: Context, view: View, line: LineItem, factor: number): void {
  const { k, ox, oy } = view;
  const [x, y] = line.points.at(-1)!;
  const [dx, dy] = arrival(line.points, view.isRight);
  const length = Math.max(6.5 * k, 3.5 * view.dpr) * factor;
  const half = length * 0.42;
  const [toX, toY] = [x * k - ox, y * k - oy];
  ctx.moveTo(toX, toY);
  ctx.lineTo(toX - dx * length - dy * half, toY - dy * length + dx * half);
  ctx.lineTo(toX - dx * length * 0.75, toY - dy * length * 0.75);
  ctx.lineTo(toX - dx * length + dy * half, toY - dy * length - dx * half);
  ctx.closePath();
}

/** Labels beside the arrowheads, on a background so that lines do not cross the text. */
export function paintLabels(ctx: Context, view: View, lines: readonly LineItem[]): void {
  if (!view.detail.lines) return;
  const { k, ox, oy, theme } = view;
  const plain = `${SMALL * k}px ${theme.mono}`;
  const bold = `700 ${(SMALL + 2) * k}px ${theme.mono}`;
  ctx.textBaseline = "alphabetic";
  ctx.font = plain;
  ctx.textAlign = "left";
  for (const { label, points, look, alpha, isFeedback, depth } of lines) {
    if (!label || look === "hidden") continue;
    const [x, y] = points.at(-1)!;
    const [dx] = arrival(points, view.isRight);
    const width = ctx.measureText(label).width;
    const isBranch = label === "IF" || label.startsWith("IF ");
    const wide = width + (isBranch ? 4 * k : 0);
    let left = dx ? x * k - ox - (8 * k) * dx - (dx > 0 ? wide : 0) : (x + (isFeedback ? 10 : 4)) * k - ox;
    let base = dx ? (y - 3.5) * k - oy : (y - 5) * k - oy;
    if (isFeedback && view.isRight && !dx) {
      // It comes from below: at the tip the label would lie on the box.
      const [cornerX, cornerY] = points.reduce((low, point) => (point[1] >= low[1] ? point : low));
      left = (cornerX + 5) * k - ox;
      base = (cornerY - 3) * k - oy;
    }
    ctx.globalAlpha = 0.82 * alpha * ALPHA[look];
    ctx.fillStyle = toneAt(theme, depth);
    ctx.fillRect(left - k, base - 8 * k, wide + 2 * k, 10 * k);
    ctx.globalAlpha = alpha * ALPHA[look];
    if (!isBranch) {
      ctx.fillStyle = look === "strong" ? theme.accent : theme.soft;
      ctx.fillText(label, left, base);
      continue;
    }
    ctx.fillStyle = theme.gold;
    ctx.font = bold;
    ctx.fillText("IF", left, base);
    const after = ctx.measureText("IF").width;
    ctx.font = plain;
    ctx.fillStyle = theme.soft;
    ctx.fillText(label.slice(2), left + after, base);
  }
  ctx.globalAlpha = 1;
}
