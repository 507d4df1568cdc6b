/** The camera in device pixels, for painters. Its corner lies on a whole pixel, so that the cached bitmap can be shifted. */

import { detailAt } from "./paint/detail";
import type { Detail } from "./paint/detail";
import type { Theme } from "./paint/theme";
import type { Camera, Rect } from "./types";

export interface View {
  /** Device pixels per unit of the picture. */
  readonly k: number;
  /** Device pixels from the corner of the picture to that of the screen. */
  readonly ox: number;
  readonly oy: number;
  /** Device pixels per CSS pixel. */
  readonly dpr: number;
  /** CSS pixels per unit. */
  readonly scale: number;
  readonly theme: Theme;
  readonly detail: Detail;
  /** Whether edges lead to the right. */
  readonly isRight: boolean;
}

export type Context = CanvasRenderingContext2D | OffscreenCanvasRenderingContext2D;

export function viewOf(camera: Camera, dpr: number, theme: Theme, isRight: boolean): View {
  const k = camera.scale * dpr;
  return {
    k, dpr, theme, isRight, scale: camera.scale, ox: Math.round(camera.x * k), oy: Math.round(camera.y * k), detail: detailAt(camera.scale),
  };
}

/** The part of the picture in an area of the screen, given in device pixels. */
export function areaOf(view: View, x: number, y: number, width: number, height: number): Rect {
  return { x: (x + view.ox) / view.k, y: (y + view.oy) / view.k, width: width / view.k, height: height / view.k };
}

/** Calls back when the device pixel ratio changes: on another screen, or at another browser zoom. Returns a function that stops. */
export function watchRatio(changed: () => void): () => void {
  const now = matchMedia(`(resolution: ${window.devicePixelRatio || 1}dppx)`);
  let end = (): void => now.removeEventListener("change", again);
  const again = (): void => {
    changed();
    end = watchRatio(changed);
  };
  now.addEventListener("change", again, { once: true });
  return () => end();
}
