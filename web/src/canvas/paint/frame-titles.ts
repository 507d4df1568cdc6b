/** The frame titles of a stage, as seen by a camera. */

import { toScreen } from "../camera";
import type { Size } from "../camera";
import type { FrameItem, Stage } from "../stage";
import { titlesOf } from "./titles";
import type { Title } from "./titles";
import type { Camera } from "../types";

/** Titles of these frames of the stage, which stand outer ones first; `top` pixels of the screen are covered. */
export function frameTitles(stage: Stage, frames: readonly FrameItem[], camera: Camera, size: Size, top = 0): Title[] {
  const place = new Map(frames.map((item, i) => [item.frame.key, i]));
  const onScreen = frames.map((item) => {
    const [x, y] = toScreen(camera, item.x, item.y);
    const parent = place.get(stage.frames[item.frame.parent]?.frame.key ?? "") ?? -1;
    return { title: item.frame.title, action: item.look?.action, parent, x, y: y - top, width: item.width * camera.scale, height: item.height * camera.scale };
  });
  const [border] = toScreen(camera, stage.bounds.width, 0);
  const screen = { width: size.width, height: size.height - top };
  return titlesOf(onScreen, screen, camera.scale, border).map((title) => ({ ...title, y: title.y + top }));
}
