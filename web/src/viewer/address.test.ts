// Tests of address.ts.

import assert from "node:assert/strict";
import { test } from "node:test";
import { fromHash, makeBudget, toHash } from "./address";
import { INITIAL, reduce, type Action, type State } from "./state";

const after = (...actions: Action[]): State => actions.reduce(reduce, INITIAL);

test("the first look needs no words", () => {
  assert.equal(toHash(INITIAL), "");
  assert.deepEqual(fromHash(""), INITIAL);
});

test("every change comes back from the address", () => {
  const actions: Action[] = [
    { do: "run", id: "a1" }, { do: "toggle run", id: "b2" }, { do: "run", id: "b2" }, { do: "tab", tab: "curves" }, { do: "kind", kind: "" }, { do: "kind", kind: "long & wide=2" }, { do: "step", step: 0 },
    { do: "iteration", iteration: 3 }, { do: "of", of: "grad/aux" }, { do: "sample", sample: 0 }, { do: "node", node: "h.0.attn/softmax:2#q" },
    { do: "part", part: "a,b" }, { do: "statistic", statistic: "abs_mean" }, { do: "since", step: 0 }, { do: "keep", name: "graph", text: "1-3,7 ~%" },
    { do: "follow" },
  ];
  let state = INITIAL;
  for (const action of actions) {
    state = reduce(state, action);
    assert.deepEqual(fromHash(`#${toHash(state)}`), state, action.do);
  }
  assert.equal(state.step, null);
});

test("nonsense in an address is as if it was not there", () => {
  assert.deepEqual(fromHash("#tab=x&step=-3&iteration=e&sample=1.5&order=of,of,of&since=&kind="), INITIAL);
});

test("the address is changed at once, and more seldom only while it changes without end", () => {
  let time = 0;
  const budget = makeBudget(() => time);
  assert.deepEqual(new Set(Array.from({ length: 20 }, budget)), new Set([0]));
  const wait = budget();
  assert.ok(wait > 0 && wait <= 500);
  time += wait;
  assert.equal(budget(), 0);
  assert.ok(budget() > 0);
  let n = 0;
  for (; time < 30_000; time += 16) if (budget() === 0) n += 1;
  assert.ok(n < 80, `${n} changes in half a minute`);
});

test("a run that is looked at is on the page", () => {
  assert.deepEqual(fromHash("#run=c").runs, ["c"]);
  assert.equal(fromHash("#runs=a,b").active, "a");
});

test("a run that is looked at takes the place of the one before, unless it is laid over it", () => {
  const two = after({ do: "run", id: "a" }, { do: "run", id: "b" }, { do: "toggle run", id: "c" }, { do: "run", id: "c" });
  assert.deepEqual([two.runs, two.active], [["b", "c"], "c"]);
  assert.deepEqual(reduce(two, { do: "run", id: "d" }).runs, ["b", "d"]);
});

test("the last run stays on the page, and one that is left is looked at", () => {
  const two = after({ do: "run", id: "a" }, { do: "toggle run", id: "b" });
  assert.deepEqual([two.runs, two.active], [["a", "b"], "a"]);
  const one = reduce(two, { do: "toggle run", id: "a" });
  assert.deepEqual([one.runs, one.active], [["b"], "b"]);
  assert.equal(reduce(one, { do: "toggle run", id: "b" }), one);
});

test("runs that nobody asked for stay once something else was, and no others after them", () => {
  const stayed = after({ do: "stay", runs: ["a"], active: "a" }, { do: "node", node: "x" }, { do: "stay", runs: ["b"], active: "b" });
  assert.deepEqual([stayed.runs, stayed.active, stayed.node], [["a"], "a", "x"]);
});
