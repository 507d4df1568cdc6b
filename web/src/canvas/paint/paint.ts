/** Paints a part of the picture, from back to front. */

import { intersects } from "../camera";
import { paintAdornments, paintStrips } from "./adornments";
import { paintBodies, paintCoarse } from "./boxes";
import { paintFrames } from "./frames";
import { paintLabels, paintLines } from "./lines";
import { paintText } from "./text";
import type { BoxItem, FrameItem, LineItem, Stage } from "../stage";
import type { Rect } from "../types";
import type { Context, View } from "../view";

/** What is to be drawn, already without all that is out of sight. */
export interface Items {
  readonly frames: readonly FrameItem[];
  readonly lines: readonly LineItem[];
  readonly boxes: readonly BoxItem[];
}

/** All that is at least partly in an area of the picture. */
export function itemsIn(stage: Stage, area: Rect): Items {
  return {
    frames: stage.frames.filter((frame, i) => i > 0 && intersects(frame, area)),
    lines: stage.lineGrid.within(area).map((i) => stage.lines[i]!),
    boxes: stage.boxGrid.within(growArea(area)).map((i) => stage.boxes[i]!),
  };
}

/** Boxes have cards behind them, signs and badges at their corners, notes below: all that may reach into an area. */
function growArea({ x, y, width, height }: Rect): Rect {
  return { x: x - 240, y: y - 32, width: width + 260, height: height + 44 };
}

export function paint(ctx: Context, view: View, items: Items): void {
  paintFrames(ctx, view, items.frames);
  paintLines(ctx, view, items.lines);
  if (!view.detail.outlines) {
    paintCoarse(ctx, view, items.boxes);
    return;
  }
  paintBodies(ctx, view, items.boxes);
  paintStrips(ctx, view, items.boxes);
  paintText(ctx, view, items.boxes);
  paintAdornments(ctx, view, items.boxes);
  paintLabels(ctx, view, items.lines);
}
