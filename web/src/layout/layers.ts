// Assigns members of a level to layers, and orders each layer to reduce crossings.
// The same steps as in Python, `layout/layers.py`; `tests/layout` compares the two.

/** The upper end of a link from outside the level. The lower end of a link to the outside is the number of members. */
export const OUTSIDE = -1;
/** The most layers that a link passes between members; longer links take a lane at the side. */
const MAX_SPAN = 16;
/** If more links than this end at one member, all but those from the adjacent layer share one lane. */
export const CROWD = 12;
/** Passes over the layers to find the order. */
const SWEEPS = 13;

/** Members 0 to n - 1 in layers, then the waypoints where longer links pass a layer. */
export interface Arrangement {
  /** Number of members. */
  readonly n: number;
  /** Layer of each member and waypoint. */
  readonly layer: readonly number[];
  /** Members and waypoints of each layer, in order. */
  readonly layers: readonly (readonly number[])[];
  /** `pairKey` of (upper member or OUTSIDE, layer) → the waypoint that all links from there pass. */
  readonly waypoints: ReadonlyMap<number, number>;
  /** Links that take a lane at the side, as `pairKey` of (upper, lower). */
  readonly long: ReadonlySet<number>;
  /** How many layers depend on each member. */
  readonly tail: Int32Array;
  /** Whether a member depends only on sources, and has one user that also reads something else. */
  readonly isLoose: Uint8Array;
}

/** The links of a level as `upper * n + lower`, ascending, and which members read from or feed the outside. */
export interface LevelLinks {
  readonly n: number;
  readonly links: readonly number[];
  readonly reads: Uint8Array;
  readonly feeds: Uint8Array;
}

/** One map key for an upper member and a layer or lower member. */
export function pairKey(arranged: { readonly n: number }, upper: number, other: number): number {
  return (upper + 1) * (arranged.n + 2) + other;
}

/** Arrange members, which must be given parents first. */
export function arrange(from: LevelLinks): Arrangement {
  const arranger = new Arranger(from);
  arranger.assignLayers();
  arranger.cutLinks();
  const { n, layer, waypoints, long, tail, isLoose } = arranger;
  return { n, layer, layers: order(arranger.layers, arranger.above, arranger.below), waypoints, long, tail, isLoose };
}

class Arranger {
  readonly n: number;
  readonly ups: number[][] = [];
  readonly downs: number[][] = [];
  readonly layer: number[] = [];
  readonly layers: number[][] = [];
  readonly waypoints = new Map<number, number>();
  readonly long = new Set<number>();
  readonly above: number[][] = [];
  readonly below: number[][] = [];
  readonly tail: Int32Array;
  readonly isLoose: Uint8Array;

  constructor(private readonly from: LevelLinks) {
    const n = (this.n = from.n);
    for (let i = 0; i < n; i++) {
      this.ups.push([]);
      this.downs.push([]);
      this.above.push([]);
      this.below.push([]);
      this.layer.push(0);
    }
    for (const link of from.links) {
      const upper = Math.floor(link / n), lower = link % n;
      if (upper >= lower) throw new Error("members must be given parents first, with those of a group next to each other");
      this.downs[upper].push(lower);
      this.ups[lower].push(upper);
    }
    this.tail = new Int32Array(n);
    this.isLoose = new Uint8Array(n);
  }

  /** Longest path from the top; then members with more links out than in sink towards their users. */
  assignLayers(): void {
    const { n, ups, downs, layer, tail, isLoose } = this;
    const { reads, feeds } = this.from;
    const nUps = new Int32Array(n);
    for (let i = 0; i < n; i++) nUps[i] = ups[i].length + reads[i];
    const nFixed = nUps.slice();
    // Members are given parents first, so one pass finds the longest paths.
    for (let i = 0; i < n; i++) {
      for (const lower of downs[i]) layer[lower] = Math.max(layer[lower], layer[i] + 1);
      if (!nFixed[i] && downs[i].length === 1 && !feeds[i]) {
        nFixed[downs[i][0]] -= 1;
        isLoose[i] = nUps[downs[i][0]] > 1 ? 1 : 0;
      }
    }
    for (let i = n - 1; i >= 0; i--) {
      if (!downs[i].length) continue;
      let most = 0, least = Infinity;
      for (const lower of downs[i]) {
        most = Math.max(most, tail[lower]);
        least = Math.min(least, layer[lower]);
      }
      tail[i] = most + 1;
      if (nFixed[i] < downs[i].length && !feeds[i]) layer[i] = least - 1;
    }
  }

  /** Cut links into segments of one layer, at waypoints that all links from one member share. */
  cutLinks(): void {
    const { n, ups, layer, layers } = this;
    const { reads, feeds } = this.from;
    let end = 0;
    for (let i = 0; i < n; i++) end = Math.max(end, layer[i] + 1);
    for (let i = 0; i < end; i++) layers.push([]);
    for (let i = 0; i < n; i++) layers[layer[i]].push(i);
    for (let lower = 0; lower < n; lower++) {
      const nArriving = ups[lower].length + reads[lower];
      if (reads[lower]) this.cut(OUTSIDE, lower, layer[lower], nArriving);
      for (const upper of ups[lower]) this.cut(upper, lower, layer[lower], nArriving);
    }
    for (let upper = 0; upper < n; upper++) if (feeds[upper]) this.cut(upper, n, end, 1);
  }

  private cut(upper: number, lower: number, last: number, nArriving: number): void {
    const first = upper !== OUTSIDE ? this.layer[upper] + 1 : 0;
    if (last - first >= MAX_SPAN || (last > first && nArriving > CROWD)) {
      this.long.add(pairKey(this, upper, lower));
      return;
    }
    let from = upper;
    for (let layer = first; layer < last; layer++) {
      const key = pairKey(this, upper, layer);
      let point = this.waypoints.get(key);
      if (point === undefined) {
        point = this.layer.length;
        this.waypoints.set(key, point);
        this.layer.push(layer);
        this.layers[layer].push(point);
        this.above.push([]);
        this.below.push([]);
        this.join(from, point);
      }
      from = point;
    }
    if (lower !== this.n) this.join(from, lower);
  }

  private join(upper: number, lower: number): void {
    if (upper === OUTSIDE) return;
    this.above[lower].push(upper);
    this.below[upper].push(lower);
  }
}

/** Sort each layer by the mean position of its neighbors (barycenter), down and up; keep the fewest crossings. */
function order(first: number[][], above: number[][], below: number[][]): number[][] {
  const rank = new Int32Array(above.length), mean = new Float64Array(above.length);
  for (const layer of first) layer.forEach((i, place) => (rank[i] = place));
  const wide: number[] = [];
  first.forEach((layer, number) => layer.length > 1 && wide.push(number));
  let best = first, fewest = crossings(first, wide, below, rank);
  const layers = first.map((layer) => layer.slice());
  let nIdle = 0;
  for (let sweep = 0; sweep < SWEEPS && fewest && nIdle < 2; sweep++) { // two idle sweeps: a pass down and a pass up changed nothing
    nIdle++;
    const down = sweep % 2 === 0, near = down ? above : below;
    for (let k = 0; k < wide.length; k++) {
      const layer = layers[wide[down ? k : wide.length - 1 - k]];
      for (const i of layer) {
        let sum = 0;
        for (const j of near[i]) sum += rank[j];
        mean[i] = near[i].length ? sum / near[i].length : rank[i];
      }
      // Stable sorts in both languages keep ties in the same order.
      layer.sort((i, j) => mean[i] - mean[j]);
      for (let place = 0; place < layer.length; place++) {
        if (rank[layer[place]] === place) continue;
        rank[layer[place]] = place;
        nIdle = 0;
      }
    }
    if (nIdle) continue;
    const now = crossings(layers, wide, below, rank);
    if (now < fewest) {
      fewest = now;
      best = layers.map((layer) => layer.slice());
    }
  }
  return best;
}

/** The number of crossings between adjacent layers, counted with a Fenwick tree. */
function crossings(layers: number[][], wide: number[], below: number[][], rank: Int32Array): number {
  let total = 0, most = 0;
  for (const layer of layers) most = Math.max(most, layer.length);
  const seen = new Int32Array(most + 1);
  for (const number of wide) {
    // Links to a single member cannot cross.
    if (number + 1 === layers.length || layers[number + 1].length === 1) continue;
    const size = layers[number + 1].length;
    let nSeen = 0;
    seen.fill(0, 0, size + 1);
    for (const i of layers[number]) {
      for (const j of below[i]) {
        total += nSeen;
        for (let at = rank[j] + 1; at; at &= at - 1) total -= seen[at];
      }
      for (const j of below[i]) for (let at = rank[j] + 1; at <= size; at += at & -at) seen[at]++;
      nSeen += below[i].length;
    }
  }
  return total;
}
