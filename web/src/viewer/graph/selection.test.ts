// Tests of selection.ts.

import assert from "node:assert/strict";
import { test } from "node:test";
import { exampleView } from "../../layout/example";
import type { RunGraph } from "../../lib/wire";
import { keyIn, keyOf, nodeAt, ofPass, selectBox } from "./selection";
import { INITIAL } from "../state";

/** Two iterations of one block: nodes 1 to 5 are the first, 6 to 10 the second. */
function example(): { graph: RunGraph; view: RunGraph["view"] } {
  const view = exampleView(2);
  const iteration = (node: number): number => (node >= 1 && node <= 5 ? 1 : node >= 6 && node <= 10 ? 2 : 0);
  view.nodes.rolled = view.nodes.rolled.map((node) => (iteration(node) === 2 ? node - 5 : node));
  const nodes = view.nodes.site.map((_, node) => {
    const name = `t${view.nodes.rolled[node]}`;
    return { name: `${name}:${iteration(node)}`, node: name, iteration: iteration(node), pass_: 1, role: "value", sites: [`${name}.out`], rows: [node], parts: [] };
  });
  const group_node = view.groups.label.map((_, group) => view.groups.end[group] - 1);
  return { graph: { structure: "s", view, nodes, group_node, no_gradient: [], manual: [], loops: [], n_hidden: 0, why_missing: "" }, view };
}

test("a tensor is found by any of its names, in the iteration that is looked at", () => {
  const { graph, view } = example();
  assert.equal(keyOf(graph, view, "t3", { iteration: 1, pass: 1 }), "n3");
  assert.equal(keyOf(graph, view, "t3", { iteration: 2, pass: 1 }), "n8");
  assert.equal(keyOf(graph, view, "t3.out", { iteration: 2, pass: 1 }), "n8");
  assert.equal(keyOf(graph, view, "t3", { iteration: 9, pass: 1 }), "n3", "rather another iteration than nothing");
  assert.equal(keyOf(graph, view, "t0", { iteration: 2, pass: 1 }), "n0", "what has no iterations is in each of them");
  assert.equal(keyOf(graph, view, "nowhere", { iteration: 1, pass: 1 }), null);
  assert.equal(keyOf(graph, view, null, { iteration: 1, pass: 1 }), null);
});

test("a box for all iterations means the one that is looked at", () => {
  const { graph, view } = example();
  assert.equal(keyIn(graph, view, "n3", { iteration: 2, pass: 1 }), "n8");
  assert.equal(keyIn(graph, view, "n8", { iteration: 1, pass: 1 }), "n3");
  assert.equal(keyIn(graph, view, "n0", { iteration: 2, pass: 1 }), "n0");
  assert.deepEqual(ofPass(graph, view, [3, 8], { iteration: 2, pass: 0 }), [8]);
  assert.deepEqual(ofPass(graph, view, [3, 8], { iteration: 7, pass: 0 }), [3, 8]);
});

test("a module means its result, and selecting tells the page node and iteration", () => {
  const { graph, view } = example();
  const group = view.groups.label.indexOf("h.1");
  assert.equal(nodeAt(graph, `g${group}`), 10);
  const selection = { ...INITIAL, of: "grad", iteration: 1 };
  assert.deepEqual(selectBox(graph, view, "n8", selection), { do: "tensor", node: "t3", part: "", of: "grad", iteration: 2, pass: 0 });
  assert.deepEqual(selectBox(graph, view, "n0", selection), { do: "tensor", node: "t0", part: "", of: "grad", iteration: 1, pass: 0 });
  assert.deepEqual(selectBox(graph, view, null, selection), { do: "node", node: null });
  assert.equal(selectBox(graph, view, "sn1:n2", selection), null);
});

test("where a module ran several times, each pass has its box, and one for all of them picks none", () => {
  const { graph, view } = example();
  const passes: RunGraph = { ...graph, nodes: graph.nodes.map((one) => ({ ...one, iteration: 0, pass_: Math.max(1, one.iteration) })) };
  assert.equal(keyOf(passes, view, "t3", { iteration: 0, pass: 2 }), "n8");
  assert.equal(keyOf(passes, view, "t3", { iteration: 0, pass: 1 }), "n3");
  assert.equal(keyOf(passes, view, "t3", { iteration: 0, pass: 5 }), "n3", "rather another pass than nothing");
  const named: RunGraph = { ...passes, nodes: passes.nodes.map((one) => ({ ...one, sites: [`${one.sites[0]}:${one.pass_}`] })) };
  assert.equal(keyOf(named, view, "t3.out", { iteration: 0, pass: 2 }), "n8", "a further name means all passes, too");
  assert.deepEqual(ofPass(passes, view, [3, 8], { iteration: 0, pass: 2 }), [8]);
  assert.deepEqual(ofPass(passes, view, [3, 8], { iteration: 0, pass: 0 }), [3, 8]);
  const told = { do: "tensor", node: "t3", part: "", of: "value", iteration: 0 };
  assert.deepEqual(selectBox(passes, view, "n8", INITIAL), { ...told, pass: 2 });
  assert.deepEqual(selectBox(passes, view, "n8", INITIAL, true), { ...told, pass: 0 });
  assert.deepEqual(selectBox(passes, view, "n0", INITIAL), { ...told, node: "t0", pass: 0 }, "what ran once is in every pass");
});
