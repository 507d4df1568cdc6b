// Assigns x coordinates along the rows of a layered layout: straight main lines, no overlaps.
// The same sums in the same order as in Python, `layout/coordinates.py`, so both get the same floats; `tests/layout` compares the two.

/** Ties between items of adjacent rows, as columns. */
export interface Pulls {
  readonly upper: Int32Array;
  readonly lower: Int32Array;
  /** Where a line leaves the upper item, and where it meets the lower one. */
  readonly out: Float64Array;
  readonly into: Float64Array;
  /** One of LOOSE, SKIP, MAIN, PASSING. */
  readonly weight: Uint8Array;
}

/** The ties of each item to one side: those of item i are entries `start[i]` to `start[i + 1]` of `pulls`. */
export interface Side {
  readonly start: Int32Array;
  readonly pulls: Int32Array;
}

/** Ties grouped by the item at one of their ends, in order. */
export function sideOf(ends: Int32Array, n: number): Side {
  const start = new Int32Array(n + 1), pulls = new Int32Array(ends.length);
  for (let p = 0; p < ends.length; p++) start[ends[p] + 1]++;
  for (let i = 0; i < n; i++) start[i + 1] += start[i];
  const next = start.slice();
  for (let p = 0; p < ends.length; p++) pulls[next[ends[p]]++] = p;
  return { start, pulls };
}

/** Weights of ties: of loose members, between a member and a waypoint, between members, between waypoints. */
export const LOOSE = 1, SKIP = 2, MAIN = 4, PASSING = 8;

/** Passes over the rows to find coordinates. Odd, so that the last one goes down. */
const SWEEPS = 13;
/** Convergence threshold: the largest movement between two passes down. */
const TOLERANCE = 1e-9;
/** Rounds of moving loose components together after the sweeps. */
const ROUNDS = 6;

/** Items in rows, ordered from left to right, with the ties that pull each of them. */
export interface RowCoordinates {
  readonly rows: readonly (readonly number[])[];
  /** Distance from the left of each item to the least left of the next. */
  readonly pitch: Float64Array;
  /** Resistance of each item against being moved. */
  readonly resistance: Float64Array;
  readonly pulls: Pulls;
  readonly above: Side;
  readonly below: Side;
}

/** For each item, the neighbors that pull it with the wanted offset to each, and its weight. */
interface Ties {
  readonly start: Int32Array;
  readonly to: Int32Array;
  readonly offset: Float64Array;
  readonly weight: Float64Array;
}

/** Pull each item to the median of its strongest ties, as far as order and widths allow. */
export function rowCoordinates(from: RowCoordinates): Float64Array {
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
  for (let round = 0; round < SWEEPS; round++) {
    if (round % 2) {
      for (let k = rows.length - 1; k >= 0; k--) sweep(x, rows[k], upwards, pitch);
      continue;
    }
    for (const row of rows) sweep(x, row, downwards, pitch);
    if (round && hasConverged(x, last)) break;
    last = x.slice();
  }
  compact(from, x, SKIP);
  compact(from, x, 0);
  const left = least(x);
  for (let i = 0; i < n; i++) x[i] -= left;
  return x;
}

function hasConverged(x: Float64Array, last: Float64Array): boolean {
  for (let i = 0; i < x.length; i++) if (Math.abs(x[i] - last[i]) > TOLERANCE) return false;
  return true;
}

function least(x: Float64Array): number {
  let left = x.length ? x[0] : 0;
  for (let i = 1; i < x.length; i++) if (x[i] < left) left = x[i];
  return left;
}

/** Ties of the other side count where they are stronger: passing lines, and items with one user. */
function tiesOf({ resistance, pulls, above, below }: RowCoordinates, isDown: boolean): Ties {
  const n = resistance.length, { upper, lower, out, into, weight } = pulls;
  const start = new Int32Array(n + 1), to = new Int32Array(2 * upper.length), offset = new Float64Array(2 * upper.length);
  const mass = new Float64Array(n);
  for (let i = 0, end = 0; i < n; i++) {
    const up = strongest(above, weight, i), down = strongest(below, weight, i);
    const isAbove = isDown ? up >= down : up > down, most = Math.max(up, down), near = isAbove ? above : below;
    for (let k = near.start[i]; k < near.start[i + 1]; k++) {
      const p = near.pulls[k];
      if (weight[p] !== most) continue;
      to[end] = isAbove ? upper[p] : lower[p];
      offset[end++] = isAbove ? out[p] - into[p] : into[p] - out[p];
    }
    start[i + 1] = end;
    mass[i] = (1 + near.start[i + 1] - near.start[i]) * resistance[i];
  }
  return { start, to, offset, weight: mass };
}

function strongest(side: Side, weight: Uint8Array, i: number): number {
  let most = 0;
  for (let k = side.start[i]; k < side.start[i + 1]; k++) most = Math.max(most, weight[side.pulls[k]]);
  return most;
}

// Reused for every row, so that a sweep allocates almost nothing.
const wanted: number[] = [];

/** One row of a pass over the rows. */
function sweep(x: Float64Array, row: readonly number[], ties: Ties, pitch: Float64Array): void {
  const { start, to, offset } = ties;
  for (let k = 0; k < row.length; k++) {
    const first = start[row[k]], n = start[row[k] + 1] - first;
    if (n === 0) wanted[k] = x[row[k]];
    else if (n === 1) wanted[k] = x[to[first]] + offset[first];
    // The median of two needs no sort.
    else if (n === 2) wanted[k] = (x[to[first]] + offset[first] + (x[to[first + 1]] + offset[first + 1])) / 2;
    else {
      const places: number[] = [];
      for (let t = first; t < first + n; t++) places.push(x[to[t]] + offset[t]);
      wanted[k] = median(places);
    }
  }
  if (row.length === 1) x[row[0]] = wanted[0];
  else isotonicRegression(x, row, ties.weight, pitch);
}

/** The median keeps a main line straight; a mean would bend it towards every branch. */
function median(places: number[]): number {
  if (places.length > 1) places.sort((a, b) => a - b);
  return (places[(places.length - 1) >> 1] + places[places.length >> 1]) / 2;
}

const means: number[] = [], totals: number[] = [], counts: number[] = [];

/** The positions nearest to the wanted ones that keep order and distances (isotonic regression). */
function isotonicRegression(x: Float64Array, row: readonly number[], weight: Float64Array, pitch: Float64Array): void {
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

interface Component {
  readonly members: number[];
  /** (item of another component, wanted offset, item of this one). */
  readonly ties: [number, number, number][];
  /** Pairs of neighbors in a row of which one is in this component. */
  readonly adjacent: [number, number][];
}

/** Move components together that are connected by weak ties or none: sweeps may have pushed them far apart. */
function compact({ rows, pitch, pulls, above }: RowCoordinates, x: Float64Array, weak: number): void {
  const component = componentsOf(pulls, above, weak), components = new Map<number, Component>();
  for (let i = 0; i < component.length; i++) {
    const known = components.get(component[i]);
    if (known) known.members.push(i);
    else components.set(component[i], { members: [i], ties: [], adjacent: [] });
  }
  if (components.size < 2) return;
  for (const p of above.pulls) {
    const upper = pulls.upper[p], lower = pulls.lower[p], out = pulls.out[p], into = pulls.into[p];
    if (component[lower] === component[upper]) continue;
    components.get(component[lower])!.ties.push([upper, out - into, lower]);
    components.get(component[upper])!.ties.push([lower, into - out, upper]);
  }
  for (const row of rows) {
    for (let k = 1; k < row.length; k++) {
      const i = row[k - 1], j = row[k];
      if (component[i] === component[j]) continue;
      components.get(component[i])!.adjacent.push([i, j]);
      components.get(component[j])!.adjacent.push([i, j]);
    }
  }
  const edge = least(x), order = [...components.entries()];
  for (let round = 0; round < ROUNDS; round++) {
    for (let k = 0; k < order.length; k++) {
      const [number, { members, ties, adjacent }] = order[round % 2 ? order.length - 1 - k : k];
      let left = -Infinity, right = Infinity;
      for (const [i, j] of adjacent) {
        const slack = x[j] - x[i] - pitch[i];
        if (component[j] === number) left = Math.max(left, -slack);
        else right = Math.min(right, slack);
      }
      let wish: number;
      if (ties.length) {
        wish = median(ties.map(([j, offset, i]) => x[j] + offset - x[i]));
      } else if (left > -Infinity) {
        wish = left; // no ties: move out of the way first, then next to the neighbor
      } else if (round < ROUNDS - 1 || right === Infinity) {
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

/** For each item, the first item of its component: items connected by ties stronger than `weak` (union-find). */
function componentsOf({ upper, lower, weight }: Pulls, above: Side, weak: number): Int32Array {
  const component = Int32Array.from(above.start.subarray(1), (_, i) => i);
  const findRoot = (i: number): number => {
    while (component[i] !== i) {
      component[i] = component[component[i]];
      i = component[i];
    }
    return i;
  };
  for (const p of above.pulls) {
    if (weight[p] <= weak) continue;
    const one = findRoot(upper[p]), other = findRoot(lower[p]);
    component[Math.max(one, other)] = Math.min(one, other);
  }
  for (let i = 0; i < component.length; i++) component[i] = component[component[i]];
  return component;
}
