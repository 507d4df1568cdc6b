/** Paints the text of boxes: all lines when zoomed in, only names when zoomed out. */

import { EM, LEAD, LINE, NAME, fittedName } from "./detail";
import { stripOf } from "./adornments";
import type { BoxItem } from "../stage";
import type { Box } from "../types";
import type { Context, View } from "../view";

export function paintText(ctx: Context, view: View, items: readonly BoxItem[]): void {
  ctx.textAlign = "center";
  ctx.textBaseline = "alphabetic";
  const shown = items.filter((item) => item.alpha > 0.05 && !item.isBare);
  if (view.detail.lines) {
    paintNames(ctx, view, shown);
    paintMore(ctx, view, shown);
  } else if (view.detail.names) paintFitted(ctx, view, shown);
  ctx.globalAlpha = 1;
}

/** The name without the diff sign, which is painted at the corner. */
function nameOf({ lines: [name = ""], mark }: Box): string {
  return mark ? name.replace(/^[+−~] /, "") : name;
}

/** The middle of what is left of a box beside its strip. */
function middleOf(item: BoxItem): number {
  return item.x + (item.width + stripOf(item)) / 2;
}

/** What the ends of a box that is no rectangle take of its width, in units. */
function tipWidth({ style, height }: BoxItem): number {
  return style.shape === "plain" ? 0 : height * 0.35;
}

/** The room for text, in units. */
function roomOf(item: BoxItem): number {
  return item.width - stripOf(item) - 4 - tipWidth(item);
}

function firstLine(item: BoxItem): number {
  return item.y + (item.height - LEAD * item.box.lines.length) / 2 + 11;
}

function paintNames(ctx: Context, view: View, items: readonly BoxItem[]): void {
  const { k, ox, oy, theme } = view;
  const fonts = {
    name: `600 ${NAME * k}px ${theme.mono}`, small: `${LINE * k}px ${theme.mono}`, ghost: `italic ${LINE * k}px ${theme.mono}`,
  };
  for (const which of ["name", "small", "ghost"] as const) {
    ctx.font = fonts[which];
    for (const item of items) {
      const { style, box } = item;
      if (which !== (style.isItalic ? "ghost" : box.form === "small" ? "small" : "name")) continue;
      ctx.globalAlpha = style.alpha * item.alpha;
      ctx.fillStyle = style.name;
      ctx.fillText(nameOf(box), middleOf(item) * k - ox, firstLine(item) * k - oy, roomOf(item) * k);
    }
  }
}

function paintMore(ctx: Context, view: View, items: readonly BoxItem[]): void {
  const { k, ox, oy, theme } = view;
  ctx.font = `${LINE * k}px ${theme.mono}`;
  for (const item of items) {
    const { lines } = item.box;
    if (lines.length < 2) continue;
    ctx.globalAlpha = item.style.alpha * item.alpha;
    ctx.fillStyle = item.style.more;
    const middle = middleOf(item) * k - ox;
    const first = firstLine(item);
    for (let i = 1; i < lines.length; i++) ctx.fillText(lines[i]!, middle, (first + i * LEAD) * k - oy, roomOf(item) * k);
  }
}

/** A box so high, in pixels, has room for a second line below its name; that has letters of this size. */
const HIGH = 34;
const SECOND = 9;

/** The line below the name, where it can be read; "" where it cannot. */
function secondOf(item: BoxItem, scale: number): string {
  const [, second = ""] = item.box.lines;
  return item.height * scale >= HIGH && second.length * SECOND * EM <= roomOf(item) * scale - 6 ? second : "";
}

function paintFitted(ctx: Context, view: View, items: readonly BoxItem[]): void {
  const { k, ox, oy, dpr, theme, scale } = view;
  const seconds = new Map(items.flatMap((item) => secondOf(item, scale) ? [[item, secondOf(item, scale)] as const] : []));
  const bySize = new Map<number, [BoxItem, string][]>();
  for (const item of items) {
    const side = (item.box.form === "folded" ? 32 : 6) + stripOf(item) + tipWidth(item);
    const fitted = fittedName(nameOf(item.box), item.width * scale - side * Math.max(scale, 0.4), item.height * scale, scale);
    if (!fitted) continue;
    const same = bySize.get(fitted.size);
    if (same) same.push([item, fitted.text]);
    else bySize.set(fitted.size, [[item, fitted.text]]);
  }
  for (const [size, texts] of bySize) {
    ctx.font = `600 ${size * dpr}px ${theme.mono}`;
    for (const [item, text] of texts) {
      ctx.globalAlpha = item.style.alpha * item.alpha;
      ctx.fillStyle = item.style.name;
      const up = seconds.has(item) ? SECOND * 0.65 : 0;
      ctx.fillText(text, middleOf(item) * k - ox, (item.y + item.height / 2) * k - oy + (size * 0.35 - up) * dpr);
    }
  }
  ctx.font = `${SECOND * dpr}px ${theme.mono}`;
  for (const [item, text] of seconds) {
    ctx.globalAlpha = item.style.alpha * item.alpha;
    ctx.fillStyle = item.style.more;
    ctx.fillText(text, middleOf(item) * k - ox, (item.y + item.height / 2) * k - oy + SECOND * 1.15 * dpr);
  }
}
