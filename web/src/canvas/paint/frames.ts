/** Paints frames, each with a translucent fill. Their titles are painted last, over everything. */

import { DIM } from "./style";
import type { FrameItem } from "../stage";
import type { Theme } from "./theme";
import type { Context, View } from "../view";

export function paintFrames(ctx: Context, view: View, frames: readonly FrameItem[]): void {
  for (const item of frames) {
    const { k, ox, oy, theme, dpr } = view;
    const x = Math.round(item.x * k - ox);
    const y = Math.round(item.y * k - oy);
    const width = Math.round((item.x + item.width) * k - ox) - x;
    const height = Math.round((item.y + item.height) * k - oy) - y;
    if (width < 1 || height < 1) continue;
    const radius = Math.min(10 * k, 12 * dpr, width / 2, height / 2);
    ctx.globalAlpha = item.alpha * (item.look?.dim ? DIM * 2 : 1);
    if (item.frame.stack > 1 && view.detail.outlines) cards(ctx, view, x, y, width, height, radius);
    ctx.fillStyle = item.look?.fill ?? theme.veil;
    ctx.strokeStyle = colorOf(item, theme);
    const line = (item.frame.mark || item.look?.strong ? 2 : 1) * dpr;
    ctx.lineWidth = line;
    ctx.setLineDash(item.frame.mark === "removed" ? [4 * dpr, 4 * dpr] : []);
    ctx.beginPath();
    if (radius < 1.5) ctx.rect(x, y, width, height);
    else ctx.roundRect(x + line / 2, y + line / 2, width - line, height - line, radius);
    ctx.fill();
    if (Math.min(width, height) > 3 * dpr) ctx.stroke();
  }
  ctx.globalAlpha = 1;
  ctx.setLineDash([]);
}

function colorOf({ frame, look }: FrameItem, theme: Theme): string {
  if (look?.strong) return theme.accent;
  if (look?.ring) return look.ring;
  if (frame.mark) return { new: theme.ok, removed: theme.bad, changed: theme.plum }[frame.mark];
  return frame.flags & 8 ? theme.bad : theme.frame;
}

// The edges of further cards below show that this frame stands for several.
function cards(ctx: Context, view: View, x: number, y: number, width: number, height: number, radius: number): void {
  ctx.strokeStyle = view.theme.frame;
  ctx.lineWidth = view.dpr;
  for (const step of [2, 1]) {
    const by = step * 3.5 * view.k;
    ctx.beginPath();
    ctx.roundRect(x + by, y + by, width, height, radius);
    ctx.fillStyle = view.theme.paper;
    ctx.fill();
    ctx.stroke();
  }
  ctx.beginPath();
  ctx.roundRect(x, y, width, height, radius);
  ctx.fillStyle = view.theme.paper;
  ctx.fill();
}
