/** The minimap: the whole picture with the visible part marked; drag to pan. */

import { inView } from "./camera";
import type { Size } from "./camera";
import { mix, withAlpha } from "./color";
import type { Stage } from "./stage";
import type { Theme } from "./paint/theme";
import type { Camera, Rect } from "./types";

const WIDEST = 168;
const HIGHEST = 200;
const LEAST = 36;
/** Nor more than this part of either side of the screen. */
const SHARE = 5;
const SOON_MS = 60;

/** Size of the map: the aspect ratio of the picture, with a minimum for each side so that it can be clicked. */
export function mapSize(picture: Size, screen: Size): Size {
  const [widest, highest] = [Math.min(WIDEST, screen.width / SHARE), Math.min(HIGHEST, screen.height / SHARE)];
  const scale = Math.min(widest / Math.max(picture.width, 1), highest / Math.max(picture.height, 1));
  return {
    width: Math.round(Math.max(LEAST, picture.width * scale)),
    height: Math.round(Math.max(LEAST, picture.height * scale)),
  };
}

/** Whether the camera shows all of the picture. */
export function showsAll(camera: Camera, picture: Size, size: Size): boolean {
  const view = inView(camera, size);
  return view.x <= 1 && view.y <= 1 && view.x + view.width >= picture.width - 1 && view.y + view.height >= picture.height - 1;
}

export class Minimap {
  private readonly canvas = document.createElement("canvas");
  private readonly ctx = this.canvas.getContext("2d")!;
  private readonly drawn = document.createElement("canvas");
  private size: Size = { width: 1, height: 1 };
  private picture: Size = { width: 1, height: 1 };
  private isHeld = false;
  private soon: ReturnType<typeof setTimeout> | undefined;
  private last: [Camera, Size, Theme, number] | null = null;

  constructor(host: HTMLElement, go: (x: number, y: number) => void) {
    const { canvas } = this;
    canvas.setAttribute("aria-hidden", "true");
    canvas.className = "cutaway-minimap";
    canvas.style.cssText = "position:absolute;right:12px;bottom:12px;border-radius:8px;cursor:crosshair;touch-action:none;display:none";
    host.append(canvas);
    const move = (event: PointerEvent): void => {
      const box = canvas.getBoundingClientRect();
      go(((event.clientX - box.left) / box.width) * this.picture.width, ((event.clientY - box.top) / box.height) * this.picture.height);
    };
    canvas.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      event.preventDefault();
      this.isHeld = true;
      canvas.setPointerCapture(event.pointerId);
      move(event);
    });
    canvas.addEventListener("pointermove", (event) => { if (this.isHeld) move(event); });
    for (const name of ["pointerup", "pointercancel"]) canvas.addEventListener(name, () => (this.isHeld = false));
  }

  /** Redraw a moment later, after the main canvas. */
  redraw(stage: Stage, screen: Size, theme: Theme, dpr: number): void {
    clearTimeout(this.soon);
    this.soon = setTimeout(() => {
      this.draw(stage, screen, theme, dpr);
      if (this.last) this.update(...this.last);
    }, SOON_MS);
  }

  private draw(stage: Stage, screen: Size, theme: Theme, dpr: number): void {
    this.picture = stage.bounds;
    this.size = mapSize(this.picture, screen);
    for (const canvas of [this.canvas, this.drawn]) {
      canvas.width = this.size.width * dpr;
      canvas.height = this.size.height * dpr;
    }
    this.canvas.style.width = `${this.size.width}px`;
    this.canvas.style.height = `${this.size.height}px`;
    const ctx = this.drawn.getContext("2d")!;
    ctx.fillStyle = theme.panel;
    ctx.fillRect(0, 0, this.drawn.width, this.drawn.height);
    const [kx, ky] = [this.drawn.width / this.picture.width, this.drawn.height / this.picture.height];
    const rectangle = (rect: Rect): void => ctx.fillRect(rect.x * kx, rect.y * ky, Math.max(1, rect.width * kx), Math.max(1, rect.height * ky));
    stage.frames.forEach((item, i) => {
      if (!i) return;
      ctx.fillStyle = item.look?.fill ?? withAlpha(item.frame.mark ? theme.amber : theme.value, theme.isDark ? 0.2 : 0.15);
      rectangle(item);
    });
    for (const item of stage.boxes) {
      ctx.globalAlpha = item.style.alpha;
      ctx.fillStyle = item.look?.strip ?? item.style.coarse;
      rectangle(item);
    }
    ctx.globalAlpha = 1;
  }

  /** Show what is in view. */
  update(camera: Camera, screen: Size, theme: Theme, dpr: number): void {
    this.last = [camera, screen, theme, dpr];
    const isNeeded = !showsAll(camera, this.picture, screen) && screen.width > 2.2 * this.size.width && screen.height > 1.5 * this.size.height;
    this.canvas.style.display = isNeeded ? "block" : "none";
    if (!isNeeded) return;
    const { ctx, canvas } = this;
    const view = inView(camera, screen);
    const [kx, ky] = [canvas.width / this.picture.width, canvas.height / this.picture.height];
    const line = 1.5 * dpr;
    const width = Math.max(view.width * kx, 4 * dpr);
    const height = Math.max(view.height * ky, 4 * dpr);
    const x = Math.min(Math.max(view.x * kx, line / 2 - width / 2), canvas.width - line / 2 - width / 2);
    const y = Math.min(Math.max(view.y * ky, line / 2 - height / 2), canvas.height - line / 2 - height / 2);
    ctx.drawImage(this.drawn, 0, 0);
    ctx.fillStyle = withAlpha(theme.accent, 0.16);
    ctx.fillRect(x, y, width, height);
    ctx.strokeStyle = theme.accent;
    ctx.lineWidth = line;
    ctx.strokeRect(x, y, width, height);
    ctx.strokeStyle = mix(theme.soft, theme.paper, 0.4);
    ctx.lineWidth = dpr;
    ctx.beginPath();
    ctx.roundRect(dpr / 2, dpr / 2, canvas.width - dpr, canvas.height - dpr, 8 * dpr);
    ctx.stroke();
  }

  destroy(): void {
    clearTimeout(this.soon);
    this.canvas.remove();
  }
}
