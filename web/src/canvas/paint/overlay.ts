/** Paints the layer that changes often: selection, hover, frame titles. */

import { mix, withAlpha } from "../color";
import { paintCorners } from "./adornments";
import { outlineOf } from "./boxes";
import { paintLabels, paintLines } from "./lines";
import { toneAt } from "./theme";
import type { FrameItem, Stage } from "../stage";
import { INDENT } from "./titles";
import type { Title } from "./titles";
import type { Context, View } from "../view";

/** Lines and boxes next to a box, or to all that is in a frame. */
export interface Near {
  readonly lines: ReadonlySet<number>;
  readonly boxes: ReadonlySet<number>;
}

export function nearOf(stage: Stage, key: string): Near {
  const lines = new Set<number>();
  const boxes = new Set<number>();
  const box = stage.boxOf.get(key);
  const frame = stage.frameOf.get(key);
  const inside = new Set(box !== undefined ? [box] : frame ? stage.boxesIn(frame) : []);
  const { before, after } = stage.edgesAt();
  const { edges } = stage.scene.picture;
  for (const i of inside) {
    for (const number of [...before[i]!, ...after[i]!]) {
      const { parent, child } = edges[number]!;
      if (inside.has(parent) && inside.has(child) && inside.size > 1) continue;
      boxes.add(inside.has(parent) ? child : parent);
      for (const line of stage.linesOf(number)) lines.add(line);
    }
  }
  if (box !== undefined) for (const other of stage.standsWith(box)) boxes.add(other);
  return { lines, boxes };
}

/** The lines that lead to and from the selected, and an outline around it. */
export function paintSelected(ctx: Context, view: View, stage: Stage, key: string, near: Near): void {
  const lines = [...near.lines].map((i) => ({ ...stage.lines[i]!, look: "strong" as const }));
  paintLines(ctx, view, lines);
  paintLabels(ctx, view, lines);
  ctx.lineWidth = 1.2 * view.dpr;
  ctx.strokeStyle = withAlpha(view.theme.accent, 0.75);
  for (const i of near.boxes) outlineOf(ctx, view, stage.boxes[i]!, 0);
  around(ctx, view, stage, key, view.theme.accent, 2.5);
  paintCorners(ctx, view, [...near.boxes].map((i) => stage.boxes[i]!));
}

export function paintHovered(ctx: Context, view: View, stage: Stage, key: string, near: Near): void {
  ctx.globalAlpha = 0.55;
  const lines = [...near.lines].map((i) => ({ ...stage.lines[i]!, look: "strong" as const, alpha: 0.55 }));
  paintLines(ctx, view, lines);
  ctx.globalAlpha = 1;
  around(ctx, view, stage, key, mix(view.theme.accent, view.theme.paper, 0.7), 1.5);
}

function around(ctx: Context, view: View, stage: Stage, key: string, color: string, width: number): void {
  const box = stage.boxOf.get(key);
  ctx.strokeStyle = color;
  ctx.lineWidth = width * view.dpr;
  if (box !== undefined) {
    ctx.save();
    ctx.shadowColor = withAlpha(color, 0.55);
    ctx.shadowBlur = 6 * view.dpr;
    outlineOf(ctx, view, stage.boxes[box]!, -1 * view.dpr);
    ctx.restore();
    paintCorners(ctx, view, [stage.boxes[box]!]);
    return;
  }
  const rect = stage.rect(key);
  if (!rect) return;
  const { k, ox, oy, dpr } = view;
  ctx.beginPath();
  ctx.roundRect(rect.x * k - ox, rect.y * k - oy, rect.width * k, rect.height * k, Math.min(10 * k, 12 * dpr));
  ctx.stroke();
}

/** Titles with their chevrons; those moved out of their place get a background. */
export function paintTitles(ctx: Context, view: View, frames: readonly FrameItem[], titles: readonly Title[], hovered: string | null): void {
  const { theme, dpr } = view;
  ctx.textAlign = "left";
  ctx.textBaseline = "alphabetic";
  for (const title of titles) {
    const { frame, look, depth, alpha } = frames[title.frame]!;
    const [x, y, size, height] = [title.x * dpr, title.y * dpr, title.size * dpr, title.height * dpr];
    const isHovered = frame.key === hovered;
    ctx.globalAlpha = alpha * (look?.dim ? 0.4 : 1);
    const ground = toneAt(theme, title.isOutside ? 0 : depth);
    ctx.fillStyle = isHovered ? mix(theme.accent, ground, 0.18) : withAlpha(ground, title.isStuck ? 0.95 : 0.85);
    ctx.beginPath();
    ctx.roundRect(x - size * 0.35, y, title.width * dpr + size * 0.7, height, size * 0.4);
    ctx.fill();
    if (title.isStuck) {
      ctx.strokeStyle = theme.frame;
      ctx.lineWidth = dpr;
      ctx.stroke();
    }
    ctx.fillStyle = isHovered ? theme.accent : view.scale < 0.3 ? theme.ink : theme.soft;
    const middle = y + height / 2;
    ctx.beginPath();
    ctx.moveTo(x, middle - size * 0.2);
    ctx.lineTo(x + size * 0.7, middle - size * 0.2);
    ctx.lineTo(x + size * 0.35, middle + size * 0.26);
    ctx.fill();
    ctx.font = `${view.scale < 0.3 ? "600 " : ""}${size}px ${theme.mono}`;
    ctx.fillText(title.text, x + size * INDENT, middle + size * 0.36);
    if (!title.action) continue;
    ctx.fillStyle = theme.accent;
    ctx.fillText(title.action.text, x + title.action.from * dpr, middle + size * 0.36);
  }
  ctx.globalAlpha = 1;
}
