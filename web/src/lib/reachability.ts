// Reachability on the full graph: ancestors, descendants, paths between two nodes.

/** Neighbors of every node: those of node n are to[start[n]] … to[start[n + 1] - 1]. */
export interface Neighbors {
  readonly start: Int32Array;
  readonly to: Int32Array;
}

/** The edges of a graph, readable from both ends. */
export interface Adjacency {
  readonly n: number;
  readonly up: Neighbors;
  readonly down: Neighbors;
}

/** One byte per node: 1 if it is in the set. */
export type NodeMask = Uint8Array;

/** The edges of a graph of `n` nodes, given as two columns. */
export function adjacency(n: number, parents: readonly number[], children: readonly number[]): Adjacency {
  return { n, up: neighbors(n, children, parents), down: neighbors(n, parents, children) };
}

function neighbors(n: number, from: readonly number[], to: readonly number[]): Neighbors {
  const start = new Int32Array(n + 1);
  for (const node of from) start[node + 1] = start[node + 1] + 1;
  for (let i = 0; i < n; i++) start[i + 1] = start[i + 1] + start[i];
  const next = start.slice();
  const out = new Int32Array(from.length);
  for (let i = 0; i < from.length; i++) {
    const place = next[from[i]];
    out[place] = to[i];
    next[from[i]] = place + 1;
  }
  return { start, to: out };
}

/** The nodes from which one of these can be reached, these included. */
export function ancestors(graph: Adjacency, of: Iterable<number>): NodeMask {
  return flood(graph.n, graph.up, of);
}

/** The nodes that can be reached from one of these, these included. */
export function descendants(graph: Adjacency, of: Iterable<number>): NodeMask {
  return flood(graph.n, graph.down, of);
}

/** The nodes on paths from one set to the other, or from the other to the one if there are none; empty without a path. */
export function between(graph: Adjacency, one: readonly number[], other: readonly number[]): NodeMask {
  const there = both(descendants(graph, one), ancestors(graph, other));
  return there.some((is) => is === 1) ? there : both(descendants(graph, other), ancestors(graph, one));
}

function flood(n: number, { start, to }: Neighbors, from: Iterable<number>): NodeMask {
  const reached = new Uint8Array(n);
  const waiting = new Int32Array(n);
  let top = 0;
  for (const node of from) {
    if (reached[node] === 0) {
      reached[node] = 1;
      waiting[top++] = node;
    }
  }
  while (top > 0) {
    const node = waiting[--top];
    for (let i = start[node]; i < start[node + 1]; i++) {
      const next = to[i];
      if (reached[next] === 0) {
        reached[next] = 1;
        waiting[top++] = next;
      }
    }
  }
  return reached;
}

function both(one: NodeMask, other: NodeMask): NodeMask {
  const out = new Uint8Array(one.length);
  for (let i = 0; i < out.length; i++) out[i] = one[i] & other[i];
  return out;
}
