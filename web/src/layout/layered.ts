// Layered layout of one level, top to bottom, in time linear in its size.
// The same steps as in Python, `layout/layered.py`; a test there holds the two together.

import { arrange, at, CROWD, OUTSIDE, type Arrangement } from "./layers";
import { LOOSE, MAIN, PASSING, sideOf, SKIP, spread, type Pairs, type Side } from "./coordinates";

const BETWEEN = 22, GAP = 30, LANE = 8, TRACK = 5;
/** Straight lines between ports can make a stack of groups lean; wider than this, it is set upright. */
const DRIFT = 1.3;

/** Numbers of a wire: upper node, lower node, what it carries, where it leaves and meets them, room and stub. */
export const PER_WIRE = 7;
/** In the place of where a wire leaves or meets its node: the middle, or wherever there is room. */
export const ANYWHERE = -1e9;

/** What is laid out: nodes parents first, of which the first `nIn` and the last `nOut` are ports. */
export interface Level {
  readonly nIn: number;
  readonly nOut: number;
  /** For how long lines from ports run straight. */
  readonly ahead: number;
  /** Height that the level has at least. */
  readonly least: number;
  readonly width: Float64Array;
  readonly height: Float64Array;
  /** `PER_WIRE` numbers each. */
  readonly wires: Float64Array;
}

/** A piece of a wire; where wires share their way, the common piece is there once. */
export interface Route {
  /** x and y in turn. */
  readonly points: readonly number[];
  readonly value: number;
  /** The node at which it arrives; -1 where it goes on. */
  readonly lower: number;
}

/** Places for all that was given, in the order given. */
export interface Layout {
  readonly width: number;
  readonly height: number;
  readonly x: Float64Array;
  readonly y: Float64Array;
  readonly routes: readonly Route[];
  /** For each node the heights from which to which its row takes room, with the labels above it. */
  readonly first: Float64Array;
  readonly last: Float64Array;
}

/** Arrangements by what they were made from: levels that are arranged alike are arranged once. */
export type Known = Map<string, Arrangement>;

/** Place the nodes of a level. */
export function layout(level: Level, known: Known): Layout {
  return new Sheet(level, arrangementOf(level, known)).run();
}

function arrangementOf({ nIn, nOut, width, wires }: Level, known: Known): Arrangement {
  const n = width.length - nIn - nOut, links = new Set<number>(), reads = new Uint8Array(n), feeds = new Uint8Array(n);
  for (let w = 0; w < wires.length; w += PER_WIRE) {
    const upper = wires[w] - nIn, lower = wires[w + 1] - nIn;
    if (upper >= lower || (upper < 0 && lower >= n)) throw new Error("a layout takes nodes parents first, and the nodes of a group next to each other");
    if (upper < 0) reads[lower] = 1;
    else if (lower >= n) feeds[upper] = 1;
    else links.add(upper * n + lower);
  }
  const sorted = [...links].sort((a, b) => a - b);
  const key = `${n}|${sorted.join()}|${reads.join("")}|${feeds.join("")}`;
  let found = known.get(key);
  if (!found) known.set(key, (found = arrange({ n, links: sorted, reads, feeds })));
  return found;
}

/** A line, or a part of it, between neighboring rows; or all of a line that takes a lane. */
interface Piece {
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

/** The coordinates of one level. Items are the nodes in the order given, then the waypoints. */
class Sheet {
  private readonly n: number;
  private readonly width: Float64Array;
  private readonly height: Float64Array;
  private readonly row: Int32Array;
  private readonly tail: Int32Array;
  private readonly rows: (readonly number[])[] = [];
  private readonly short: Piece[] = [];
  private readonly long: Piece[] = [];
  private pairs!: Pairs;
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
      for (const i of row) total += this.width[i] + BETWEEN;
      widest = Math.max(widest, total);
    }
    if (this.right > DRIFT * widest) {
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

  /** The layers, and the ports in the order of those that use them. */
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
      if (arranged.long.has(at(arranged, upper, lower))) place = rows[layer].length;
      else place = rank[arranged.layer[member] === layer ? member : arranged.waypoints.get(at(arranged, upper, layer))!];
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

  /** Cut lines into pieces of one row, at waypoints where they pass side by side in the order of their ports. */
  private cutWires(): void {
    const { arranged, n, row, width } = this, { nIn, nOut, wires } = this.level;
    const firstLayer = nIn ? 1 : 0, shift = nIn + nOut, places = new Int32Array(n);
    if (nIn) this.rows[0].forEach((port, place) => (places[port] = place));
    const passing: Map<number, number>[] = Array.from({ length: row.length - n }, () => new Map());
    const ways: number[] = [];
    const piece = (w: number, upper: number, out: number): Piece =>
      ({ upper, lower: wires[w + 1], value: wires[w + 2], out, into: wires[w + 4], room: wires[w + 5], stub: wires[w + 6], end: 0 });
    for (let w = 0; w < wires.length; w += PER_WIRE) {
      const upper = wires[w], source = upper >= nIn ? upper - nIn : OUTSIDE, out = this.out(w);
      if (arranged.long.has(at(arranged, source, Math.min(wires[w + 1] - nIn, arranged.n)))) {
        this.long.push(piece(w, upper, out));
        continue;
      }
      ways.push(w);
      for (let layer = row[upper] + 1 - firstLayer, end = row[wires[w + 1]] - firstLayer; layer < end; layer++) {
        const lines = passing[arranged.waypoints.get(at(arranged, source, layer))! + shift - n];
        if (!lines.has(wires[w + 2])) lines.set(wires[w + 2], source >= 0 ? out : places[upper]);
      }
    }
    passing.forEach((lines, point) => {
      width[n + point] = LANE * (lines.size - 1);
      const sorted = [...lines].sort((one, other) => one[1] - other[1] || one[0] - other[0]);
      sorted.forEach(([value], place) => lines.set(value, LANE * place));
    });
    const begun = passing.map(() => new Set<number>());
    for (const w of ways) {
      const source = wires[w] >= nIn ? wires[w] - nIn : OUTSIDE, value = wires[w + 2];
      let from = wires[w], out = this.out(w);
      for (let layer = row[from] + 1 - firstLayer, end = row[wires[w + 1]] - firstLayer; layer < end; layer++) {
        const point = arranged.waypoints.get(at(arranged, source, layer))! + shift, into = passing[point - n].get(value)!;
        if (!begun[point - n].has(value)) {
          begun[point - n].add(value);
          this.short.push({ upper: from, lower: point, value, out, into, room: 0, stub: 0, end: 0 });
        }
        from = point;
        out = into;
      }
      this.short.push(piece(w, from, out));
    }
  }

  /** Lines between the same two items pull as one; what is loose pulls the least. */
  private findNeighbors(byCenter: boolean): void {
    const { n, width, arranged } = this, { nIn, nOut } = this.level, size = this.row.length, end = n - nOut;
    const between = new Map<number, Piece[]>();
    for (const piece of this.short) {
      const key = piece.upper * size + piece.lower, known = between.get(key);
      if (known) known.push(piece);
      else between.set(key, [piece]);
    }
    const most = between.size, upper = new Int32Array(most), lower = new Int32Array(most), weight = new Uint8Array(most);
    const out = new Float64Array(most), into = new Float64Array(most);
    let p = 0;
    for (const pieces of between.values()) {
      const a = (upper[p] = pieces[0].upper), b = (lower[p] = pieces[0].lower), middle = width[b] / 2;
      if (byCenter) {
        out[p] = width[a] / 2;
        into[p] = middle;
      } else {
        for (const piece of pieces) {
          out[p] += piece.out;
          into[p] += piece.into === ANYWHERE ? middle : piece.into;
        }
        out[p] /= pieces.length;
        into[p] /= pieces.length;
      }
      if (a >= n && b >= n) weight[p] = PASSING;
      else if (a < n && b < n) weight[p] = nIn <= a && a < end && arranged.isLoose[a - nIn] ? LOOSE : MAIN;
      else weight[p] = SKIP;
      p++;
    }
    this.pairs = { upper, lower, out, into, weight };
    this.above = sideOf(lower, size);
    this.below = sideOf(upper, size);
  }

  private setX(): void {
    const { width, tail, rows, pairs, above, below } = this;
    // Less is kept free beside a passing line, and between ports.
    const pitch = width.map((wide, i) => wide + (i < this.n && wide ? BETWEEN : BETWEEN / 2));
    // What is big, and what much depends on, bends more lines when it is moved aside.
    const heft = width.map((wide, i) => (1 + wide) * (1 + tail[i]) * ((1 + wide) * (1 + tail[i])));
    this.x = spread({ rows, pitch, heft, pairs, above, below });
    this.right = 0;
    for (let i = 0; i < width.length; i++) this.right = Math.max(this.right, this.x[i] + width[i]);
  }

  /** Where each line ends: on a node side by side, in the order in which they come. */
  private setEnds(lanes: Piece[][]): void {
    const { x, width } = this, slots = new Map<number, [number, Piece[]][]>();
    const add = (lower: number, from: number, pieces: Piece[]): void => {
      const known = slots.get(lower);
      if (known) known.push([from, pieces]);
      else slots.set(lower, [[from, pieces]]);
    };
    for (const piece of this.short) add(piece.lower, x[piece.upper] + piece.out, [piece]);
    lanes.forEach((lane, number) => {
      const ends = new Map<number, Piece[]>();
      for (const piece of lane) {
        const known = ends.get(piece.lower);
        if (known) known.push(piece);
        else ends.set(piece.lower, [piece]);
      }
      for (const [lower, pieces] of ends) add(lower, this.right + number, pieces);
    });
    for (const [lower, lines] of slots) {
      let room = 0;
      for (const [, pieces] of lines) for (const piece of pieces) room = Math.max(room, piece.room);
      const step = Math.min(room + 10, width[lower] / lines.length);
      lines.sort((one, other) => one[0] - other[0]);
      lines.forEach(([, pieces], place) => {
        const free = width[lower] / 2 + (place - (lines.length - 1) / 2) * step;
        for (const piece of pieces) piece.end = x[lower] + (piece.into === ANYWHERE ? free : piece.into);
      });
    }
  }

  /** Draw the lines: none ever crosses a box, for they turn only between layers. */
  private route(lanes: Piece[][], top: Float64Array, floor: Float64Array): Route[] {
    const { n, x, y, row, height } = this, routes: Route[] = [];
    for (const { upper, lower, value, out, stub, end } of this.short) {
      const down = row[lower], passes = lower >= n, start = x[upper] + out;
      const begin = upper >= n ? floor[down - 1] : y[upper] + height[upper];
      const foot = passes ? floor[down] : y[lower];
      const points = [start, begin, start, floor[down - 1] + this.ahead(down), end, top[down] - stub, end, foot];
      routes.push({ points, value, lower: passes ? -1 : lower });
    }
    const left = this.right + BETWEEN / 2, used = new Int32Array(this.rows.length);
    lanes.forEach((lane, number) => {
      const beside = left + number * LANE, turn = new Map<number, number>();
      this.right = Math.max(this.right, beside);
      for (const down of [...this.turns(lane)].sort((a, b) => a - b)) {
        used[down] += 1;
        turn.set(down, floor[down - 1] + this.ahead(down) + TRACK * used[down]);
      }
      for (const { upper, lower, value, out, end } of lane) {
        const start = x[upper] + out, leave = turn.get(row[upper] + 1)!, enter = turn.get(row[lower])!;
        const points = [start, y[upper] + height[upper], start, leave, beside, leave, beside, enter, end, enter, end, y[lower]];
        routes.push({ points, value, lower });
      }
    });
    return routes;
  }

  /** For how long lines run straight on at the head of the gap above a row. */
  private ahead(row: number): number {
    return row === 1 && this.level.nIn ? this.level.ahead : 0;
  }

  /** The gaps, by the row below, in which a line enters or leaves the lane. */
  private turns(lane: Piece[]): Set<number> {
    const found = new Set<number>();
    for (const { upper, lower } of lane) found.add(this.row[upper] + 1).add(this.row[lower]);
    return found;
  }

  /** Tops and floors of the rows; a gap is higher where lines go far sideways, have labels or turn. */
  private setY(lanes: Piece[][]): { top: Float64Array; floor: Float64Array; stub: Float64Array } {
    const { x, y, row, rows, height } = this, { nIn, nOut, ahead, least } = this.level, nRows = rows.length;
    const reach = new Float64Array(nRows), stub = new Float64Array(nRows), tracks = new Int32Array(nRows);
    for (const piece of this.short) {
      const down = row[piece.lower];
      reach[down] = Math.max(reach[down], Math.abs(x[piece.upper] + piece.out - piece.end));
      stub[down] = Math.max(stub[down], piece.stub);
    }
    for (const lane of lanes) {
      for (const piece of lane) stub[row[piece.lower]] = Math.max(stub[row[piece.lower]], piece.stub);
      for (const down of this.turns(lane)) tracks[down] += 1;
    }
    const tall = Float64Array.from(rows, (members) => members.reduce((most, i) => Math.max(most, height[i]), 0));
    const gaps = reach.map((far, down) => (down ? GAP + Math.min(0.06 * far, 40) + stub[down] + TRACK * tracks[down] : 0));
    if (nIn && nRows > 1) gaps[1] += ahead - GAP / 2;
    let length = 0;
    for (let down = 0; down < nRows; down++) length += gaps[down] + tall[down];
    // A level that must be higher than it needs to be has what is between its ports in the middle.
    const spare = Math.max(0, least - length) / 2;
    const top = new Float64Array(nRows), floor = new Float64Array(nRows);
    let now = 0;
    rows.forEach((members, down) => {
      now += gaps[down];
      if (down === (nIn ? 1 : 0) || (nOut && down === nRows - 1)) now += spare;
      for (const i of members) {
        const share = !has(this.below, i) ? 0 : !has(this.above, i) ? 1 : 0.5;
        y[i] = now + (tall[down] - height[i]) * share;
      }
      top[down] = now;
      now += tall[down];
      floor[down] = now;
    });
    this.bottom = nOut ? now : now + spare;
    return { top, floor, stub };
  }
}

/** Whether an item is tied to something on a side. */
function has({ start }: Side, i: number): boolean {
  return start[i + 1] > start[i];
}

/** Bundle the long lines by what they carry, or by where they end if very many end there. */
function lanesOf(long: Piece[]): Piece[][] {
  const arriving = new Map<number, number>(), lanes = new Map<string, Piece[]>();
  for (const { lower } of long) arriving.set(lower, (arriving.get(lower) ?? 0) + 1);
  for (const piece of long) {
    const key = arriving.get(piece.lower)! > CROWD ? `to ${piece.lower}` : `${piece.upper} ${piece.value}`;
    const known = lanes.get(key);
    if (known) known.push(piece);
    else lanes.set(key, [piece]);
  }
  return [...lanes.values()];
}
