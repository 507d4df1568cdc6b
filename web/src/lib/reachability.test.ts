// Tests of reachability.ts.

import assert from "node:assert/strict";
import { test } from "node:test";

import { ancestors, between, descendants, adjacency } from "./reachability";

const diamond = adjacency(6, [0, 0, 1, 2, 3], [1, 2, 3, 3, 4]); // 0 → 1, 2 → 3 → 4; 5 is isolated

const members = (reached: Uint8Array): number[] => [...reached.keys()].filter((node) => reached[node] === 1);

test("ancestors are what a node was made from, itself included", () => {
  assert.deepEqual(members(ancestors(diamond, [1])), [0, 1]);
  assert.deepEqual(members(ancestors(diamond, [4])), [0, 1, 2, 3, 4]);
});

test("descendants are what was made from a node, itself included", () => {
  assert.deepEqual(members(descendants(diamond, [2])), [2, 3, 4]);
  assert.deepEqual(members(descendants(diamond, [5])), [5]);
});

test("the paths between two nodes are the same in whichever order they are asked for", () => {
  assert.deepEqual(members(between(diamond, [1], [4])), [1, 3, 4]);
  assert.deepEqual(members(between(diamond, [4], [1])), [1, 3, 4]);
});

test("there is no path between siblings, nor to a isolated node", () => {
  assert.deepEqual(members(between(diamond, [1], [2])), []);
  assert.deepEqual(members(between(diamond, [0], [5])), []);
});

test("reach agrees with the transitive closure on random graphs", () => {
  let seed = 7;
  const random = (below: number): number => (seed = (seed * 1103515245 + 12345) % 2147483648) % below;
  for (let round = 0; round < 30; round++) {
    const n = 2 + random(14);
    const edges = Array.from({ length: random(3 * n) }, () => [random(n), random(n)] as const).filter(([a, b]) => a < b);
    const closed = Array.from({ length: n }, (_, a) => Array.from({ length: n }, (_, b) => a === b));
    for (const [a, b] of edges) closed[a][b] = true;
    for (let via = 0; via < n; via++)
      for (let a = 0; a < n; a++) for (let b = 0; b < n; b++) if (closed[a][via] && closed[via][b]) closed[a][b] = true;
    const graph = adjacency(n, edges.map(([a]) => a), edges.map(([, b]) => b));
    const [one, other] = [random(n), random(n)];
    const all = Array.from({ length: n }, (_, node) => node);
    assert.deepEqual(members(descendants(graph, [one])), all.filter((node) => closed[one][node]));
    assert.deepEqual(members(ancestors(graph, [one])), all.filter((node) => closed[node][one]));
    const [from, to] = closed[one][other] ? [one, other] : [other, one];
    assert.deepEqual(members(between(graph, [one], [other])), all.filter((node) => closed[from][node] && closed[node][to]));
  }
});

test("20,000 nodes take no longer than a frame", () => {
  const n = 20_000;
  const parents: number[] = [];
  const children: number[] = [];
  for (let node = 1; node < n; node++)
    for (const back of [1, 7, 100]) if (node >= back) parents.push(node - back), children.push(node);
  const graph = adjacency(n, parents, children);
  const times = Array.from({ length: 7 }, () => {
    const begin = performance.now();
    between(graph, [0], [n - 1]);
    return performance.now() - begin;
  });
  // The quickest of several: what else the machine does is not ours.
  assert.ok(Math.min(...times) < 20, `${Math.min(...times)} ms`);
});
