// Layered layout of one level from top to bottom, in linear time.
// The same steps as in Python, `layout/layered.py`; `tests/layout` compares the two.

import { append } from "../lib/collections";
import { arrange, pairKey, CROWD, OUTSIDE, type Arrangement } from "./layers";
import { LOOSE, MAIN, PASSING, sideOf, SKIP, rowCoordinates, type Pulls, type Side } from "./coordinates";

const NODE_GAP = 22, LAYER_GAP = 30, LANE_GAP = 8, TRACK_GAP = 5;
/** Straight lines between ports can make a stack of groups lean. If the level is wider than its widest row by more than this factor, items are aligned by their centers instead. */
const MAX_DRIFT = 1.3;

/** Numbers per wire: upper node, lower node, tensor, offsets where it leaves and meets them, room for a label, stub. */
export const PER_WIRE = 7;
/** Instead of an offset: leave in the middle, or meet the node at any free place. Not NaN, which is unequal to itself in cache lookups. */
export const ANYWHERE = -1e9;

/** A level to lay out: nodes parents first, of which the first `nIn` and the last `nOut` are ports. */
export interface Level {
  readonly nIn: number;
  readonly nOut: number;
  /** Length for which lines from ports run straight. */
  readonly leadIn: number;
  /** Minimum height of the level. */
  readonly minHeight: number;
  readonly width: Float64Array;
  readonly height: Float64Array;
  /** `PER_WIRE` numbers each. */
  readonly wires: Float64Array;
}

/** A segment of a wire; wires with a shared path share its segment. */
export interface Route {
  /** x and y, alternating. */
  readonly points: readonly number[];
  readonly value: number;
  /** The node at which it ends; -1 if it continues. */
  readonly lower: number;
}

/** Positions of all nodes, in the given order, and routes of all wires. */
export interface Layout {
  readonly width: number;
  readonly height: number;
  readonly x: Float64Array;
  readonly y: Float64Array;
  readonly routes: readonly Route[];
  /** For each node, the vertical extent of its row, including the labels above it. */
  readonly first: Float64Array;
  readonly last: Float64Array;
}

/** Cache of arrangements by their inputs. */
export type ArrangementCache = Map<string, Arrangement>;

/** Place the nodes of a level. */
export function layout(level: Level, known: ArrangementCache): Layout {
  return new LevelLayout(level, arrangementOf(level, known)).run();
}

function arrangementOf({ nIn, nOut, width, wires }: Level, known: ArrangementCache): Arrangement {
  const n = width.length - nIn - nOut, links = new Set<number>(), reads = new Uint8Array(n), feeds = new Uint8Array(n);
  for (let w = 0; w < wires.length; w += PER_WIRE) {
    const upper = wires[w] - nIn, lower = wires[w + 1] - nIn;
    if (upper >= lower || (upper < 0 && lower >= n)) throw new Error("nodes must be given parents first, with the nodes of a group next to each other");
    if (upper < 0) reads[lower] = 1;
    else if (lower >= n) feeds[upper] = 1;
    else links.add(upper * n + lower);
  }
  const sorted = [...links].sort((a, b) => a - b);
  // Maps compare keys by identity, so the inputs become a text.
  const key = `${n}|${sorted.join()}|${reads.join("")}|${feeds.join("")}`;
  let found = known.get(key);
  if (!found) known.set(key, (found = arrange({ n, links: sorted, reads, feeds })));
  return found;
}

/** A segment of a line between adjacent rows, or a whole line in a lane. */
interface Segment {
  readonly upper: number;
  readonly lower: number;
  readonly value: number;
  readonly out: number;
  readonly into: number;
  readonly room: number;
  readonly stub: number;
  /** The x at which it ends. */
  end: number;
}

/** The coordinates of one level. Items are the nodes in the given order, then the waypoints. */
class LevelLayout {
  private readonly n: number;
  private readonly width: Float64Array;
  private readonly height: Float64Array;
  private readonly row: Int32Array;
  private readonly tail: Int32Array;
  private readonly rows: (readonly number[])[] = [];
  private readonly short: Segment[] = [];
  private readonly long: Segment[] = [];
  private pulls!: Pulls;
  private above!: Side;
  private below!: Side;
  private x: Float64Array = new Float64Array(0);
  private readonly y: Float64Array;
  private right = 0;
  private bottom = 0;

  constructor(private readonly level: Level, private readonly arranged: Arrangement) {
    this.n = level.width.length;
    const size = this.n + arranged.layer.length - arranged.n;
    this.width = new Float64Array(size);
    this.width.set(level.width);
    this.height = new Float64Array(size);
    this.height.set(level.height);
    this.row = new Int32Array(size);
    this.tail = new Int32Array(size);
    this.tail.set(arranged.tail, level.nIn);
    this.y = new Float64Array(size);
  }

  run(): Layout {
    this.setRows();
    this.cutWires();
    this.findNeighbors(false);
    this.setX();
    let widest = 0;
    for (const row of this.rows) {
      let total = 0;
      for (const i of row) total += this.width[i] + NODE_GAP;
      widest = Math.max(widest, total);
    }
    if (this.right > MAX_DRIFT * widest) {
      this.findNeighbors(true);
      this.setX();
    }
    const lanes = lanesOf(this.long);
    this.setEnds(lanes);
    const { top, floor, stub } = this.setY(lanes);
    const routes = this.route(lanes, top, floor);
    const first = new Float64Array(this.n), last = new Float64Array(this.n);
    for (let i = 0; i < this.n; i++) {
      first[i] = top[this.row[i]] - stub[this.row[i]];
      last[i] = floor[this.row[i]];
    }
    return { width: this.right, height: this.bottom, x: this.x.subarray(0, this.n), y: this.y.subarray(0, this.n), routes, first, last };
  }

  private out(w: number): number {
    const { wires, width } = this.level;
    return wires[w + 3] === ANYWHERE ? width[wires[w]] / 2 : wires[w + 3];
  }

  /** Set the rows: layers, and ports in the order of their users. */
  private setRows(): void {
    const { arranged, n, tail } = this, { nIn, nOut, wires } = this.level;
    const shift = nIn + nOut; // from the numbers of waypoints to those of items
    const rows = arranged.layers.map((layer) => layer.map((i) => i + (i < arranged.n ? nIn : shift)));
    const rank = new Int32Array(arranged.layer.length);
    for (const layer of arranged.layers) layer.forEach((i, place) => (rank[i] = place));
    const sides = new Float64Array(n), besides = new Float64Array(n), nWires = new Int32Array(n);
    for (let w = 0; w < wires.length; w += PER_WIRE) {
      let upper = wires[w] - nIn, lower = wires[w + 1] - nIn, port: number, layer: number, member: number, beside: number;
      if (upper < 0) {
        port = wires[w];
        tail[port] = Math.max(tail[port], arranged.tail[lower] + 1);
        upper = OUTSIDE;
        layer = 0;
        member = lower;
        beside = rank[lower] / arranged.layers[arranged.layer[lower]].length;
      } else if (wires[w + 1] >= n - nOut) {
        port = wires[w + 1];
        lower = arranged.n;
        layer = rows.length - 1;
        member = upper;
        beside = this.out(w);
      } else {
        continue;
      }
      let place: number;
      if (arranged.long.has(pairKey(arranged, upper, lower))) place = rows[layer].length;
      else place = rank[arranged.layer[member] === layer ? member : arranged.waypoints.get(pairKey(arranged, upper, layer))!];
      sides[port] += place;
      besides[port] += beside;
      nWires[port] += 1;
    }
    for (let i = 0; i < n; i++) {
      sides[i] /= Math.max(nWires[i], 1);
      besides[i] /= Math.max(nWires[i], 1);
    }
    const sorted = (first: number, end: number): number[] =>
      Array.from({ length: end - first }, (_, i) => first + i).sort((i, j) => sides[i] - sides[j] || besides[i] - besides[j]);
    if (nIn) this.rows.push(sorted(0, nIn));
    this.rows.push(...rows);
    if (nOut) this.rows.push(sorted(n - nOut, n));
    this.rows.forEach((row, number) => row.forEach((i) => (this.row[i] = number)));
  }

  /** Cut lines into segments between rows, at waypoints that they pass side by side, in port order. */
  private cutWires(): void {
    const { arranged, n, row, width } = this, { nIn, nOut, wires } = this.level;
    const firstLayer = nIn ? 1 : 0, shift = nIn + nOut, places = new Int32Array(n);
    if (nIn) this.rows[0].forEach((port, place) => (places[port] = place));
    const passing: Map<number, number>[] = Array.from({ length: row.length - n }, () => new Map());
    const routed: number[] = [];
    const segment = (w: number, upper: number, out: number): Segment =>
      ({ upper, lower: wires[w + 1], value: wires[w + 2], out, into: wires[w + 4], room: wires[w + 5], stub: wires[w + 6], end: 0 });
    for (let w = 0; w < wires.length; w += PER_WIRE) {
      const upper = wires[w], source = upper >= nIn ? upper - nIn : OUTSIDE, out = this.out(w);
      if (arranged.long.has(pairKey(arranged, source, Math.min(wires[w + 1] - nIn, arranged.n)))) {
        this.long.push(segment(w, upper, out));
        continue;
      }
      routed.push(w);
      for (let layer = row[upper] + 1 - firstLayer, end = row[wires[w + 1]] - firstLayer; layer < end; layer++) {
        const lines = passing[arranged.waypoints.get(pairKey(arranged, source, layer))! + shift - n];
        if (!lines.has(wires[w + 2])) lines.set(wires[w + 2], source >= 0 ? out : places[upper]);
      }
    }
    passing.forEach((lines, point) => {
      width[n + point] = LANE_GAP * (lines.size - 1);
      const sorted = [...lines].sort((one, other) => one[1] - other[1] || one[0] - other[0]);
      sorted.forEach(([value], place) => lines.set(value, LANE_GAP * place));
    });
    const started = passing.map(() => new Set<number>());
    for (const w of routed) {
      const source = wires[w] >= nIn ? wires[w] - nIn : OUTSIDE, value = wires[w + 2];
      let from = wires[w], out = this.out(w);
      for (let layer = row[from] + 1 - firstLayer, end = row[wires[w + 1]] - firstLayer; layer < end; layer++) {
        const point = arranged.waypoints.get(pairKey(arranged, source, layer))! + shift, into = passing[point - n].get(value)!;
        if (!started[point - n].has(value)) {
          started[point - n].add(value);
          this.short.push({ upper: from, lower: point, value, out, into, room: 0, stub: 0, end: 0 });
        }
        from = point;
        out = into;
      }
      this.short.push(segment(w, from, out));
    }
  }

  /** Collect the ties between items. Lines between the same two items count as one tie; loose ones weigh least. */
  private findNeighbors(byCenter: boolean): void {
    const { n, width, arranged } = this, { nIn, nOut } = this.level, size = this.row.length, end = n - nOut;
    const between = new Map<number, Segment[]>();
    for (const segment of this.short) {
      append(between, segment.upper * size + segment.lower, segment);
    }
    const most = between.size, upper = new Int32Array(most), lower = new Int32Array(most), weight = new Uint8Array(most);
    const out = new Float64Array(most), into = new Float64Array(most);
    let p = 0;
    for (const segments of between.values()) {
      const a = (upper[p] = segments[0].upper), b = (lower[p] = segments[0].lower), middle = width[b] / 2;
      if (byCenter) {
        out[p] = width[a] / 2;
        into[p] = middle;
      } else {
        for (const segment of segments) {
          out[p] += segment.out;
          into[p] += segment.into === ANYWHERE ? middle : segment.into;
        }
        out[p] /= segments.length;
        into[p] /= segments.length;
      }
      if (a >= n && b >= n) weight[p] = PASSING;
      else if (a < n && b < n) weight[p] = nIn <= a && a < end && arranged.isLoose[a - nIn] ? LOOSE : MAIN;
      else weight[p] = SKIP;
      p++;
    }
    this.pulls = { upper, lower, out, into, weight };
    this.above = sideOf(lower, size);
    this.below = sideOf(upper, size);
  }

  private setX(): void {
    const { width, tail, rows, pulls, above, below } = this;
    // Passing lines and ports need less space beside them.
    const pitch = width.map((wide, i) => wide + (i < this.n && wide ? NODE_GAP : NODE_GAP / 2));
    // Moving large items, or items that many layers depend on, bends more lines.
    const resistance = width.map((wide, i) => (1 + wide) * (1 + tail[i]) * ((1 + wide) * (1 + tail[i])));
    this.x = rowCoordinates({ rows, pitch, resistance, pulls, above, below });
    this.right = 0;
    for (let i = 0; i < width.length; i++) this.right = Math.max(this.right, this.x[i] + width[i]);
  }

  /** Set where each line ends: side by side on its node, in the order in which they arrive. */
  private setEnds(lanes: Segment[][]): void {
    const { x, width } = this, slots = new Map<number, [number, Segment[]][]>();
    for (const segment of this.short) append(slots, segment.lower, [x[segment.upper] + segment.out, [segment]]);
    lanes.forEach((lane, number) => {
      const ends = new Map<number, Segment[]>();
      for (const segment of lane) append(ends, segment.lower, segment);
      for (const [lower, segments] of ends) append(slots, lower, [this.right + number, segments]);
    });
    for (const [lower, lines] of slots) {
      let room = 0;
      for (const [, segments] of lines) for (const segment of segments) room = Math.max(room, segment.room);
      const step = Math.min(room + 10, width[lower] / lines.length);
      lines.sort((one, other) => one[0] - other[0]);
      lines.forEach(([, segments], place) => {
        const free = width[lower] / 2 + (place - (lines.length - 1) / 2) * step;
        for (const segment of segments) segment.end = x[lower] + (segment.into === ANYWHERE ? free : segment.into);
      });
    }
  }

  /** Route the lines. They turn only between layers, so they never cross a box. */
  private route(lanes: Segment[][], top: Float64Array, floor: Float64Array): Route[] {
    const { n, x, y, row, height } = this, routes: Route[] = [];
    for (const { upper, lower, value, out, stub, end } of this.short) {
      const down = row[lower], passes = lower >= n, start = x[upper] + out;
      const begin = upper >= n ? floor[down - 1] : y[upper] + height[upper];
      const foot = passes ? floor[down] : y[lower];
      const points = [start, begin, start, floor[down - 1] + this.leadIn(down), end, top[down] - stub, end, foot];
      routes.push({ points, value, lower: passes ? -1 : lower });
    }
    const left = this.right + NODE_GAP / 2, used = new Int32Array(this.rows.length);
    lanes.forEach((lane, number) => {
      const beside = left + number * LANE_GAP, turn = new Map<number, number>();
      this.right = Math.max(this.right, beside);
      for (const down of [...this.turns(lane)].sort((a, b) => a - b)) {
        used[down] += 1;
        turn.set(down, floor[down - 1] + this.leadIn(down) + TRACK_GAP * used[down]);
      }
      for (const { upper, lower, value, out, end } of lane) {
        const start = x[upper] + out, leave = turn.get(row[upper] + 1)!, enter = turn.get(row[lower])!;
        const points = [start, y[upper] + height[upper], start, leave, beside, leave, beside, enter, end, enter, end, y[lower]];
        routes.push({ points, value, lower });
      }
    });
    return routes;
  }

  /** Length for which lines run straight at the top of the gap above a row. */
  private leadIn(row: number): number {
    return row === 1 && this.level.nIn ? this.level.leadIn : 0;
  }

  /** The gaps in which a line enters or leaves the lane, by the row below. */
  private turns(lane: Segment[]): Set<number> {
    const gaps = new Set<number>();
    for (const { upper, lower } of lane) gaps.add(this.row[upper] + 1).add(this.row[lower]);
    return gaps;
  }

  /** Tops and bottoms of the rows. A gap is higher if lines in it go far sideways, have labels or turn. */
  private setY(lanes: Segment[][]): { top: Float64Array; floor: Float64Array; stub: Float64Array } {
    const { x, y, row, rows, height } = this, { nIn, nOut, leadIn, minHeight } = this.level, nRows = rows.length;
    const reach = new Float64Array(nRows), stub = new Float64Array(nRows), tracks = new Int32Array(nRows);
    for (const segment of this.short) {
      const down = row[segment.lower];
      reach[down] = Math.max(reach[down], Math.abs(x[segment.upper] + segment.out - segment.end));
      stub[down] = Math.max(stub[down], segment.stub);
    }
    for (const lane of lanes) {
      for (const segment of lane) stub[row[segment.lower]] = Math.max(stub[row[segment.lower]], segment.stub);
      for (const down of this.turns(lane)) tracks[down] += 1;
    }
    const rowHeight = Float64Array.from(rows, (members) => members.reduce((most, i) => Math.max(most, height[i]), 0));
    const gaps = reach.map((far, down) => (down ? LAYER_GAP + Math.min(0.06 * far, 40) + stub[down] + TRACK_GAP * tracks[down] : 0));
    if (nIn && nRows > 1) gaps[1] += leadIn - LAYER_GAP / 2;
    let length = 0;
    for (let down = 0; down < nRows; down++) length += gaps[down] + rowHeight[down];
    // A level with a minimum height centers its contents between the ports.
    const spare = Math.max(0, minHeight - length) / 2;
    const top = new Float64Array(nRows), floor = new Float64Array(nRows);
    let now = 0;
    rows.forEach((members, down) => {
      now += gaps[down];
      if (down === (nIn ? 1 : 0) || (nOut && down === nRows - 1)) now += spare;
      for (const i of members) {
        const share = !has(this.below, i) ? 0 : !has(this.above, i) ? 1 : 0.5;
        y[i] = now + (rowHeight[down] - height[i]) * share;
      }
      top[down] = now;
      now += rowHeight[down];
      floor[down] = now;
    });
    this.bottom = nOut ? now : now + spare;
    return { top, floor, stub };
  }
}

/** Whether an item has ties on a side. */
function has({ start }: Side, i: number): boolean {
  return start[i + 1] > start[i];
}

/** Bundle long lines by the tensor they carry, or by their end if many end there. */
function lanesOf(long: Segment[]): Segment[][] {
  const arriving = new Map<number, number>(), lanes = new Map<string, Segment[]>();
  for (const { lower } of long) arriving.set(lower, (arriving.get(lower) ?? 0) + 1);
  for (const segment of long) {
    const key = arriving.get(segment.lower)! > CROWD ? `to ${segment.lower}` : `${segment.upper} ${segment.value}`;
    append(lanes, key, segment);
  }
  return [...lanes.values()];
}
