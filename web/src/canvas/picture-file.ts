/** Exports the picture as a PNG file. */

import type { Size } from "./camera";
import { frameTitles } from "./paint/frame-titles";
import { itemsIn, paint } from "./paint/paint";
import { paintTitles } from "./paint/overlay";
import type { Stage } from "./stage";
import type { Theme } from "./paint/theme";
import type { Camera } from "./types";
import { areaOf, viewOf } from "./view";

/** Browsers refuse canvases with more pixels than about this, or longer sides. */
const MOST_PIXELS = 120e6;
const LONGEST = 16000;

/** Pixels per CSS pixel that a picture of this size can have. */
export function affordable(size: Size, wanted: number): number {
  return Math.min(wanted, LONGEST / size.width, LONGEST / size.height, Math.sqrt(MOST_PIXELS / size.width / size.height));
}

export function toBlob(stage: Stage, camera: Camera, size: Size, theme: Theme, wanted: number): Promise<Blob> {
  const dpr = affordable(size, wanted);
  const canvas = document.createElement("canvas");
  canvas.width = Math.max(1, Math.round(size.width * dpr));
  canvas.height = Math.max(1, Math.round(size.height * dpr));
  const ctx = canvas.getContext("2d")!;
  // If the size limit forces a smaller scale, paint at the level of detail of that scale, so that text stays readable.
  const view = viewOf({ ...camera, scale: camera.scale * Math.min(1, dpr) }, Math.max(1, dpr), theme, stage.isRight);
  ctx.fillStyle = theme.paper;
  ctx.fillRect(0, 0, canvas.width, canvas.height);
  paint(ctx, view, itemsIn(stage, areaOf(view, 0, 0, canvas.width, canvas.height)));
  const frames = stage.frames.slice(1);
  const shown = { width: canvas.width / view.dpr, height: canvas.height / view.dpr };
  paintTitles(ctx, view, frames, frameTitles(stage, frames, { ...camera, scale: view.scale }, shown), null);
  return new Promise((resolve, reject) => {
    canvas.toBlob((blob) => (blob ? resolve(blob) : reject(new Error(`the browser could not create a PNG of ${canvas.width} × ${canvas.height} pixels`))));
  });
}
