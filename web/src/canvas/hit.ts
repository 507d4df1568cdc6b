/** Hit testing: which box or frame is under the pointer. */

import { toPicture } from "./camera";
import { buttonOf, cellAt, CHEVRON } from "./paint/adornments";
import { INDENT, NEAR } from "./paint/titles";
import type { Title } from "./paint/titles";
import type { Stage } from "./stage";
import type { Camera } from "./types";

export type Part = "box" | "chevron" | "title" | "frame" | "action" | "cell";

export interface Hit {
  readonly key: string;
  readonly part: Part;
  /** The number of the cell, if it is one. */
  readonly cell?: number;
}

/** Maximum overhang of a button over the border of its box. */
const BUTTON = 24;

/** Titles are above boxes, boxes above frames, inner frames above outer ones. `shown` are titles by index of the frame. */
export function hitAt(stage: Stage, shown: readonly Title[], camera: Camera, x: number, y: number): Hit | null {
  for (const title of shown) {
    if (x < title.x - 4 || x > title.x + title.width || y < title.y || y > title.y + title.height) continue;
    const isAction = title.action !== undefined && x >= title.x + title.action.from - title.size / 2;
    const part = isAction ? "action" : x < title.x + title.size * INDENT ? "chevron" : "title";
    return { key: stage.frames[title.frame]!.frame.key, part };
  }
  const [px, py] = toPicture(camera, x, y);
  // A finger or an unsteady hand may miss small boxes by a little.
  const slop = Math.min(2 / camera.scale, 6);
  const near = stage.boxGrid.within({ x: px - slop, y: py - slop, width: 2 * slop, height: 2 * slop });
  if (camera.scale >= NEAR) {
    // Buttons stand over the borders of their boxes.
    for (const i of stage.boxGrid.within({ x: px - BUTTON, y: py - BUTTON, width: 2 * BUTTON, height: 2 * BUTTON })) {
      const button = buttonOf(stage.boxes[i]!, camera.scale);
      if (button && px >= button.x && px <= button.x + button.width && py >= button.y && py <= button.y + button.height)
        return { key: stage.boxes[i]!.box.key, part: "action" };
    }
  }
  for (const i of near.reverse()) {
    const item = stage.boxes[i]!;
    const isIn = px >= item.x - slop && px <= item.x + item.width + slop && py >= item.y - slop && py <= item.y + item.height + slop;
    if (!isIn) continue;
    const cell = camera.scale > 0.35 ? cellAt(item, px, py) : -1;
    if (cell >= 0) return { key: item.box.key, part: "cell", cell };
    const isChevron = item.box.form === "folded" && camera.scale > 0.35 && px < item.x + CHEVRON;
    return { key: item.box.key, part: isChevron ? "chevron" : "box" };
  }
  for (let i = stage.frames.length - 1; i > 0; i--) {
    const { x: left, y: top, width, height, frame } = stage.frames[i]!;
    if (px >= left && px <= left + width && py >= top && py <= top + height) return { key: frame.key, part: "frame" };
  }
  return null;
}
