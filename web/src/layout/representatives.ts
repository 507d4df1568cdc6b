// The node or group that represents each node of a folded graph: one pass for a loop, one block for a run.
// The same rules as in Python, `layout/representatives.py`.

import type { Fold, GraphView } from "../lib/wire";

/** For every node, the node and the folded group that represent it. */
export class Representatives {
  /** Group → offset from its nodes to those of the block that represents it. */
  readonly #shift: Int32Array;
  /** Group → the corresponding group in the block that represents its run. */
  readonly #block: Int32Array;
  /** Group → the run of blocks that it is folded with; -1 for none. */
  readonly #run: Int32Array;
  /** Group → the group on its path that is folded into a box, itself or by its representative; -1 for none. */
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
      else if (!open.has(this.representative(group))) this.#instance[group] = group;
    }
    this.#nPasses = new Int32Array(nodes.row.length);
    this.#nCalls = new Int32Array(n);
    for (const node of nodes.rolled) this.#nPasses[node]++;
    for (const group of groups.rolled) this.#nCalls[group]++;
  }

  /** The group whose open or folded state applies to it. */
  representative(group: number): number {
    return this.#block[this.how.rolled ? this.view.groups.rolled[group] : group];
  }

  /** The node that represents it. */
  node(node: number): number {
    const first = this.how.rolled ? this.view.nodes.rolled[node] : node;
    return first + this.#shift[this.view.nodes.group[first]];
  }

  /** The folded group that represents it; -1 if it has its own box. */
  foldedOf(node: number): number {
    const group = this.view.nodes.group[this.node(node)];
    // Inputs stay visible even if the whole model is one box.
    return group === 0 && this.view.nodes.kind[node] === "input" ? -1 : this.#instance[group];
  }

  /** Whether two nodes are in the same folded call of a group, so that an edge between them is hidden. */
  isHidden(a: number, b: number): boolean {
    const groups = this.view.nodes.group;
    return this.#instance[groups[a]] >= 0 && this.#instance[groups[a]] === this.#instance[groups[b]];
  }

  /** Whether an edge connects two blocks of a run that is drawn once. */
  joinsBlocks(parent: number, child: number): boolean {
    const above = this.view.groups.parent;
    let upper = this.view.nodes.group[parent], lower = this.view.nodes.group[child];
    let a = -1, b = -1;
    while (upper !== lower) {
      if (upper > lower) [a, upper] = [upper, above[upper]];
      else [b, lower] = [lower, above[lower]];
    }
    return a >= 0 && b >= 0 && this.#run[a] >= 0 && this.#run[a] === this.#run[b];
  }

  /** The pass of a node within its box, and the number of passes. */
  passOf(node: number): [number, number] {
    const { nodes, groups } = this.view;
    const folded = this.foldedOf(node);
    if (folded < 0) return [nodes.pass_[node], this.nPasses(nodes.rolled[node])];
    const instance = this.#instance[nodes.group[node]];
    return [instance >= 0 ? groups.pass_[instance] : 1, this.nCalls(folded)];
  }

  /** How many passes a node represents. */
  nPasses(node: number): number {
    return (this.how.rolled && this.#nPasses[node]) || 1;
  }

  /** How many calls of its module a group represents. */
  nCalls(group: number): number {
    return (this.how.rolled && this.#nCalls[group]) || 1;
  }

  /** How many identical blocks a group represents. */
  stack(group: number): number {
    return this.#run[group] >= 0 ? this.view.runs[this.#run[group]].groups.length : 1;
  }
}
