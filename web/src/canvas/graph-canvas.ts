/** The graph canvas: holds the scene and the camera, handles input, schedules painting. */

import { describe, liveRegion } from "./announce";
import { boundingRect, initialCamera, interpolateCamera, avoidCovered, easeInOut, fitCamera, clampCamera, intersects, inView, panCamera, revealRect, toScreen, zoomCamera } from "./camera";
import type { Size } from "./camera";
import { frameTitles } from "./paint/frame-titles";
import { Glide, anchorCamera, nearestToCenter } from "./glide";
import { hitAt } from "./hit";
import type { Hit } from "./hit";
import { listen } from "./input";
import { Minimap } from "./minimap";
import { paint } from "./paint/paint";
import { nearOf, paintHovered, paintSelected, paintTitles } from "./paint/overlay";
import type { Near } from "./paint/overlay";
import { toBlob } from "./picture-file";
import { Stage } from "./stage";
import { Surface } from "./surface";
import { readTheme, watchTheme } from "./paint/theme";
import type { Theme } from "./paint/theme";
import type { Title } from "./paint/titles";
import { PLAIN } from "./types";
import type { Camera, Decorations, Direction, Look, Options, Rect, Scene, ShowOptions } from "./types";
import { viewOf, watchRatio } from "./view";
import type { View } from "./view";
import { neighbor } from "./walk";

const GLIDE_MS = 220;
const DRIFT_MS = 260;
/** Delay after the last zoom event before the picture is painted sharply. */
const SETTLE_MS = 90;

/** Performance mark: the first frame of a new scene is on the canvas. */
const PAINTED = "cutaway:painted";

/** With more lines than this, the others are dimmed so that those of the selection can be followed. */
const MANY = 20;
const RECEDING = 0.45;

/** Margin around what is kept in view, in pixels: overlays lie at the corners. */
const AWAY = 52;

/** Share of the screen to keep between its border and the box moved to with the keyboard, so that the next boxes are visible. */
const AROUND = 0.2;

const NOTHING: Near = { lines: new Set(), boxes: new Set() };

interface Marked {
  readonly key: string;
  readonly near: Near;
}

export class GraphCanvas {
  private readonly canvas = document.createElement("canvas");
  private readonly ctx = this.canvas.getContext("2d", { alpha: false })!;
  private readonly surface = new Surface();
  private readonly region: HTMLElement;
  private readonly minimap: Minimap | null;
  private readonly endings: (() => void)[] = [];

  private theme: Theme;
  private stage: Stage | null = null;
  private decorations: Decorations = PLAIN;
  private place: Camera = { x: 0, y: 0, scale: 1 };
  private size: Size = { width: 0, height: 0 };
  private dpr = 1;
  private titles: readonly Title[] = [];
  private selected: Marked | null = null;
  private hovered: Marked | null = null;
  private glide: { readonly way: Glide; readonly start: number; readonly before: { stage: Stage; camera: Camera } } | null = null;
  private drift: { readonly from: Camera; readonly to: Camera; readonly start: number } | null = null;
  private isFitWanted = false;
  private isZooming = false;
  private settling: ReturnType<typeof setTimeout> | undefined;
  private isNew = false;
  private asked = 0;
  private openedAt = -Infinity;

  constructor(private readonly host: HTMLElement, private readonly options: Options) {
    const { canvas } = this;
    if (getComputedStyle(host).position === "static") host.style.position = "relative";
    canvas.tabIndex = 0;
    canvas.setAttribute("role", "application");
    canvas.setAttribute("aria-roledescription", "graph");
    canvas.setAttribute("aria-label", options.label ?? "Graph. Use the arrow keys to follow its edges.");
    canvas.className = "cutaway-canvas";
    canvas.style.cssText = "position:absolute;inset:0;width:100%;height:100%;touch-action:none;display:block;cursor:grab;outline-offset:-3px";
    Object.assign(canvas, { graph: this });
    host.append(canvas);
    this.region = liveRegion(host);
    this.theme = readTheme(host);
    this.minimap = options.minimap === false ? null : new Minimap(host, (x, y) => this.goTo(x, y));
    const observer = new ResizeObserver(() => this.resize());
    observer.observe(host);
    this.endings.push(
      () => observer.disconnect(),
      watchRatio(() => this.resize()),
      watchTheme(canvas, () => this.retheme()),
      listen(canvas, this.gestures(), () => this.options.wheelZooms ?? false),
    );
    this.resize();
  }

  /** Draw a scene. Boxes and frames with a key that was there before glide to their new place. */
  show(scene: Scene, how: ShowOptions): void {
    this.isNew = true;
    const before = this.stage && { stage: this.stage, camera: this.place };
    this.decorations = scene.decorations ?? this.decorations;
    const stage = new Stage(scene, this.decorations, this.theme);
    this.stage = stage;
    this.drift = this.glide = null;
    this.isZooming = false;
    if (how.camera) this.place = how.camera;
    else if (before) this.place = this.cameraFor(before.stage, stage, how.anchor);
    else this.fitAtOnce();
    if (before && how.animate && this.size.width && !matchMedia("(prefers-reduced-motion: reduce)").matches) {
      const way = new Glide(before, { stage, camera: this.place }, this.size);
      if (way.isWorthIt) this.glide = { way, start: performance.now(), before };
    }
    this.selected = this.marked(this.selected?.key ?? null);
    this.hovered = null;
    this.surface.clear();
    this.minimap?.redraw(stage, this.size, this.theme, this.dpr);
    this.request();
    this.moved();
  }

  /** Change colors, badges, dimming; nothing moves. */
  decorate(decorations: Decorations): void {
    this.decorations = decorations;
    if (!this.stage) return;
    this.stage.decorate(decorations, this.theme);
    this.surface.clear();
    this.minimap?.redraw(this.stage, this.size, this.theme, this.dpr);
    this.request();
  }

  /** Mark as selected, and say so to screen readers. */
  select(key: string | null): void {
    if (key === (this.selected?.key ?? null)) return;
    const wasMarked = this.selected !== null;
    this.selected = this.marked(key);
    // The other edges recede, or come back.
    if (wasMarked !== (this.selected !== null)) this.surface.clear();
    this.region.textContent = key && this.stage ? describe(this.stage, key) : "";
    this.request();
  }

  /** Bring a box or frame into view; with `zoom` also near enough to read it. */
  focus(key: string, how: { zoom?: boolean; animate?: boolean } = {}): void {
    const rect = this.stage?.rect(key);
    if (!rect) return;
    const isFrame = !this.stage!.boxOf.has(key);
    if (how.zoom && isFrame) this.travel(fitCamera(rect, this.size, 40), how.animate);
    else if (how.zoom && this.place.scale < 0.75) this.travel(fitCamera(rect, this.size, 40, 1), how.animate);
    else if (how.zoom && !intersects(rect, inView(this.place, this.size))) this.travel(fitCamera(rect, this.size, 40, this.place.scale), how.animate);
    else this.travel(revealRect(this.place, rect, this.size, how.zoom ? 40 : Math.min(this.size.width, this.size.height) * AROUND), how.animate);
  }

  /** All in view, or only these boxes and frames. */
  fit(keys?: readonly string[], how: { animate?: boolean } = {}): void {
    if (!this.stage) return;
    const rects = keys?.map((key) => this.stage!.rect(key)).filter((rect): rect is Rect => rect !== null);
    const rect = rects ? boundingRect(rects) : this.stage.bounds;
    if (rect) this.travel(keys ? fitCamera(rect, this.size) : this.clear((size) => fitCamera(rect, size)), how.animate);
  }

  /** Zoom about the middle. */
  zoom(factor: number): void {
    this.travel(zoomCamera(this.drift?.to ?? this.place, factor, this.size.width / 2, this.size.height / 2, this.farthest()));
  }

  get camera(): Camera {
    return this.place;
  }

  set camera(camera: Camera) {
    this.drift = null;
    this.isZooming = false;
    this.moveTo(camera);
  }

  /** The next box in a direction: along edges, then among neighbors. */
  neighbor(key: string, direction: Direction): string | null {
    return this.stage && neighbor(this.stage, key, direction);
  }

  /** Where a box or frame is, in CSS pixels from the corner of the host; null if it is not in the picture. */
  rect(key: string): Rect | null {
    const rect = this.stage?.rect(key);
    if (!rect) return null;
    const [x, y] = toScreen(this.place, rect.x, rect.y);
    return { x, y, width: rect.width * this.place.scale, height: rect.height * this.place.scale };
  }

  /** Everything in the picture with its screen position, for tests and assistive technology. */
  places(): { key: string; name: string; rect: Rect; look: Look; isSelected: boolean }[] {
    const boxes = this.stage?.boxes ?? [];
    return boxes.map(({ box: { key, lines }, look = {} }) => ({ key, name: lines[0] ?? "", rect: this.rect(key)!, look, isSelected: key === this.selected?.key }));
  }

  /** Whether an animation is running. */
  get isMoving(): boolean {
    return this.glide !== null || this.drift !== null;
  }

  /** Read the CSS variables again. Happens by itself when the page turns dark or light. */
  retheme(): void {
    const theme = readTheme(this.host);
    if (JSON.stringify(theme) === JSON.stringify(this.theme)) return;
    this.theme = theme;
    this.decorate(this.decorations);
  }

  /** What is in view as a PNG, or the whole picture. */
  toPNG(how: { whole?: boolean; scale?: number } = {}): Promise<Blob> {
    if (!this.stage) return Promise.reject(new Error("no picture yet: call show() first"));
    const bounds = this.stage.bounds;
    const camera = how.whole ? { x: bounds.x - 16, y: bounds.y - 16, scale: 1 } : this.place;
    const size = how.whole ? { width: bounds.width + 32, height: bounds.height + 32 } : this.size;
    return toBlob(this.stage, camera, size, this.theme, how.scale ?? this.dpr);
  }

  destroy(): void {
    for (const end of this.endings) end();
    cancelAnimationFrame(this.asked);
    clearTimeout(this.settling);
    this.minimap?.destroy();
    this.region.remove();
    this.canvas.remove();
  }

  // What the pointer does.

  private gestures(): Parameters<typeof listen>[1] {
    return {
      pan: (dx, dy) => this.moveByHand(panCamera(this.place, dx, dy)),
      zoom: (factor, x, y) => {
        clearTimeout(this.settling);
        this.settling = setTimeout(() => {
          this.isZooming = false;
          this.request();
        }, SETTLE_MS);
        this.moveByHand(zoomCamera(this.place, factor, x, y, this.farthest()), true);
      },
      click: (x, y, event) => {
        this.arrive();
        this.clicked(this.hit(x, y), event);
      },
      doubleClick: (x, y) => this.doubleClicked(this.hit(x, y)),
      move: (x, y) => this.hover(this.hit(x, y), x, y),
      leave: () => this.hover(null, 0, 0),
      menu: (x, y, event) => {
        const key = this.hit(x, y)?.key ?? null;
        if (key !== null && this.options.on.menu) event.preventDefault();
        this.options.on.menu?.(key, event);
      },
      grip: (isHeld) => (this.canvas.style.cursor = isHeld ? "grabbing" : "grab"),
    };
  }

  /** A frame is hit only when zoomed out so far that its boxes are too small to point at. */
  private hit(x: number, y: number): Hit | null {
    if (!this.stage) return null;
    const hit = hitAt(this.stage, this.titles, this.place, x, y);
    const isFar = this.place.scale < 0.16;
    return hit?.part === "frame" && !isFar ? null : hit;
  }

  /** End the animation, so that a click hits what is painted. */
  private arrive(): void {
    if (!this.glide) return;
    this.glide = null;
    this.frame(performance.now());
  }

  private clicked(hit: Hit | null, event: PointerEvent): void {
    if (hit?.part === "chevron") {
      this.openedAt = performance.now();
      this.options.on.open(hit.key);
    } else if (hit?.part === "action") {
      this.openedAt = performance.now();
      this.options.on.act?.(hit.key);
    } else if (hit?.part === "cell" && this.options.on.cell) {
      this.openedAt = performance.now();
      this.options.on.cell(hit.key, hit.cell!);
    } else this.options.on.select(hit?.key ?? null, event);
  }

  private doubleClicked(hit: Hit | null): void {
    // A double-click on a chevron is two clicks, not a toggle of its own as well.
    if (!hit || performance.now() - this.openedAt < 500) return;
    if (hit.part === "frame") this.focus(hit.key, { zoom: true });
    else this.options.on.open(hit.key);
  }

  private hover(hit: Hit | null, x: number, y: number): void {
    if (this.glide) return;
    const key = hit?.key ?? null;
    this.canvas.style.cursor = hit ? "pointer" : "grab";
    if (key === (this.hovered?.key ?? null)) return;
    // Highlighting all edges of a large frame on hover would be too much.
    this.hovered = key && this.stage?.frameOf.has(key) ? { key, near: NOTHING } : this.marked(key);
    this.options.on.hover?.(key, { x, y });
    this.request();
  }

  private marked(key: string | null): Marked | null {
    if (!key || !this.stage?.rect(key)) return null;
    return { key, near: nearOf(this.stage, key) };
  }

  // Where the camera goes.

  private farthest(): number {
    const { width, height } = this.stage?.bounds ?? { width: 1, height: 1 };
    return Math.min(0.5, (this.size.width / Math.max(width, 1)) * 0.5, (this.size.height / Math.max(height, 1)) * 0.5);
  }

  private cameraFor(old: Stage, now: Stage, anchor: string | undefined): Camera {
    const isInBoth = anchor !== undefined && old.rect(anchor) !== null && now.rect(anchor) !== null;
    const key = isInBoth ? anchor : nearestToCenter(old, now, inView(this.place, this.size));
    if (key === null) return this.clear((size) => fitCamera(now.bounds, size));
    return clampCamera(anchorCamera(this.place, old.rect(key)!, now.rect(key)!, this.size, now.isRight), now.bounds, this.size);
  }

  private fitAtOnce(): void {
    this.isFitWanted = !this.size.width;
    const { bounds } = this.stage!;
    this.place = this.clear((size) => initialCamera(bounds, size));
  }

  private clear(look: (size: Size) => Camera): Camera {
    return avoidCovered(this.options.covered?.() ?? [], this.stage!.boxes, this.size, look);
  }

  private goTo(x: number, y: number): void {
    const { scale } = this.place;
    this.moveByHand({ x: x - this.size.width / scale / 2, y: y - this.size.height / scale / 2, scale });
  }

  private moveByHand(camera: Camera, isZooming = false): void {
    this.drift = null;
    this.isZooming = isZooming;
    this.moveTo(this.stage ? clampCamera(camera, this.stage.bounds, this.size) : camera);
  }

  private travel(to: Camera, animate = true): void {
    if (!animate || matchMedia("(prefers-reduced-motion: reduce)").matches) {
      this.camera = to;
      return;
    }
    if (this.glide) {
      // One animation for both: to the new picture and to the new camera.
      const { before, start } = this.glide;
      this.place = to;
      this.glide = { way: new Glide(before, { stage: this.stage!, camera: to }, this.size), start, before };
      this.moved();
    } else this.drift = { from: this.place, to, start: performance.now() };
    this.request();
  }

  private moveTo(camera: Camera): void {
    this.glide = null;
    this.place = camera;
    this.request();
    this.moved();
  }

  private moved(): void {
    this.options.on.view?.(this.place);
  }

  private resize(): void {
    const { clientWidth: width, clientHeight: height } = this.host;
    const before = this.size;
    this.dpr = window.devicePixelRatio || 1;
    this.size = { width, height };
    this.canvas.width = Math.max(1, Math.round(width * this.dpr));
    this.canvas.height = Math.max(1, Math.round(height * this.dpr));
    this.surface.resize(this.canvas.width, this.canvas.height);
    if (!this.stage) return;
    if (this.isFitWanted && width) this.fitAtOnce();
    else this.keepSelected(before);
    this.minimap?.redraw(this.stage, this.size, this.theme, this.dpr);
    // Synchronously: resizing clears a canvas, and it would flash until the next frame.
    this.frame(performance.now());
  }

  /** Keep the selection in view when the canvas gets smaller, as when a panel opens. */
  private keepSelected(before: Size): void {
    const rect = this.selected && this.stage!.rect(this.selected.key);
    const to = this.drift?.to ?? this.place;
    const isSame = before.width === this.size.width && before.height === this.size.height;
    if (isSame || !rect || !this.size.width || !intersects(rect, inView(to, before))) return;
    const place = revealRect(to, rect, this.size, AWAY);
    if (place.x === to.x && place.y === to.y) return;
    this.glide = this.drift = null;
    this.place = place;
    this.moved();
  }

  // Drawing.

  private request(): void {
    this.asked ||= requestAnimationFrame((now) => {
      this.asked = 0;
      this.frame(now);
    });
  }

  private frame(now: number): void {
    if (!this.stage || !this.size.width) return;
    if (this.drift) this.driftOn(now);
    if (this.glide && now - this.glide.start >= GLIDE_MS) this.glide = null;
    if (this.glide) this.paintGlide(Math.max(0, now - this.glide.start) / GLIDE_MS);
    else this.paintStill();
    this.minimap?.update(this.place, this.size, this.theme, this.dpr);
    if (this.isNew) performance.mark(PAINTED);
    this.isNew = false;
    if (this.drift || this.glide) this.request();
  }

  private driftOn(now: number): void {
    const { from, to, start } = this.drift!;
    const t = Math.max(0, now - start) / DRIFT_MS;
    this.isZooming = t < 1;
    this.place = t < 1 ? interpolateCamera(from, to, easeInOut(t)) : to;
    if (t >= 1) this.drift = null;
    this.moved();
  }

  private view(camera: Camera): View {
    const view = viewOf(camera, this.dpr, this.theme, this.stage!.isRight);
    const isCrowded = this.selected !== null && !this.decorations.otherEdges && this.stage!.lines.length > MANY;
    return isCrowded ? { ...view, detail: { ...view.detail, edgeAlpha: view.detail.edgeAlpha * RECEDING } } : view;
  }

  private paintGlide(t: number): void {
    const { camera, ...items } = this.glide!.way.at(t);
    const view = this.view(camera);
    this.ctx.fillStyle = this.theme.paper;
    this.ctx.fillRect(0, 0, this.canvas.width, this.canvas.height);
    paint(this.ctx, view, items);
    const frames = items.frames.filter(({ frame }) => this.stage!.frameOf.has(frame.key));
    paintTitles(this.ctx, view, frames, frameTitles(this.stage!, frames, camera, this.size, this.options.top), null);
  }

  private paintStill(): void {
    const { ctx, stage } = this;
    const view = this.view(this.place);
    this.surface.update(view, stage!, this.isZooming);
    this.surface.show(ctx, view);
    if (this.hovered && this.hovered.key !== this.selected?.key) paintHovered(ctx, view, stage!, this.hovered.key, this.hovered.near);
    if (this.selected) paintSelected(ctx, view, stage!, this.selected.key, this.selected.near);
    const frames = stage!.frames.slice(1);
    const titles = frameTitles(stage!, frames, this.place, this.size, this.options.top);
    paintTitles(ctx, view, frames, titles, this.hovered?.key ?? null);
    this.titles = titles.map((title) => ({ ...title, frame: title.frame + 1 }));
  }
}
