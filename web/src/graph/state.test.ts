// Tests of state.ts.

import assert from "node:assert/strict";
import { test } from "node:test";

import { exampleView } from "../layout/example";
import { Representatives } from "../layout/representatives";
import { around, boxesAtDepths, deepest, depthOf, drawnAs, foldOf, initial, reduce, toDepth, type Action, type State } from "./state";

const view = exampleView(3); // groups: 1 h.0, 2 h.0.attn, 3 h.1, 4 h.1.attn, 5 h.2, 6 h.2.attn; one run
const after = (...actions: Action[]): State => actions.reduce((state, action) => reduce(view, state, action), initial(view));

test("a small graph is all open at first, with its repeated blocks drawn once", () => {
  assert.deepEqual(initial(view).open, new Set([0, 1, 2, 3, 4, 5, 6]));
  assert.equal(initial(view).apart.size, 0);
});

test("at first, not more boxes show than one can take in", () => {
  const wide = exampleView(100);
  wide.runs = [];
  wide.groups.run = wide.groups.run.map(() => -1);
  assert.deepEqual(boxesAtDepths(wide, false), [102, 302, 502]);
  assert.equal(initial(wide).open.size, 1);
  assert.deepEqual(boxesAtDepths(exampleView(100), false), [3, 5, 7]);
});

test("a depth opens the groups above it", () => {
  assert.equal(deepest(view), 3);
  assert.deepEqual(toDepth(view, 1), new Set([0]));
  assert.deepEqual(after({ do: "depth", depth: 2 }).open, new Set([0, 1, 3, 5]));
  assert.deepEqual(after({ do: "depth", depth: 99 }).open, toDepth(view, 3));
  assert.deepEqual(depthOf(view, toDepth(view, 2)), { depth: 2, isExact: true });
  assert.deepEqual(depthOf(view, new Set([0, 1])), { depth: 1, isExact: false });
});

test("what is done to one of identical blocks is done to all, unless they are drawn one by one", () => {
  assert.deepEqual(after({ do: "depth", depth: 1 }, { do: "toggle", group: 1 }).open, new Set([0, 1, 3, 5]));
  const apart = after({ do: "depth", depth: 1 }, { do: "apart", run: 0, is: true }, { do: "toggle", group: 3 });
  assert.deepEqual(apart.open, new Set([0, 3]));
  assert.deepEqual(reduce(view, apart, { do: "toggle", group: 3 }).open, new Set([0]));
});

test("revealing an op opens what is around it and nothing else", () => {
  assert.deepEqual(around(view, "n7"), [3, 4]);
  const state = after({ do: "depth", depth: 1 }, { do: "apart all", is: true }, { do: "reveal", key: "n7" });
  assert.deepEqual(state.open, new Set([0, 3, 4]));
  assert.equal(reduce(view, state, { do: "reveal", key: "n7" }), state);
});

test("an op of a block that is drawn once is found in the block that stands for it", () => {
  assert.equal(drawnAs(new Representatives(view, foldOf(initial(view))), "n7"), "n2");
  assert.equal(drawnAs(new Representatives(view, foldOf(after({ do: "apart all", is: true }))), "n7"), "n7");
});

test("paths need two ends: the selection, and what is clicked next", () => {
  const state = after({ do: "select", key: "n1" }, { do: "pick" }, { do: "select", key: "n5" });
  assert.deepEqual([state.selection, state.second, state.highlight, state.isPicking], ["n1", "n5", "paths", false]);
  assert.equal(reduce(view, state, { do: "select", key: "n2" }).highlight, "");
  assert.equal(after({ do: "pick" }).isPicking, false);
});

test("a highlight follows the selection and goes when asked for again", () => {
  const shown = after({ do: "select", key: "n1" }, { do: "highlight", highlight: "ancestors" }, { do: "select", key: "n2" });
  assert.equal(shown.highlight, "ancestors");
  assert.equal(reduce(view, shown, { do: "highlight", highlight: "ancestors" }).highlight, "");
  assert.equal(after({ do: "highlight", highlight: "ancestors" }).highlight, "");
});

test("escape takes back one thing at a time", () => {
  let state = after({ do: "query", query: "x" }, { do: "select", key: "n1" }, { do: "highlight", highlight: "descendants" });
  const seen = [];
  for (let i = 0; i < 3; i++) {
    state = reduce(view, state, { do: "clear" });
    seen.push([state.highlight, state.query, state.selection]);
  }
  assert.deepEqual(seen, [["", "x", "n1"], ["", "", "n1"], ["", "", null]]);
});
