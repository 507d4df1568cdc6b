// Representatives in a folded graph: one pass for all passes of a loop, one block for all identical blocks.
// The same rules as in Python, `layout/representatives.py`.

import type { Fold, GraphView } from "../lib/wire";

/** For every node the node and the folded group that stand for it. */
export class Representatives {
  /** By group: how far its nodes stand behind those of the block that stands for it. */
  readonly #shift: Int32Array;
  /** By group: the one that corresponds to it in the block that stands for all. */
  readonly #block: Int32Array;
  /** By group: the run of blocks that it is folded with; -1 for none. */
  readonly #run: Int32Array;
  /** By group: the group on its own path that is folded into a box, or whose like is; -1 for none. */
  readonly #instance: Int32Array;
  readonly #nPasses: Int32Array;
  readonly #nCalls: Int32Array;

  constructor(
    private readonly view: GraphView,
    private readonly how: Fold,
  ) {
    const { nodes, groups, runs } = view;
    const n = groups.parent.length;
    const apart = new Set(how.apart), open = new Set(how.open);
    this.#shift = new Int32Array(n);
    this.#block = Int32Array.from({ length: n }, (_, group) => group);
    this.#run = new Int32Array(n).fill(-1);
    for (let group = 1; group < n; group++) {
      const above = groups.parent[group];
      let here = group + this.#block[above] - above;
      const run = groups.run[here];
      if (run >= 0 && !apart.has(run)) {
        this.#run[group] = run;
        here = runs[run].groups[0];
      }
      this.#block[group] = here;
      this.#shift[group] = groups.first[here] - groups.first[group];
    }
    this.#instance = new Int32Array(n).fill(-1);
    for (let group = 0; group < n; group++) {
      const above = groups.parent[group];
      if (above >= 0 && this.#instance[above] >= 0) this.#instance[group] = this.#instance[above];
      else if (!open.has(this.group(group))) this.#instance[group] = group;
    }
    this.#nPasses = new Int32Array(nodes.row.length);
    this.#nCalls = new Int32Array(n);
    for (const node of nodes.rolled) this.#nPasses[node]++;
    for (const group of groups.rolled) this.#nCalls[group]++;
  }

  /** The group that is open or folded for it. */
  group(group: number): number {
    return this.#block[this.how.rolled ? this.view.groups.rolled[group] : group];
  }

  /** The node that stands for it. */
  node(node: number): number {
    const first = this.how.rolled ? this.view.nodes.rolled[node] : node;
    return first + this.#shift[this.view.nodes.group[first]];
  }

  /** The folded group that stands for it; -1 where it is a box of its own. */
  foldedOf(node: number): number {
    const group = this.view.nodes.group[this.node(node)];
    // Inputs stay to be seen, also of a model that is one box.
    return group === 0 && this.view.nodes.kind[node] === "input" ? -1 : this.#instance[group];
  }

  /** Whether two nodes are in the same folded run of a group: what passes between them is not seen. */
  areInOne(a: number, b: number): boolean {
    const groups = this.view.nodes.group;
    return this.#instance[groups[a]] >= 0 && this.#instance[groups[a]] === this.#instance[groups[b]];
  }

  /** Whether an edge leads from one block to another of a run that is drawn once. */
  isChain(parent: number, child: number): boolean {
    const above = this.view.groups.parent;
    let upper = this.view.nodes.group[parent], lower = this.view.nodes.group[child];
    let a = -1, b = -1;
    while (upper !== lower) {
      if (upper > lower) [a, upper] = [upper, above[upper]];
      else [b, lower] = [lower, above[lower]];
    }
    return a >= 0 && b >= 0 && this.#run[a] >= 0 && this.#run[a] === this.#run[b];
  }

  /** In which pass of its box it was made, and of how many. */
  turn(node: number): [number, number] {
    const { nodes, groups } = this.view;
    const folded = this.foldedOf(node);
    if (folded < 0) return [nodes.pass_[node], this.nPasses(nodes.rolled[node])];
    const own = this.#instance[nodes.group[node]];
    return [own >= 0 ? groups.pass_[own] : 1, this.nCalls(folded)];
  }

  /** How many passes a node stands for. */
  nPasses(node: number): number {
    return (this.how.rolled && this.#nPasses[node]) || 1;
  }

  /** How many runs of its module a group stands for. */
  nCalls(group: number): number {
    return (this.how.rolled && this.#nCalls[group]) || 1;
  }

  /** How many identical blocks a group stands for. */
  stack(group: number): number {
    return this.#run[group] >= 0 ? this.view.runs[this.#run[group]].groups.length : 1;
  }
}
