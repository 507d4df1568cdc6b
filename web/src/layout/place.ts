// Places all boxes, frames and lines of a picture. Frames are laid out one by one, innermost first, and each is a single
// box in the frame around it. The same steps as in Python, `layout/place.py`; `tests/layout` compares the two.

import { LANE_MARGIN, feedbackRoutes, type FeedbackEdge, type End, type Span } from "./feedback";
import { ANYWHERE, layout, PER_WIRE, type ArrangementCache, type Layout, type Level as LayoutInput } from "./layered";
import { boxSize, labelWidth, titleWidth } from "./text-size";
import type { Box, Edge, Frame } from "../lib/wire";

export type Direction = "down" | "right";

export interface Rect {
  x: number;
  y: number;
  width: number;
  height: number;
}

export type Point = [number, number];

/** A segment of an edge; edges from one box share their path as long as possible. */
export interface Line {
  points: Point[];
  parent: number;
  /** The box at which it ends; null if it ends at a border or continues. */
  child: number | null;
  /** The frame at whose border it ends. */
  frame: number | null;
  /** Whether it is a feedback edge, which has right-angled turns. */
  is_feedback: boolean;
}

/** The rectangles of all boxes and frames of a picture, and the lines between them. */
export interface Placement {
  width: number;
  height: number;
  boxes: Rect[];
  frames: Rect[];
  lines: Line[];
}

/** The parts of a picture that need a position. */
export interface Drawing {
  readonly boxes: readonly Pick<Box, "lines" | "form" | "frame">[];
  readonly frames: readonly Pick<Frame, "key" | "title" | "parent">[];
  readonly edges: readonly Edge[];
}

/** Earlier layouts, by frame: a frame in which nothing changed is not laid out again. */
export interface PlaceCache {
  readonly frames: Record<Direction, Map<string, { input: LayoutInput; placed: Layout }>>;
  readonly known: ArrangementCache;
}

export function placeCache(): PlaceCache {
  return { frames: { down: new Map(), right: new Map() }, known: new Map() };
}

/** Arrangements kept in a cache before it is emptied. */
const MAX_CACHED = 5000;
const PADDING_ACROSS = 14, PADDING_ALONG = 14;
/** Lines from ports at the top run straight for this length, because the title of the frame is there. */
const BELOW_PORTS = 24;
/** Length of the vertical end of a line with a label. */
const STUB = 14;
/** Distance between horizontal lines with labels. */
const LABEL_PITCH = 14;
/** Extra length of a horizontal line beyond its label. */
const LABEL_MARGIN = 14;
/** Horizontal lines run straight for this length after the border of a frame; its title is above them. */
const LEAD_IN = 15;
/** In the place of a member: the end of the wire is a port. */
const PORT = 0x7fffffff;

/** Place everything in a picture; deterministic, with or without a cache. */
export function place(picture: Drawing, direction: Direction = "down", cache: PlaceCache = placeCache()): Placement {
  // Bounds the memory of a page that stays open.
  if (cache.known.size > MAX_CACHED) cache.known.clear();
  const placer = new Placer(picture, direction === "right");
  placer.findMembers();
  placer.cutEdges();
  for (let k = placer.outermostFirst.length - 1; k >= 0; k--) placer.place(placer.outermostFirst[k], cache.frames[direction], cache.known);
  return placer.compose();
}

/** The contents of one frame; its members are boxes, by index, and frames, as `~index`. Positions are relative to its corner. */
class Level {
  readonly members: number[] = [];
  /** Four numbers each: upper member, lower member, source box of the tensor, width of a label. */
  readonly wires: number[] = [];
  ins: number[] = [];
  outs: number[] = [];
  /** Source box of an incoming or outgoing tensor → its position across. */
  readonly inAt = new Map<number, number>();
  readonly outAt = new Map<number, number>();
  readonly feedback: Edge[] = [];
  across = 0;
  along = 0;
  offsetAcross = 0;
  offsetAlong = 0;
  placed!: Layout;
  /** Source boxes by their index in the layout. */
  values: number[] = [];
  readonly feedbackLines: { points: Point[]; parent: number; child: number }[] = [];
}

class Placer {
  readonly levels: Level[];
  readonly outermostFirst: number[];
  private readonly depth: Int32Array;
  private readonly width: Float64Array;
  private readonly height: Float64Array;
  private readonly labels: Float64Array;
  /** The index of each box and frame among the members of the level around it. */
  private readonly boxIndex: Int32Array;
  private readonly frameIndex: Int32Array;

  constructor(private readonly picture: Drawing, private readonly isRight: boolean) {
    const { boxes, frames, edges } = picture;
    this.levels = frames.map(() => new Level());
    this.depth = new Int32Array(frames.length);
    frames.forEach(({ parent }, frame) => (this.depth[frame] = frame ? this.depth[parent] + 1 : 0));
    this.outermostFirst = frames.map((_, frame) => frame).sort((a, b) => this.depth[a] - this.depth[b]);
    this.width = new Float64Array(boxes.length);
    this.height = new Float64Array(boxes.length);
    this.boxIndex = new Int32Array(boxes.length);
    this.frameIndex = new Int32Array(frames.length).fill(-1);
    this.labels = Float64Array.from(edges, (edge) => labelWidth(edge.label));
    this.setSizes();
  }

  /** The size of each box: enough for its text and the labels of its incoming edges. */
  private setSizes(): void {
    const { boxes, edges } = this.picture, nArriving = new Int32Array(boxes.length), widest = new Float64Array(boxes.length);
    edges.forEach(({ parent, child }, number) => {
      if (parent >= child) return;
      nArriving[child] += 1;
      widest[child] = Math.max(widest[child], this.labels[number]);
    });
    boxes.forEach((box, number) => {
      let [width, height] = boxSize(box);
      if (widest[number] && this.isRight) height = Math.max(height, nArriving[number] * LABEL_PITCH);
      else if (widest[number]) width = Math.max(width, nArriving[number] * (widest[number] + 10));
      this.width[number] = width;
      this.height[number] = height;
    });
  }

  /** The size of a member across the direction of the edges. */
  private acrossOf(member: number): number {
    return member < 0 ? this.levels[~member].across : this.isRight ? this.height[member] : this.width[member];
  }

  /** The size of a member along it. */
  private alongOf(member: number): number {
    return member < 0 ? this.levels[~member].along : this.isRight ? this.width[member] : this.height[member];
  }

  private index(member: number): number {
    return member < 0 ? this.frameIndex[~member] : this.boxIndex[member];
  }

  findMembers(): void {
    const { boxes, frames } = this.picture;
    boxes.forEach((box, number) => {
      this.boxIndex[number] = this.levels[box.frame].members.push(number) - 1;
      for (let frame = box.frame; frames[frame].parent >= 0 && this.frameIndex[frame] < 0; frame = frames[frame].parent) {
        this.frameIndex[frame] = this.levels[frames[frame].parent].members.push(~frame) - 1;
      }
    });
  }

  /** Cut edges at the borders they cross: a segment for each frame left, one outside, one for each entered. */
  cutEdges(): void {
    const { boxes, frames, edges } = this.picture, { levels, depth } = this;
    const n = boxes.length, ends = n + frames.length, done = new Set<number>();
    // (where a segment ends: box, frame, border of a frame from inside or outside; source box)
    const isNew = (end: number, value: number): boolean => done.size !== done.add(end * n + value).size;
    const endOf = (member: number): number => (member < 0 ? n + ~member : member);
    edges.forEach((edge, number) => {
      const value = edge.parent;
      let upper = edge.parent, lower = edge.child, label = this.labels[number];
      let a = boxes[upper].frame, b = boxes[lower].frame;
      if (upper >= lower) {
        while (a !== b) {
          if (depth[a] >= depth[b]) a = frames[a].parent;
          else b = frames[b].parent;
        }
        levels[a].feedback.push(edge);
        return;
      }
      while (a !== b) {
        if (depth[a] >= depth[b]) {
          if (isNew(ends + a, value)) {
            levels[a].outs.push(value);
            levels[a].wires.push(upper, PORT, value, 0);
          }
          upper = ~a;
          a = frames[a].parent;
        } else {
          if (isNew(ends + frames.length + b, value)) levels[b].ins.push(value);
          if (isNew(endOf(lower), value)) levels[b].wires.push(PORT, lower, value, label);
          lower = ~b;
          label = 0;
          b = frames[b].parent;
        }
      }
      if (isNew(endOf(lower), value)) levels[a].wires.push(upper, lower, value, label);
    });
  }

  /** Lay out a frame; its inner frames are done already. */
  place(frame: number, kept: PlaceCache["frames"]["down"], known: ArrangementCache): void {
    const level = this.levels[frame], { isRight } = this, { key, title } = this.picture.frames[frame];
    level.ins.sort((a, b) => a - b);
    level.outs.sort((a, b) => a - b);
    const input = this.layoutInput(level, frame, titleWidth(title)), cached = kept.get(key);
    level.placed = cached && isSame(cached.input, input) ? cached.placed : layout(input, known);
    kept.set(key, { input, placed: level.placed });
    const { placed, ins, outs, members } = level, paddingAfter = outs.length ? 0 : PADDING_ALONG;
    level.along = level.offsetAlong + placed.height + paddingAfter;
    if (isRight) {
      level.offsetAcross = frame ? BELOW_PORTS : PADDING_ACROSS;
      level.across = level.offsetAcross + placed.width + PADDING_ACROSS;
    } else {
      level.across = Math.max(placed.width, titleWidth(title)) + 2 * PADDING_ACROSS;
      level.offsetAcross = (level.across - placed.width) / 2;
    }
    ins.forEach((value, i) => level.inAt.set(value, placed.x[i] + level.offsetAcross));
    outs.forEach((value, i) => level.outAt.set(value, placed.x[ins.length + members.length + i] + level.offsetAcross));
    if (level.feedback.length) this.routeFeedback(level);
  }

  /** The input of a layout. Its contents are numbered from 0, so that equal levels compare equal. */
  private layoutInput(level: Level, frame: number, title: number): LayoutInput {
    const { isRight } = this, { members, wires, ins, outs } = level, nIn = ins.length, nOut = outs.length;
    const n = nIn + members.length + nOut, width = new Float64Array(n), height = new Float64Array(n);
    members.forEach((member, i) => {
      width[nIn + i] = this.acrossOf(member);
      height[nIn + i] = this.alongOf(member);
    });
    const values = new Map<number, number>();
    for (let w = 2; w < wires.length; w += 4) values.set(wires[w], 0);
    level.values = [...values.keys()].sort((a, b) => a - b);
    level.values.forEach((value, i) => values.set(value, i));
    const inIndex = new Map(ins.map((value, i) => [value, i])), outIndex = new Map(outs.map((value, i) => [value, nIn + members.length + i]));
    const packed = new Float64Array((wires.length / 4) * PER_WIRE);
    for (let w = 0, p = 0; w < wires.length; w += 4, p += PER_WIRE) {
      const upper = wires[w], lower = wires[w + 1], value = wires[w + 2], label = wires[w + 3];
      packed[p] = upper === PORT ? inIndex.get(value)! : nIn + this.index(upper);
      packed[p + 1] = lower === PORT ? outIndex.get(value)! : nIn + this.index(lower);
      packed[p + 2] = values.get(value)!;
      packed[p + 3] = upper < 0 ? this.levels[~upper].outAt.get(value)! : ANYWHERE;
      packed[p + 4] = lower < 0 ? this.levels[~lower].inAt.get(value)! : ANYWHERE;
      packed[p + 5] = label ? (isRight ? LABEL_PITCH - 10 : label) : 0;
      packed[p + 6] = label ? (isRight ? label + LABEL_MARGIN : STUB) : 0;
    }
    level.offsetAlong = nIn ? 0 : isRight || !frame ? PADDING_ALONG : BELOW_PORTS;
    const paddingAfter = nOut ? 0 : PADDING_ALONG;
    const minHeight = isRight ? Math.max(0, title + 2 * PADDING_ACROSS - level.offsetAlong - paddingAfter) : 0;
    return { nIn, nOut, leadIn: isRight ? LEAD_IN : BELOW_PORTS, minHeight, width, height, wires: packed };
  }

  /** Route the feedback edges, and widen the frame for them. */
  private routeFeedback(level: Level): void {
    const { placed, members, offsetAcross, offsetAlong } = level, nIn = level.ins.length;
    const occupied: Span[] = members.map((member, i) => {
      const along = placed.y[nIn + i] + offsetAlong;
      return [along, along + this.alongOf(member), placed.x[nIn + i] + offsetAcross + this.acrossOf(member)];
    });
    const lines: Span[] = [];
    for (const { points } of placed.routes) {
      for (let k = 2; k < points.length; k += 2) {
        lines.push([points[k - 1] + offsetAlong, points[k + 1] + offsetAlong, Math.max(points[k - 2] + offsetAcross, points[k] + offsetAcross)]);
      }
    }
    const edges = level.feedback.map(({ parent, child, label }): FeedbackEdge =>
      ({ upper: this.endIn(level, parent), lower: this.endIn(level, child), room: this.isRight ? 0 : labelWidth(label) }));
    for (const [edge, points] of feedbackRoutes(edges, occupied, lines)) {
      level.feedbackLines.push({ points, parent: edge.upper.box, child: edge.lower.box });
      for (const [across] of points) level.across = Math.max(level.across, across + LANE_MARGIN);
    }
  }

  /** The position of a box in a level, across and along, however deeply nested it is. */
  private endIn(level: Level, box: number): End {
    const { boxes, frames } = this.picture;
    let inside = boxes[box].frame, within = this.levels[inside], i = within.ins.length + this.boxIndex[box];
    let x = within.placed.x[i] + within.offsetAcross, y = within.placed.y[i] + within.offsetAlong;
    const row: End["row"] = within === level ? [within.placed.first[i] + within.offsetAlong, within.placed.last[i] + within.offsetAlong] : null;
    while (within !== level) {
      const frame = inside;
      inside = frames[frame].parent;
      within = this.levels[inside];
      i = within.ins.length + this.frameIndex[frame];
      x += within.placed.x[i] + within.offsetAcross;
      y += within.placed.y[i] + within.offsetAlong;
    }
    return { box, x, y, width: this.acrossOf(box), height: this.alongOf(box), row };
  }

  /** Convert positions within frames to positions in the picture. */
  compose(): Placement {
    const { isRight, levels, width, height } = this, lines: Line[] = [];
    const boxes: Rect[] = this.picture.boxes.map((_, i) => ({ x: 0, y: 0, width: width[i], height: height[i] }));
    const frames: Rect[] = levels.map(({ across, along }) =>
      ({ x: 0, y: 0, width: isRight ? along : across, height: isRight ? across : along }));
    for (const frame of this.outermostFirst) {
      const level = levels[frame], { placed, members, offsetAcross, offsetAlong, values } = level, nIn = level.ins.length;
      const { x: left, y: top } = frames[frame];
      const point = (across: number, along: number): Point => (isRight ? [left + along, top + across] : [left + across, top + along]);
      members.forEach((member, i) => {
        const rect = member < 0 ? frames[~member] : boxes[member];
        [rect.x, rect.y] = point(placed.x[nIn + i] + offsetAcross, placed.y[nIn + i] + offsetAlong);
      });
      for (const { points, value, lower } of placed.routes) {
        const moved: Point[] = [];
        for (let k = 0; k < points.length; k += 2) moved.push(point(points[k] + offsetAcross, points[k + 1] + offsetAlong));
        const at = lower - nIn, arrives = lower >= 0 && at < members.length ? members[at] : PORT;
        const child = arrives >= 0 && arrives !== PORT ? arrives : null, entered = arrives < 0 ? ~arrives : null;
        lines.push({ points: moved, parent: values[value], child, frame: entered, is_feedback: false });
      }
      for (const { points, parent, child } of level.feedbackLines) {
        lines.push({ points: points.map(([across, along]) => point(across, along)), parent, child, frame: null, is_feedback: true });
      }
    }
    return { width: frames[0].width, height: frames[0].height, boxes, frames, lines };
  }
}

function isSame(one: LayoutInput, other: LayoutInput): boolean {
  return one.nIn === other.nIn && one.nOut === other.nOut && one.leadIn === other.leadIn && one.minHeight === other.minHeight
    && areEqual(one.width, other.width) && areEqual(one.height, other.height) && areEqual(one.wires, other.wires);
}

function areEqual(one: Float64Array, other: Float64Array): boolean {
  if (one.length !== other.length) return false;
  for (let i = 0; i < one.length; i++) if (one[i] !== other[i]) return false;
  return true;
}
