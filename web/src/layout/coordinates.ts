// Coordinates along the rows of a layered layout: straight main lines, nothing on top of each other.
// The same sums in the same order as in Python, `layout/coordinates.py`; a test there holds the two together.

/** Ties between items of neighboring rows, in the order in which they were found. */
export interface Pairs {
  readonly upper: Int32Array;
  readonly lower: Int32Array;
  /** Where a line leaves the upper item, and where it meets the lower one. */
  readonly out: Float64Array;
  readonly into: Float64Array;
  /** How much it counts. */
  readonly weight: Uint8Array;
}

/** The ties of each item to one side: those of item i are numbers `start[i]` to `start[i + 1]` of `pairs`. */
export interface Side {
  readonly start: Int32Array;
  readonly pairs: Int32Array;
}

/** Ties by the item at one of their ends, in their order. */
export function sideOf(ends: Int32Array, n: number): Side {
  const start = new Int32Array(n + 1), pairs = new Int32Array(ends.length);
  for (let p = 0; p < ends.length; p++) start[ends[p] + 1]++;
  for (let i = 0; i < n; i++) start[i + 1] += start[i];
  const next = start.slice();
  for (let p = 0; p < ends.length; p++) pairs[next[ends[p]]++] = p;
  return { start, pairs };
}

/** How much ties count: of what is loose, where a line begins or ends to pass, between members, along a passing line. */
export const LOOSE = 1, SKIP = 2, MAIN = 4, PASSING = 8;

/** Passes over the rows to find coordinates. Odd: the last goes down. */
const SWEEPS = 13;
/** What moves less from one pass down to the next has come to rest. */
const STILL = 1e-9;
/** Rounds of drawing loose parts together after the sweeps. */
const TURNS = 6;

/** Items in rows, in their order from left to right, and what pulls each of them. */
export interface Spread {
  readonly rows: readonly (readonly number[])[];
  /** From the left of each item to the left of what may stand next to it. */
  readonly pitch: Float64Array;
  /** How little each item gives way. */
  readonly heft: Float64Array;
  readonly pairs: Pairs;
  readonly above: Side;
  readonly below: Side;
}

/** What each item is pulled to, with the place it wants relative to that; how hard it is to move. */
interface Ties {
  readonly start: Int32Array;
  readonly to: Int32Array;
  readonly offset: Float64Array;
  readonly weight: Float64Array;
}

/** Pull each item to the median of those it has the strongest ties to, as far as order and widths allow. */
export function spread(from: Spread): Float64Array {
  const { rows, pitch } = from, n = pitch.length, x = new Float64Array(n);
  for (const row of rows) {
    let at = 0;
    for (const i of row) {
      x[i] = at;
      at += pitch[i];
    }
  }
  const downwards = tiesOf(from, true), upwards = tiesOf(from, false);
  let last = new Float64Array(0);
  for (let turn = 0; turn < SWEEPS; turn++) {
    if (turn % 2) {
      for (let k = rows.length - 1; k >= 0; k--) sweep(x, rows[k], upwards, pitch);
      continue;
    }
    for (const row of rows) sweep(x, row, downwards, pitch);
    if (turn && isStill(x, last)) break;
    last = x.slice();
  }
  tighten(from, x, SKIP);
  tighten(from, x, 0);
  const left = least(x);
  for (let i = 0; i < n; i++) x[i] -= left;
  return x;
}

function isStill(x: Float64Array, last: Float64Array): boolean {
  for (let i = 0; i < x.length; i++) if (Math.abs(x[i] - last[i]) > STILL) return false;
  return true;
}

function least(x: Float64Array): number {
  let left = x.length ? x[0] : 0;
  for (let i = 1; i < x.length; i++) if (x[i] < left) left = x[i];
  return left;
}

/** Going down, what is above counts first; what is below counts where that is the stronger tie; going up, the reverse. */
function tiesOf({ heft, pairs, above, below }: Spread, isDown: boolean): Ties {
  const n = heft.length, { upper, lower, out, into, weight } = pairs;
  const start = new Int32Array(n + 1), to = new Int32Array(2 * upper.length), offset = new Float64Array(2 * upper.length);
  const mass = new Float64Array(n);
  for (let i = 0, end = 0; i < n; i++) {
    const up = strongest(above, weight, i), down = strongest(below, weight, i);
    const isAbove = isDown ? up >= down : up > down, most = Math.max(up, down), near = isAbove ? above : below;
    for (let k = near.start[i]; k < near.start[i + 1]; k++) {
      const p = near.pairs[k];
      if (weight[p] !== most) continue;
      to[end] = isAbove ? upper[p] : lower[p];
      offset[end++] = isAbove ? out[p] - into[p] : into[p] - out[p];
    }
    start[i + 1] = end;
    mass[i] = (1 + near.start[i + 1] - near.start[i]) * heft[i];
  }
  return { start, to, offset, weight: mass };
}

function strongest(side: Side, weight: Uint8Array, i: number): number {
  let most = 0;
  for (let k = side.start[i]; k < side.start[i + 1]; k++) most = Math.max(most, weight[side.pairs[k]]);
  return most;
}

const wanted: number[] = [];

/** One row of a pass over the rows. */
function sweep(x: Float64Array, row: readonly number[], ties: Ties, pitch: Float64Array): void {
  const { start, to, offset } = ties;
  for (let k = 0; k < row.length; k++) {
    const first = start[row[k]], n = start[row[k] + 1] - first;
    if (n === 0) wanted[k] = x[row[k]];
    else if (n === 1) wanted[k] = x[to[first]] + offset[first];
    else if (n === 2) wanted[k] = (x[to[first]] + offset[first] + (x[to[first + 1]] + offset[first + 1])) / 2;
    else {
      const places: number[] = [];
      for (let t = first; t < first + n; t++) places.push(x[to[t]] + offset[t]);
      wanted[k] = median(places);
    }
  }
  if (row.length === 1) x[row[0]] = wanted[0];
  else settle(x, row, ties.weight, pitch);
}

/** The median makes a main line straight, where a mean would bend it towards every branch. */
function median(places: number[]): number {
  if (places.length > 1) places.sort((a, b) => a - b);
  return (places[(places.length - 1) >> 1] + places[places.length >> 1]) / 2;
}

const means: number[] = [], totals: number[] = [], counts: number[] = [];

/** The places nearest to those wanted that keep order and distance (isotonic regression). */
function settle(x: Float64Array, row: readonly number[], weight: Float64Array, pitch: Float64Array): void {
  let n = 0, shift = 0;
  for (let k = 0; k < row.length; k++) {
    let mean = wanted[k] - shift, total = weight[row[k]], count = 1;
    while (n && means[n - 1] > mean) {
      n--;
      const mass = totals[n];
      mean = (mean * total + means[n] * mass) / (total + mass);
      total += mass;
      count += counts[n];
    }
    means[n] = mean;
    totals[n] = total;
    counts[n] = count;
    n++;
    shift += pitch[row[k]];
  }
  shift = 0;
  for (let block = 0, k = 0; block < n; block++) {
    for (let end = k + counts[block]; k < end; k++) {
      x[row[k]] = means[block] + shift;
      shift += pitch[row[k]];
    }
  }
}

interface Part {
  readonly members: number[];
  /** Item of another part, the offset wanted, own item. */
  readonly ties: [number, number, number][];
  /** Neighbors of which one is in the part. */
  readonly beside: [number, number][];
}

/** Draw together the parts that only weak ties connect, or none: the sweeps may have pushed them far apart. */
function tighten({ rows, pitch, pairs, above }: Spread, x: Float64Array, weak: number): void {
  const part = partsOf(pairs, above, weak), parts = new Map<number, Part>();
  for (let i = 0; i < part.length; i++) {
    const known = parts.get(part[i]);
    if (known) known.members.push(i);
    else parts.set(part[i], { members: [i], ties: [], beside: [] });
  }
  if (parts.size < 2) return;
  for (const p of above.pairs) {
    const upper = pairs.upper[p], lower = pairs.lower[p], out = pairs.out[p], into = pairs.into[p];
    if (part[lower] === part[upper]) continue;
    parts.get(part[lower])!.ties.push([upper, out - into, lower]);
    parts.get(part[upper])!.ties.push([lower, into - out, upper]);
  }
  for (const row of rows) {
    for (let k = 1; k < row.length; k++) {
      const i = row[k - 1], j = row[k];
      if (part[i] === part[j]) continue;
      parts.get(part[i])!.beside.push([i, j]);
      parts.get(part[j])!.beside.push([i, j]);
    }
  }
  const edge = least(x), order = [...parts.entries()];
  for (let turn = 0; turn < TURNS; turn++) {
    for (let k = 0; k < order.length; k++) {
      const [number, { members, ties, beside }] = order[turn % 2 ? order.length - 1 - k : k];
      let left = -Infinity, right = Infinity;
      for (const [i, j] of beside) {
        const slack = x[j] - x[i] - pitch[i];
        if (part[j] === number) left = Math.max(left, -slack);
        else right = Math.min(right, slack);
      }
      let wish: number;
      if (ties.length) {
        wish = median(ties.map(([j, offset, i]) => x[j] + offset - x[i]));
      } else if (left > -Infinity) {
        wish = left; // nothing to go to: out of the way first, then close to what is beside it
      } else if (turn < TURNS - 1 || right === Infinity) {
        let first = Infinity;
        for (const i of members) first = Math.min(first, x[i]);
        wish = edge - first;
      } else {
        wish = right;
      }
      const shift = Math.max(left, Math.min(right, wish));
      if (shift) for (const i of members) x[i] += shift;
    }
  }
}

/** For each item the first one of the part that ties stronger than weak hold together. */
function partsOf({ upper, lower, weight }: Pairs, above: Side, weak: number): Int32Array {
  const part = Int32Array.from(above.start.subarray(1), (_, i) => i);
  const first = (i: number): number => {
    while (part[i] !== i) {
      part[i] = part[part[i]];
      i = part[i];
    }
    return i;
  };
  for (const p of above.pairs) {
    if (weight[p] <= weak) continue;
    const one = first(upper[p]), other = first(lower[p]);
    part[Math.max(one, other)] = Math.min(one, other);
  }
  for (let i = 0; i < part.length; i++) part[i] = part[part[i]];
  return part;
}
