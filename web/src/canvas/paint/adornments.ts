/** Paints the decorations of boxes: color strips, bars, chevrons, signs, badges, rings and notes. */

import { EM, LEAD, LINE, NAME, SMALL } from "./detail";
import { inkOn } from "../color";
import { outline, pixels, radiusOf } from "./boxes";
import type { BoxItem } from "../stage";
import { NEAR } from "./titles";
import type { Rect } from "../types";
import type { Context, View } from "../view";

/** Width of the chevron's side of a folded box, in units: a click there opens it. */
export const CHEVRON = 17;

/** Width of the color strip of a box, in units; its text starts beside it. */
export function stripOf({ look, box }: BoxItem): number {
  return look?.strip === undefined && look?.holds === undefined ? 0 : box.form === "small" ? 5 : 7;
}

/** Before the text. */
export function paintStrips(ctx: Context, view: View, items: readonly BoxItem[]): void {
  for (const item of items) {
    const { look } = item;
    if (!look) continue;
    ctx.globalAlpha = item.style.alpha * item.alpha;
    if (look.holds !== undefined) held(ctx, view, item, look.holds);
    else if (look.strip !== undefined) strip(ctx, view, item, look.strip);
    if (look.size !== undefined) bar(ctx, view, item, look.size);
    if (look.cells) cells(ctx, view, item, look.cells);
  }
  ctx.globalAlpha = 1;
}

// Clipped to the outline of the box, because its left end may be round.
function strip(ctx: Context, view: View, item: BoxItem, color: string | CanvasPattern): void {
  const { x, y, width, height } = pixels(item, view);
  const radius = radiusOf(item.style, { x, y, width, height }, view);
  const wide = Math.min(Math.max(stripOf(item) * view.k, 3 * view.dpr), width / 2);
  ctx.fillStyle = color;
  if (item.style.shape !== "plain") {
    ctx.save();
    ctx.beginPath();
    outline(ctx, view, item);
    ctx.clip();
    ctx.fillRect(x, y, wide + radius / 2, height);
    ctx.restore();
    return;
  }
  ctx.beginPath();
  if (radius <= wide) ctx.roundRect(x, y, wide, height, [radius, 0, 0, radius]);
  else {
    const angle = Math.acos((radius - wide) / radius);
    ctx.arc(x + radius, y + radius, radius, Math.PI + angle, Math.PI, true);
    ctx.arc(x + radius, y + height - radius, radius, Math.PI, Math.PI - angle, true);
  }
  ctx.fill();
}

/** What has no color: zeros are hollow, NaN is hatched, Inf has its sign. */
function held(ctx: Context, view: View, item: BoxItem, holds: NonNullable<BoxItem["look"]>["holds"]): void {
  const { theme, dpr, k } = view;
  const { x, y, width, height } = pixels(item, view);
  const wide = Math.min(Math.max(stripOf(item) * k, 3 * dpr), width / 2);
  if (holds === "nan") {
    strip(ctx, view, item, theme.panel);
    ctx.save();
    ctx.beginPath();
    ctx.rect(x, y, wide, height);
    ctx.clip();
    ctx.beginPath();
    outline(ctx, view, item);
    ctx.clip();
    ctx.strokeStyle = theme.ink;
    ctx.lineWidth = Math.max(1, 1.3 * dpr);
    ctx.beginPath();
    const gap = Math.max(3 * dpr, 3.2 * k);
    for (let at = y - wide; at < y + height; at += gap) {
      ctx.moveTo(x, at + wide);
      ctx.lineTo(x + wide, at);
    }
    ctx.stroke();
    ctx.restore();
  } else strip(ctx, view, item, holds === "zero" ? theme.panel : holds === "mask" ? theme.gray : theme.ink);
  if (holds === "inf" || holds === "mask") {
    ctx.fillStyle = holds === "inf" ? theme.paper : theme.ink;
    ctx.font = `700 ${Math.max(wide * 1.05, 6 * dpr)}px ${theme.mono}`;
    ctx.textAlign = "center";
    ctx.textBaseline = "middle";
    ctx.fillText("∞", x + wide / 2, y + height / 2);
    ctx.textBaseline = "alphabetic";
  }
  ctx.strokeStyle = item.style.stroke;
  ctx.lineWidth = Math.max(1, dpr);
  ctx.beginPath();
  ctx.moveTo(x + wide, y);
  ctx.lineTo(x + wide, y + height);
  ctx.stroke();
}

function bar(ctx: Context, view: View, item: BoxItem, size: number): void {
  const { x, y, width, height } = pixels(item, view);
  const radius = radiusOf(item.style, { x, y, width, height }, view);
  const room = width - 2 * radius;
  const thick = Math.max(2 * view.dpr, 3 * view.k);
  ctx.fillStyle = view.theme.isDark ? "rgba(255,255,255,0.14)" : "rgba(0,0,0,0.1)";
  ctx.fillRect(x + radius, y + height - thick, room, thick);
  ctx.fillStyle = item.look?.strip ?? view.theme.accent;
  ctx.fillRect(x + radius, y + height - thick, room * Math.min(1, Math.max(0, size)), thick);
}

/** One cell per identical block that a box stands for, so that differences are visible without opening them. */
function cells(ctx: Context, view: View, item: BoxItem, colors: readonly string[]): void {
  const { x, y, width, height } = pixels(item, view);
  const inset = radiusOf(item.style, { x, y, width, height }, view) / 2;
  const left = x + Math.max(inset, stripOf(item) * view.k);
  const wide = (x + width - inset - left) / colors.length;
  if (wide < 1) return;
  const thick = Math.min(Math.max(CELLS * view.k, 3 * view.dpr), height / 3);
  const gap = wide > 5 * view.dpr ? view.dpr : 0;
  colors.forEach((color, i) => {
    ctx.fillStyle = color;
    ctx.fillRect(left + i * wide, y + height - thick, wide - gap, thick);
  });
}

/** Height of the cells of a box, in units. */
const CELLS = 4.5;

/** The cell of a box at a point of the picture; -1 for none. A little above them counts as well. */
export function cellAt(item: BoxItem, x: number, y: number): number {
  const n = item.look?.cells?.length ?? 0;
  const left = item.x + stripOf(item);
  if (!n || y < item.y + item.height - 2 * CELLS || x < left) return -1;
  return Math.min(n - 1, Math.floor(((x - left) / (item.x + item.width - left)) * n));
}

/** After the text. */
export function paintAdornments(ctx: Context, view: View, items: readonly BoxItem[]): void {
  for (const item of items) {
    const { look, style, box } = item;
    ctx.globalAlpha = style.alpha * item.alpha;
    if (box.form === "folded") chevron(ctx, view, item);
    if (look?.ring !== undefined) ring(ctx, view, item, look.ring);
    if (style.sign) sign(ctx, view, item);
    if (view.scale < 0.3) continue;
    if (view.scale >= WORDS && (look?.note || look?.words)) notes(ctx, view, item);
    atCorners(ctx, view, item);
  }
  ctx.globalAlpha = 1;
}

/** Badges and buttons once more, where an outline was drawn over them. */
export function paintCorners(ctx: Context, view: View, items: readonly BoxItem[]): void {
  if (!view.detail.outlines || view.scale < 0.3) return;
  for (const item of items) {
    ctx.globalAlpha = item.style.alpha * item.alpha;
    atCorners(ctx, view, item);
  }
  ctx.globalAlpha = 1;
}

function atCorners(ctx: Context, view: View, item: BoxItem): void {
  const { look } = item;
  if (look?.corner) corner(ctx, view, item, look.corner);
  if (look?.badge) badge(ctx, view, item, look.badge);
  if (look?.action && view.scale >= NEAR) button(ctx, view, item, look.action);
}

function chevron(ctx: Context, view: View, item: BoxItem): void {
  const { x, y, width, height } = pixels(item, view);
  const size = Math.min(Math.max(3 * view.k, 2.4 * view.dpr), height / 5);
  const left = x + Math.min(6 * view.k, width / 8) + (stripOf(item) ? 5 * view.k : 0);
  const middle = view.detail.lines ? y + chevronLine(item) * view.k : y + height / 2;
  ctx.fillStyle = item.style.more;
  ctx.beginPath();
  ctx.moveTo(left, middle - size * 1.2);
  ctx.lineTo(left + size * 1.5, middle);
  ctx.lineTo(left, middle + size * 1.2);
  ctx.fill();
}

/** Vertical position of the chevron: beside the first line that leaves room for it, or the shortest. */
function chevronLine({ box, width, height }: BoxItem): number {
  const room = (line: string, i: number): number => (width - line.length * (i ? LINE : NAME) * EM) / 2;
  let best = 0;
  for (let i = 0; i < box.lines.length; i++) {
    if (room(box.lines[best]!, best) >= CHEVRON) break;
    if (room(box.lines[i]!, i) > room(box.lines[best]!, best)) best = i;
  }
  return (height - LEAD * box.lines.length) / 2 + (best + 0.5) * LEAD;
}

function ring(ctx: Context, view: View, item: BoxItem, color: string): void {
  const { x, y, width, height } = pixels(item, view);
  const off = 3.5 * view.dpr;
  ctx.strokeStyle = color;
  ctx.lineWidth = 2 * view.dpr;
  ctx.beginPath();
  ctx.roundRect(x - off, y - off, width + 2 * off, height + 2 * off, radiusOf(item.style, { x, y, width, height }, view) + off);
  ctx.stroke();
}

function sign(ctx: Context, view: View, item: BoxItem): void {
  const { x, y, height } = pixels(item, view);
  const size = Math.min(Math.max(7 * view.k, 5 * view.dpr), Math.max(height / 2, 3 * view.dpr), 9 * view.dpr);
  const at = item.style.isRound ? Math.min(4 * view.k, height / 6) : 0;
  ctx.fillStyle = item.style.signColor;
  ctx.beginPath();
  ctx.arc(x + at, y + at, size, 0, 2 * Math.PI);
  ctx.fill();
  ctx.fillStyle = inkOn(item.style.signColor);
  ctx.font = `700 ${size * 1.7}px ${view.theme.mono}`;
  ctx.textAlign = "center";
  ctx.textBaseline = "middle";
  ctx.fillText(item.style.sign, x + at, y + at + size * 0.08);
  ctx.textBaseline = "alphabetic";
}

/** In a box smaller than this, in pixels, a badge would cover the name. */
const LOW = 30;
/** Below this scale, a badge is a dot. */
const FAR = 0.6;

function badge(ctx: Context, view: View, item: BoxItem, text: string): void {
  const { x, y, width, height } = pixels(item, view);
  const size = Math.max((SMALL + 1) * view.k, 7.5 * view.dpr);
  const wide = text.length * size * EM + size * 0.9;
  const high = size * 1.45;
  ctx.fillStyle = view.theme.ink;
  ctx.beginPath();
  const isLow = height < LOW * view.dpr;
  if (isLow && view.scale < FAR) {
    ctx.arc(x + width, y, 4 * view.dpr, 0, 2 * Math.PI);
    ctx.fill();
    ctx.fillStyle = view.theme.paper;
    ctx.fillRect(x + width - 0.75 * view.dpr, y - 2.6 * view.dpr, 1.5 * view.dpr, 3 * view.dpr);
    ctx.fillRect(x + width - 0.75 * view.dpr, y + 1.2 * view.dpr, 1.5 * view.dpr, 1.5 * view.dpr);
    return;
  }
  const button = view.scale >= NEAR ? buttonOf(item, view.scale) : null;
  const left = button ? x - 4 * view.k : x + width - wide + 5 * view.k + (item.box.stack > 1 ? 5 * view.k : 0);
  // Above low boxes there may be a title or another box, below them a note.
  const top = !isLow ? y - high / 2 : item.look?.note ? y - high + 1.5 * view.dpr : y + height - 2 * view.dpr;
  ctx.roundRect(left, top, wide, high, high / 2);
  ctx.fill();
  ctx.fillStyle = view.theme.paper;
  ctx.font = `600 ${size}px ${view.theme.mono}`;
  ctx.textAlign = "center";
  ctx.fillText(text, left + wide / 2, top + high / 2 + size * 0.35);
}

/** Where the button of a box is, in units of the picture; null if it has none. */
export function buttonOf({ x, y, width, look }: BoxItem, scale: number): Rect | null {
  if (!look?.action) return null;
  // When zoomed out, larger than its box, so that it can be read and hit.
  const unit = Math.max(1, 0.9 / scale);
  const wide = (look.action.length * SMALL * EM + 10) * unit;
  return { x: x + width + 8 - wide, y: y - 10 * unit, width: wide, height: 14 * unit };
}

function button(ctx: Context, view: View, item: BoxItem, text: string): void {
  const rect = buttonOf(item, view.scale)!;
  const { k, ox, oy, theme } = view;
  const unit = (rect.height / 14) * k;
  ctx.beginPath();
  ctx.roundRect(rect.x * k - ox, rect.y * k - oy, rect.width * k, rect.height * k, 7 * unit);
  ctx.fillStyle = theme.panel;
  ctx.fill();
  ctx.strokeStyle = theme.accent;
  ctx.lineWidth = view.dpr;
  ctx.stroke();
  ctx.fillStyle = theme.accent;
  ctx.font = `${SMALL * unit}px ${theme.mono}`;
  ctx.textAlign = "center";
  ctx.fillText(text, (rect.x + rect.width / 2) * k - ox, rect.y * k - oy + 10.2 * unit);
}

/** Scale from which the words below a box have room. */
const WORDS = 0.5;

/** Words below a box, beside the edges that leave its middle; on ground of their own, so that no line crosses them. */
function notes(ctx: Context, view: View, item: BoxItem): void {
  const { x, y, width, height } = pixels(item, view);
  const { look } = item;
  const size = Math.max((SMALL + 1) * view.k, 8.5 * view.dpr);
  ctx.font = `${size}px ${view.theme.mono}`;
  ctx.textAlign = "left";
  ctx.lineJoin = "round";
  const lines = [...(look?.note ? [{ text: look.note, color: look.ring ?? view.theme.bad }] : []), ...(look?.words ? [{ text: look.words, color: view.theme.soft }] : [])];
  lines.forEach(({ text, color }, i) => {
    // Edges leave the middle below a box, or its right side, where the next box is near.
    if (view.isRight && text.length * size * EM > width + 26 * view.k) return;
    const [left, line] = [view.isRight ? x : x + width / 2 + 5 * view.k, y + height + (item.box.stack > 1 ? 10 : 3) * view.k + size * (1 + 1.15 * i)];
    ctx.strokeStyle = view.theme.paper;
    ctx.lineWidth = 4 * view.k;
    ctx.strokeText(text, left, line);
    ctx.fillStyle = color;
    ctx.fillText(text, left, line);
  });
}

/** A round badge: a crossed-out arrow for no gradient, = for no update, bars for frozen. */
function corner(ctx: Context, view: View, item: BoxItem, state: NonNullable<BoxItem["look"]>["corner"]): void {
  const { x, y, width, height } = pixels(item, view);
  const radius = Math.max(7 * view.k, 5 * view.dpr);
  // The upper corner may have a button or the number of matches.
  const [cx, cy] = [x + width, item.look?.action || item.look?.badge ? y + height : y];
  ctx.fillStyle = view.theme.panel;
  ctx.strokeStyle = view.theme.ink;
  ctx.lineWidth = Math.max(1, 1.2 * view.dpr);
  ctx.beginPath();
  ctx.arc(cx, cy, radius, 0, 2 * Math.PI);
  ctx.fill();
  ctx.stroke();
  const r = radius * 0.5;
  ctx.beginPath();
  if (state === "no gradient") {
    ctx.moveTo(cx - r, cy - r * 0.6);
    ctx.lineTo(cx + r, cy - r * 0.6);
    ctx.lineTo(cx, cy + r);
    ctx.closePath();
    ctx.moveTo(cx - r * 1.3, cy + r * 1.3);
    ctx.lineTo(cx + r * 1.3, cy - r * 1.3);
  } else if (state === "not updated") {
    for (const at of [-0.4, 0.4]) {
      ctx.moveTo(cx - r, cy + at * r);
      ctx.lineTo(cx + r, cy + at * r);
    }
  } else {
    for (const at of [-0.45, 0.45]) {
      ctx.moveTo(cx + at * r, cy - r);
      ctx.lineTo(cx + at * r, cy + r);
    }
  }
  ctx.stroke();
}
