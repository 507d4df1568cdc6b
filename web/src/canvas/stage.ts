/** A scene prepared for painting: every box, frame and line with its style, indexed by key and by position. */

import { EM, LINE, SMALL } from "./paint/detail";
import { Grid } from "./grid";
import { Styles } from "./paint/style";
import type { Style } from "./paint/style";
import type { Theme } from "./paint/theme";
import { edgeKey } from "./types";
import type { Box, Decorations, EdgeLook, Frame, Look, Point, Rect, Scene } from "./types";

interface Placed {
  x: number;
  y: number;
  width: number;
  height: number;
  /** Less than 1 while it appears or goes. */
  alpha: number;
}

export interface BoxItem extends Placed {
  readonly box: Box;
  style: Style;
  look: Look | undefined;
  /** Without text, while it is too small for it. */
  isBare?: boolean;
}

export interface FrameItem extends Placed {
  readonly frame: Frame;
  readonly depth: number;
  look: Look | undefined;
}

export interface LineItem {
  points: readonly Point[];
  readonly hasTip: boolean;
  readonly label: string;
  readonly isFeedback: boolean;
  readonly isRemoved: boolean;
  /** How many frames are around its end. */
  readonly depth: number;
  /** The longer side of the room it takes. */
  readonly length: number;
  look: EdgeLook | "plain";
  alpha: number;
}

const RANK: Record<EdgeLook | "plain", number> = { hidden: 0, faint: 1, plain: 2, strong: 3 };

export class Stage {
  readonly boxes: readonly BoxItem[];
  readonly frames: readonly FrameItem[];
  readonly lines: readonly LineItem[];
  readonly boxOf: ReadonlyMap<string, number>;
  readonly frameOf: ReadonlyMap<string, number>;
  readonly boxGrid: Grid;
  readonly lineGrid: Grid;
  readonly isRight: boolean;
  private leaving: readonly (readonly number[])[] | null = null;
  private near: { readonly before: readonly number[][]; readonly after: readonly number[][] } | null = null;

  constructor(readonly scene: Scene, decorations: Decorations, theme: Theme) {
    const { picture, placement } = scene;
    this.isRight = scene.direction === "right";
    const style = new Styles(theme).of(picture.boxes[0] ?? NO_BOX, undefined); // until decorate, at the end
    this.boxes = picture.boxes.map((box, i): BoxItem => {
      const { x, y, width, height } = placement.boxes[i]!;
      return { x, y, width, height, alpha: 1, box, style, look: undefined };
    });
    const depth: number[] = [];
    for (const frame of picture.frames) depth.push(depth.length ? depth[frame.parent]! + 1 : 0);
    this.frames = picture.frames.map((frame, i): FrameItem => {
      const { x, y, width, height } = placement.frames[i]!;
      return { x, y, width, height, alpha: 1, frame, depth: depth[i]!, look: undefined };
    });
    const pair = (parent: number, child: number): number => parent * picture.boxes.length + child;
    const labels = new Map<number, string>();
    for (const edge of picture.edges) if (edge.label) labels.set(pair(edge.parent, edge.child), edge.label);
    const isRemoved = picture.boxes.map((box) => box.mark === "removed");
    const areas: Rect[] = [];
    this.lines = placement.lines.map(({ points, parent, child, is_feedback }): LineItem => {
      const label = child === null ? "" : labels.get(pair(parent, child)) ?? "";
      const area = areaOf(points, label);
      areas.push(area);
      return {
        points, label, hasTip: child !== null, isFeedback: is_feedback, look: "plain", alpha: 1,
        length: Math.max(area.width, area.height), depth: child === null ? 0 : depth[picture.boxes[child]!.frame]!,
        isRemoved: isRemoved[parent]! || (child !== null && isRemoved[child]!),
      };
    });
    this.boxOf = new Map(picture.boxes.map((box, i) => [box.key, i]));
    this.frameOf = new Map(picture.frames.map((frame, i) => [frame.key, i]));
    this.boxGrid = new Grid(this.boxes);
    this.lineGrid = new Grid(areas);
    this.decorate(decorations, theme);
  }

  /** Recompute all styles. */
  decorate(decorations: Decorations, theme: Theme): void {
    const styles = new Styles(theme);
    for (const item of this.boxes) {
      item.look = decorations.boxes.get(item.box.key);
      item.style = styles.of(item.box, item.look);
    }
    for (const item of this.frames) item.look = decorations.boxes.get(item.frame.key);
    const other = decorations.otherEdges ?? "plain";
    if (!decorations.edges.size) {
      for (const line of this.lines) line.look = other;
      return;
    }
    const { boxes, edges } = this.scene.picture;
    const ranks = new Int8Array(this.lines.length).fill(-1);
    edges.forEach((edge, i) => {
      const look = decorations.edges.get(edgeKey(boxes[edge.parent]!.key, boxes[edge.child]!.key)) ?? other;
      // A segment that several edges share has the strongest of their looks.
      for (const line of this.linesOf(i)) ranks[line] = Math.max(ranks[line]!, RANK[look]);
    });
    const looks = ["hidden", "faint", "plain", "strong"] as const;
    this.lines.forEach((line, i) => (line.look = looks[ranks[i]!] ?? other));
  }

  /** The lines an edge is drawn with, the last one first. Edges that share their way share lines. */
  linesOf(edge: number): readonly number[] {
    this.leaving ??= leaving(this.scene);
    const { parent, child } = this.scene.picture.edges[edge]!;
    return wayTo(this.scene, this.leaving[parent]!, child);
  }

  /** For each box the numbers of the edges that arrive (before) and leave (after). */
  edgesAt(): { readonly before: readonly number[][]; readonly after: readonly number[][] } {
    if (this.near) return this.near;
    const before: number[][] = this.boxes.map(() => []);
    const after: number[][] = this.boxes.map(() => []);
    this.scene.picture.edges.forEach((edge, i) => {
      before[edge.child]!.push(i);
      after[edge.parent]!.push(i);
    });
    return (this.near = { before, after });
  }

  /** What a stand-in stands for, or the stand-ins of a box. */
  standsWith(box: number): number[] {
    const { key, stands_for } = this.boxes[box]!.box;
    if (stands_for?.length) return stands_for.flatMap((each) => this.boxOf.get(each) ?? []);
    return this.boxes.flatMap((item, i) => (item.box.stands_for?.includes(key) ? [i] : []));
  }

  /** Boxes in this frame or in frames within it. */
  boxesIn(frame: number): number[] {
    const { boxes, frames } = this.scene.picture;
    const isIn = frames.map((_, i) => i === frame);
    // Frames come after the frame around them, so one pass suffices.
    frames.forEach((each, i) => { if (i && isIn[each.parent]) isIn[i] = true; });
    return boxes.flatMap((box, i) => (isIn[box.frame] ? [i] : []));
  }

  /** The place of a box or frame; null if it is not in the picture. */
  rect(key: string): Rect | null {
    const box = this.boxOf.get(key);
    if (box !== undefined) return this.boxes[box]!;
    const frame = this.frameOf.get(key);
    return frame === undefined ? null : this.frames[frame]!;
  }

  /** The place of everything, with what stands over the borders. */
  get bounds(): Rect {
    const { width, height } = this.scene.placement;
    return { x: 0, y: 0, width, height };
  }
}

const NO_BOX: Box = { key: "", lines: [], kind: "plain", form: "function", flags: 0, frame: 0, stack: 1, mark: "", shade: 0 };

/** The room of a line with its tip and its label. */
function areaOf(points: readonly Point[], label: string): Rect {
  let [left, top] = points[0]!;
  let [right, bottom] = [left, top];
  for (let i = 1; i < points.length; i++) {
    const point = points[i]!;
    if (point[0] < left) left = point[0];
    else if (point[0] > right) right = point[0];
    if (point[1] < top) top = point[1];
    else if (point[1] > bottom) bottom = point[1];
  }
  const side = 5 + (label ? label.length * SMALL * EM + LINE : 0);
  const over = 5 + (label ? LINE : 0);
  return { x: left - side, y: top - over, width: right - left + 2 * side, height: bottom - top + over + 5 };
}

/** For each box the lines that carry what it makes. */
function leaving({ picture, placement }: Scene): number[][] {
  const lines: number[][] = picture.boxes.map(() => []);
  placement.lines.forEach((line, i) => lines[line.parent]!.push(i));
  return lines;
}

/** The line among these that leads to a box, and those before it, from the last to the first. */
function wayTo(scene: Scene, lines: readonly number[], child: number): number[] {
  const all = scene.placement.lines;
  const way: number[] = [];
  let line = lines.find((i) => all[i]!.child === child);
  while (line !== undefined && way.length < lines.length) {
    way.push(line);
    const start = all[line]!.points[0]!;
    line = lines.find((i) => all[i]!.child === null && meets(all[i]!.points.at(-1)!, start));
  }
  return way;
}

function meets(a: Point, b: Point): boolean {
  return Math.abs(a[0] - b[0]) < 0.5 && Math.abs(a[1] - b[1]) < 0.5;
}
