// Where everything in a picture goes. Frames are laid out one by one, the innermost first, and each is a single box to
// the frame around it. The same steps as in Python, `layout/place.py`; a test there holds the two together.

import { BESIDE, waysBack, type Back, type End, type Span } from "./feedback";
import { ANYWHERE, layout, PER_WIRE, type Known, type Layout, type Level as Sheet } from "./layered";
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

/** A piece of an edge; edges from one box share their way as long as they can. */
export interface Line {
  points: Point[];
  parent: number;
  /** The box at which it arrives; null where it ends at a border or goes on. */
  child: number | null;
  /** The frame at whose border it arrives. */
  frame: number | null;
  /** Whether it goes back, with square turns. */
  is_feedback: boolean;
}

/** A place for each box and frame of a picture, and the lines between them. */
export interface Placement {
  width: number;
  height: number;
  boxes: Rect[];
  frames: Rect[];
  lines: Line[];
}

/** What of a picture has a size. */
export interface Drawing {
  readonly boxes: readonly Pick<Box, "lines" | "form" | "frame">[];
  readonly frames: readonly Pick<Frame, "key" | "title" | "parent">[];
  readonly edges: readonly Edge[];
}

/** What was laid out before: a frame in which nothing changed is not laid out again. */
export interface PlaceCache {
  readonly frames: Record<Direction, Map<string, { sheet: Sheet; laid: Layout }>>;
  readonly known: Known;
}

export function placeCache(): PlaceCache {
  return { frames: { down: new Map(), right: new Map() }, known: new Map() };
}

/** Arrangements kept in a cache before it is emptied. */
const MOST_KNOWN = 5000;
const SIDE = 14, END = 14;
/** Lines from ports at the top run straight for so long: the title of the frame stands there. */
const BELOW_PORTS = 24;
/** The upright end of a line with a label. */
const STUB = 14;
/** From one line with a label to the next, where lines lie. */
const TAG = 14;
/** What a lying line is longer than its label. */
const BESIDE_TIP = 14;
/** Lying lines run straight for so long behind the border of a frame; its title is above them. */
const AHEAD = 15;
/** A port, in the place of a member. */
const PORT = 0x7fffffff;

/** Where everything goes; the same picture gives the same places, with or without a cache. */
export function place(picture: Drawing, direction: Direction = "down", cache: PlaceCache = placeCache()): Placement {
  if (cache.known.size > MOST_KNOWN) cache.known.clear();
  const draft = new Draft(picture, direction === "right");
  draft.findMembers();
  draft.cutEdges();
  for (let k = draft.outsideIn.length - 1; k >= 0; k--) draft.place(draft.outsideIn[k], cache.frames[direction], cache.known);
  return draft.compose();
}

/** What one frame holds; its members are boxes, by number, and frames, as `~number`. Places are relative to its corner. */
class Level {
  readonly members: number[] = [];
  /** Upper member, lower member, box that makes what it carries, width of the label; in turn. */
  readonly wires: number[] = [];
  ins: number[] = [];
  outs: number[] = [];
  /** Box that makes what comes in or goes out → where, across. */
  readonly inAt = new Map<number, number>();
  readonly outAt = new Map<number, number>();
  readonly back: Edge[] = [];
  across = 0;
  along = 0;
  aside = 0;
  before = 0;
  laid!: Layout;
  /** The values by their numbers in the layout. */
  values: number[] = [];
  readonly linesBack: { points: Point[]; parent: number; child: number }[] = [];
}

class Draft {
  readonly levels: Level[];
  readonly outsideIn: number[];
  private readonly depth: Int32Array;
  private readonly width: Float64Array;
  private readonly height: Float64Array;
  private readonly labels: Float64Array;
  /** The place of each box and frame among the members of the level around it. */
  private readonly boxIndex: Int32Array;
  private readonly frameIndex: Int32Array;

  constructor(private readonly picture: Drawing, private readonly isRight: boolean) {
    const { boxes, frames, edges } = picture;
    this.levels = frames.map(() => new Level());
    this.depth = new Int32Array(frames.length);
    frames.forEach(({ parent }, frame) => (this.depth[frame] = frame ? this.depth[parent] + 1 : 0));
    this.outsideIn = frames.map((_, frame) => frame).sort((a, b) => this.depth[a] - this.depth[b]);
    this.width = new Float64Array(boxes.length);
    this.height = new Float64Array(boxes.length);
    this.boxIndex = new Int32Array(boxes.length);
    this.frameIndex = new Int32Array(frames.length).fill(-1);
    this.labels = Float64Array.from(edges, (edge) => labelWidth(edge.label));
    this.setSizes();
  }

  /** Large enough for the text of each box, and for the labels of the edges that arrive there. */
  private setSizes(): void {
    const { boxes, edges } = this.picture, nArriving = new Int32Array(boxes.length), widest = new Float64Array(boxes.length);
    edges.forEach(({ parent, child }, number) => {
      if (parent >= child) return;
      nArriving[child] += 1;
      widest[child] = Math.max(widest[child], this.labels[number]);
    });
    boxes.forEach((box, number) => {
      let [width, height] = boxSize(box);
      if (widest[number] && this.isRight) height = Math.max(height, nArriving[number] * TAG);
      else if (widest[number]) width = Math.max(width, nArriving[number] * (widest[number] + 10));
      this.width[number] = width;
      this.height[number] = height;
    });
  }

  /** The size of a member across the direction of the edges. */
  private wide(member: number): number {
    return member < 0 ? this.levels[~member].across : this.isRight ? this.height[member] : this.width[member];
  }

  /** The size of a member along it. */
  private high(member: number): number {
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

  /** Cut edges at the borders they cross: a piece for each frame left, one outside, one for each entered. */
  cutEdges(): void {
    const { boxes, frames, edges } = this.picture, { levels, depth } = this;
    const n = boxes.length, ends = n + frames.length, done = new Set<number>();
    // Where a piece ends (box, frame, border of a frame from inside, from outside) and what it carries.
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
        levels[a].back.push(edge);
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

  /** Lay a frame out; the frames inside it have been. */
  place(frame: number, kept: PlaceCache["frames"]["down"], known: Known): void {
    const level = this.levels[frame], { isRight } = this, { key, title } = this.picture.frames[frame];
    level.ins.sort((a, b) => a - b);
    level.outs.sort((a, b) => a - b);
    const sheet = this.sheet(level, frame, titleWidth(title)), before = kept.get(key);
    level.laid = before && isSame(before.sheet, sheet) ? before.laid : layout(sheet, known);
    kept.set(key, { sheet, laid: level.laid });
    const { laid, ins, outs, members } = level, behind = outs.length ? 0 : END;
    level.along = level.before + laid.height + behind;
    if (isRight) {
      level.aside = frame ? BELOW_PORTS : SIDE;
      level.across = level.aside + laid.width + SIDE;
    } else {
      level.across = Math.max(laid.width, titleWidth(title)) + 2 * SIDE;
      level.aside = (level.across - laid.width) / 2;
    }
    ins.forEach((value, i) => level.inAt.set(value, laid.x[i] + level.aside));
    outs.forEach((value, i) => level.outAt.set(value, laid.x[ins.length + members.length + i] + level.aside));
    if (level.back.length) this.leadBack(level);
  }

  /** A level in numbers: what it holds is numbered from 0, so that two levels alike are the same. */
  private sheet(level: Level, frame: number, title: number): Sheet {
    const { isRight } = this, { members, wires, ins, outs } = level, nIn = ins.length, nOut = outs.length;
    const n = nIn + members.length + nOut, width = new Float64Array(n), height = new Float64Array(n);
    members.forEach((member, i) => {
      width[nIn + i] = this.wide(member);
      height[nIn + i] = this.high(member);
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
      packed[p + 5] = label ? (isRight ? TAG - 10 : label) : 0;
      packed[p + 6] = label ? (isRight ? label + BESIDE_TIP : STUB) : 0;
    }
    level.before = nIn ? 0 : isRight || !frame ? END : BELOW_PORTS;
    const behind = nOut ? 0 : END;
    const least = isRight ? Math.max(0, title + 2 * SIDE - level.before - behind) : 0;
    return { nIn, nOut, ahead: isRight ? AHEAD : BELOW_PORTS, least, width, height, wires: packed };
  }

  /** Add the edges that go back, and room for them. */
  private leadBack(level: Level): void {
    const { laid, members, aside, before } = level, nIn = level.ins.length;
    const members_: Span[] = members.map((member, i) => {
      const along = laid.y[nIn + i] + before;
      return [along, along + this.high(member), laid.x[nIn + i] + aside + this.wide(member)];
    });
    const lines: Span[] = [];
    for (const { points } of laid.routes) {
      for (let k = 2; k < points.length; k += 2) {
        lines.push([points[k - 1] + before, points[k + 1] + before, Math.max(points[k - 2] + aside, points[k] + aside)]);
      }
    }
    const backs = level.back.map(({ parent, child, label }): Back =>
      ({ upper: this.endIn(level, parent), lower: this.endIn(level, child), room: this.isRight ? 0 : labelWidth(label) }));
    for (const [back, points] of waysBack(backs, members_, lines)) {
      level.linesBack.push({ points, parent: back.upper.box, child: back.lower.box });
      for (const [across] of points) level.across = Math.max(level.across, across + BESIDE);
    }
  }

  /** The place of a box in a level, across and along, however deep inside it is. */
  private endIn(level: Level, box: number): End {
    const { boxes, frames } = this.picture;
    let inside = boxes[box].frame, within = this.levels[inside], i = within.ins.length + this.boxIndex[box];
    let x = within.laid.x[i] + within.aside, y = within.laid.y[i] + within.before;
    const row: End["row"] = within === level ? [within.laid.first[i] + within.before, within.laid.last[i] + within.before] : null;
    while (within !== level) {
      const frame = inside;
      inside = frames[frame].parent;
      within = this.levels[inside];
      i = within.ins.length + this.frameIndex[frame];
      x += within.laid.x[i] + within.aside;
      y += within.laid.y[i] + within.before;
    }
    return { box, x, y, width: this.wide(box), height: this.high(box), row };
  }

  /** Turn places within frames into places in the picture. */
  compose(): Placement {
    const { isRight, levels, width, height } = this, lines: Line[] = [];
    const boxes: Rect[] = this.picture.boxes.map((_, i) => ({ x: 0, y: 0, width: width[i], height: height[i] }));
    const frames: Rect[] = levels.map(({ across, along }) =>
      ({ x: 0, y: 0, width: isRight ? along : across, height: isRight ? across : along }));
    for (const frame of this.outsideIn) {
      const level = levels[frame], { laid, members, aside, before, values } = level, nIn = level.ins.length;
      const { x: left, y: top } = frames[frame];
      const point = (across: number, along: number): Point => (isRight ? [left + along, top + across] : [left + across, top + along]);
      members.forEach((member, i) => {
        const rect = member < 0 ? frames[~member] : boxes[member];
        [rect.x, rect.y] = point(laid.x[nIn + i] + aside, laid.y[nIn + i] + before);
      });
      for (const { points, value, lower } of laid.routes) {
        const moved: Point[] = [];
        for (let k = 0; k < points.length; k += 2) moved.push(point(points[k] + aside, points[k + 1] + before));
        const at = lower - nIn, arrives = lower >= 0 && at < members.length ? members[at] : PORT;
        const child = arrives >= 0 && arrives !== PORT ? arrives : null, entered = arrives < 0 ? ~arrives : null;
        lines.push({ points: moved, parent: values[value], child, frame: entered, is_feedback: false });
      }
      for (const { points, parent, child } of level.linesBack) {
        lines.push({ points: points.map(([across, along]) => point(across, along)), parent, child, frame: null, is_feedback: true });
      }
    }
    return { width: frames[0].width, height: frames[0].height, boxes, frames, lines };
  }
}

function isSame(one: Sheet, other: Sheet): boolean {
  return one.nIn === other.nIn && one.nOut === other.nOut && one.ahead === other.ahead && one.least === other.least
    && areEqual(one.width, other.width) && areEqual(one.height, other.height) && areEqual(one.wires, other.wires);
}

function areEqual(one: Float64Array, other: Float64Array): boolean {
  if (one.length !== other.length) return false;
  for (let i = 0; i < one.length; i++) if (one[i] !== other[i]) return false;
  return true;
}
