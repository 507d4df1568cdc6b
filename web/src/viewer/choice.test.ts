// Tests of choice.ts.

import assert from "node:assert/strict";
import { test } from "node:test";
import { choose, counterpart, describeSteps, nearest, optionsOf, describePasses, describePass, selectRow, siteOf, stepBy, stepNotice } from "./choice";
import type { RowView, RunView } from "../lib/wire";
import { exampleRun } from "./example";
import { INITIAL, reduce, type Action, type State } from "./state";

const run = exampleRun("a");
const after = (...actions: Action[]): State => actions.reduce(reduce, INITIAL);

test("the newest step is shown until another is asked for", () => {
  assert.equal(choose(run, INITIAL).step, 390);
  assert.equal(choose(run, after({ do: "step", step: 120 })).step, 120);
});

test("of a step that was not recorded the next one is shown, the lower of two", () => {
  assert.equal(choose(run, after({ do: "step", step: 124 })).step, 120);
  assert.equal(choose(run, after({ do: "step", step: 125 })).step, 120);
  assert.equal(choose(run, after({ do: "step", step: 126 })).step, 130);
  assert.equal(choose(run, after({ do: "step", step: 99_999 })).step, 390);
});

test("a kind of step moves to the next step of that kind, and without it the old step comes back", () => {
  const at = after({ do: "step", step: 100 });
  const long = reduce(at, { do: "kind", kind: "long" });
  assert.equal(choose(run, long).step, 110);
  assert.equal(choose(run, reduce(long, { do: "kind", kind: null })).step, 100);
});

test("a kind that a run does not have is not asked of it", () => {
  const other = { ...run, kinds: ["short"], kind_of: run.steps.map(() => 0) };
  const state = after({ do: "kind", kind: "rare" }, { do: "step", step: 50 });
  assert.deepEqual([choose(other, state).kind, choose(other, state).step], [null, 50]);
  assert.equal(choose(run, state).kind, "rare");
});

test("steps without a kind can be selected alone, beside other kinds", () => {
  const mixed = { ...run, kinds: ["", "eval"], kind_of: run.steps.map((_, place) => place % 2) };
  assert.equal(choose(mixed, after({ do: "step", step: 110 })).step, 110);
  assert.equal(choose(mixed, after({ do: "kind", kind: "" }, { do: "step", step: 110 })).step, 100);
  assert.equal(choose(mixed, after({ do: "kind", kind: "eval" })).step, run.steps.at(-1));
});

test("following shows the newest of the kind", () => {
  const following = after({ do: "step", step: 30 }, { do: "follow" });
  assert.equal(choose(run, following).step, 390);
  assert.equal(choose(run, reduce(following, { do: "kind", kind: "long" })).step, 380);
});

test("the gradient is shown where there is one, the value elsewhere, and the gradient again after that", () => {
  const grad = after({ do: "of", of: "grad/aux" }, { do: "iteration", iteration: 2 }, { do: "node", node: "blocks.1" });
  const shown = (state: State) => {
    const { row } = choose(run, state);
    return row && [row.site, row.of, row.iteration];
  };
  assert.deepEqual(shown(grad), ["blocks.1", "grad/aux", 2]);
  assert.deepEqual(optionsOf(run).iterations, [1, 2, 3]);
  assert.deepEqual(shown(reduce(grad, { do: "node", node: "head" })), ["head", "grad", 0]);
  assert.deepEqual(shown(reduce(grad, { do: "node", node: "$loss" })), ["$loss", "value", 0]);
  assert.deepEqual(shown(reduce(grad, { do: "node", node: "blocks.3" })), ["blocks.3", "grad/aux", 2]);
  assert.deepEqual(shown(reduce(grad, { do: "node", node: "blocks.3.out" })), ["blocks.3", "grad/aux", 2]);
});

test("of two conflicting selectors the one changed last wins", () => {
  const margin = after({ do: "node", node: "head" }, { do: "of", of: "grad" }, { do: "part", part: "margin" });
  assert.deepEqual([choose(run, margin).part, choose(run, margin).of], ["margin", "value"]);
  const grad = reduce(margin, { do: "of", of: "grad" });
  assert.deepEqual([choose(run, grad).part, choose(run, grad).of], ["", "grad"]);
});

test("a node that this run does not have is not selected, and what was asked for is still told", () => {
  const { node, row, of, iteration } = choose(run, after({ do: "node", node: "gone" }, { do: "of", of: "update" }));
  assert.deepEqual([node, row, of, iteration], [null, null, "update", 1]);
});

test("a run without steps shows none", () => {
  assert.deepEqual(choose({ ...run, steps: [], kind_of: [] }, after({ do: "step", step: 5 })).step, -1);
});

test("a sample is shown as long as the step has kept it", () => {
  const state = after({ do: "sample", sample: 3 });
  assert.equal(choose(run, state, 8).sample, 3);
  assert.equal(choose(run, state, 2).sample, null);
});

test("every selection and every node of a run leads to one of its rows", () => {
  for (const node of optionsOf(run).nodes.keys()) {
    for (const of of [...optionsOf(run).ofs, "grad/other"]) {
      for (const iteration of [0, 1, 7]) {
        const { row } = choose(run, after({ do: "node", node }, { do: "of", of }, { do: "iteration", iteration }));
        assert.ok(row && run.rows[row.row] === row);
        const exact = run.rows.find((other) => (other.node || other.site) === node && other.of === of && other.iteration === iteration);
        if (exact) assert.deepEqual([row.of, row.iteration], [of, iteration]);
      }
    }
  }
});

test("steps are walked one by one, by kind, and also from between two of a kind", () => {
  assert.equal(stepBy(run, 5, 1, null), 6);
  assert.equal(stepBy(run, 39, 1, null), 39);
  assert.equal(stepBy(run, 5, 1, "long"), 8);
  assert.equal(stepBy(run, 6, 1, "long"), 8);
  assert.equal(stepBy(run, 6, -1, "long"), 5);
  assert.equal(stepBy(run, 7, 1, "long"), 8);
  assert.equal(stepBy(run, 7, -1, "long"), 5);
  assert.equal(stepBy(run, 0, -1, "long"), 2);
});

test("the nearest of rising numbers is what a full search finds", () => {
  const numbers = [0, 1, 4, 9, 16, 25];
  for (let to = -2; to < 30; to += 0.5) {
    const found = numbers[nearest(numbers, (n) => n, to)];
    assert.equal(Math.abs(found - to), Math.min(...numbers.map((n) => Math.abs(n - to))));
  }
});

test("the same tensor of another run is found by its site, not by its number", () => {
  const other = exampleRun("b", { nModules: 2 });
  const row = run.rows.find(({ site, of }) => site === "$loss" && of === "value")!;
  assert.equal(counterpart(other, row)?.site, "$loss");
  assert.notEqual(counterpart(other, row)?.row, row.row);
  assert.equal(counterpart(other, run.rows.find(({ site }) => site === "blocks.3")!), null);
});

test("an inner gradient takes the place of no other gradient, nor another its place", () => {
  const base = exampleRun("inner");
  const row = (of: string, site: string) => ({ ...base.rows[0], row: base.rows.length, site, of, iteration: 0, role: "value" });
  const run = { ...base, rows: [...base.rows, row("value", "critic"), row("inner_grad", "critic"), row("grad@2", "head")] };
  assert.deepEqual(optionsOf(run).ofs, ["value", "grad", "grad/aux", "grad@2", "update", "inner_grad"]);
  const of = (node: string, wanted: string) => choose(run, { ...INITIAL, of: wanted, order: ["of"], node }).of;
  assert.equal(of("critic", "inner_grad"), "inner_grad");
  assert.equal(of("critic", "grad"), "value");
  assert.equal(of("head", "inner_grad"), "value");
  assert.equal(of("head", "grad@2"), "grad@2");
  assert.equal(of("blocks.0.weight", "grad@2"), "grad");
  assert.equal(of("blocks.0.weight", "update@2"), "update");
});

/** A cell that runs up to three times a step, and a head that runs once. */
function unrolled(): RunView {
  const base = exampleRun("c", { nModules: 0 });
  const cell = (pass_: number, of: string): RowView => ({ ...base.rows[0], site: "cell", of, role: "value", pass_, n_passes: 3 });
  const rows = [...base.rows, ...[1, 2, 3].flatMap((pass_) => [cell(pass_, "value"), cell(pass_, "grad")])];
  return { ...base, rows: rows.map((row, number) => ({ ...row, row: number })) };
}

test("all passes are meant until one is picked, and the first is shown", () => {
  const own = unrolled();
  assert.deepEqual(optionsOf(own).passes, [1, 2, 3]);
  const all = choose(own, after({ do: "node", node: "cell" }));
  assert.deepEqual([all.pass, all.passFilter], [1, { iteration: null, pass: null }]);
  const second = choose(own, after({ do: "node", node: "cell" }, { do: "pass", pass: 2 }));
  assert.deepEqual([second.pass, second.passFilter.pass, second.row?.of], [2, 2, "value"]);
  assert.equal(choose(own, after({ do: "node", node: "head" }, { do: "pass", pass: 2 })).pass, 1, "what ran once is shown all the same");
  const [once, twice] = [own.rows.find(({ site }) => site === "head")!, own.rows.find(({ pass_ }) => pass_ === 2)!];
  assert.deepEqual([once, twice].map((row) => reduce(INITIAL, selectRow(row, INITIAL)).pass), [0, 2], "a row of a table picks a pass where there are several");
  assert.equal(choose(own, after({ do: "node", node: "cell:3" })).row?.site, "cell", "links of before are understood");
});

test("passes are told in words, and sites have them where they are needed", () => {
  const own = unrolled();
  const row = (site: string, pass_ = 1): RowView => own.rows.find((other) => other.site === site && other.pass_ === pass_)!;
  assert.deepEqual([describePass(own, row("cell", 2)), describePass(own, row("head"))], ["pass 2", ""]);
  assert.deepEqual([siteOf(own, row("cell")), siteOf(own, row("head"))], ["cell:1", "head"]);
  assert.equal(describePasses(own, row("cell"), { iteration: null, pass: null }), "mean of up to 3 passes, band from minimum to maximum");
  assert.equal(describePasses(own, row("cell"), { iteration: null, pass: 3 }), "pass 3");
  assert.equal(describePasses(own, row("head"), { iteration: null, pass: null }), "");
  const block = run.rows.find(({ site, iteration }) => site === "blocks.0" && iteration === 2)!;
  assert.deepEqual([siteOf(run, block), describePass(run, block)], ["blocks.0", "iteration 2"]);
  assert.match(describePasses(run, block, { iteration: null, pass: null }), /^mean of up to 3 passes/);
  assert.equal(describePasses(run, block, { iteration: 2, pass: null }), "iteration 2");
});

test("a run with other passes still has a counterpart for all of them together", () => {
  const own = unrolled();
  const once: RunView = { ...own, rows: own.rows.filter(({ pass_ }) => pass_ === 1).map((row, number) => ({ ...row, row: number, n_passes: 1 })) };
  const third = own.rows.find(({ site, pass_ }) => site === "cell" && pass_ === 3)!;
  assert.equal(counterpart(once, third), null);
  assert.equal(counterpart(once, third, { iteration: null, pass: null })?.site, "cell");
});

test("a step that was not recorded is named with the one that is shown instead, and so is one of another kind", () => {
  const notice = (...actions: Action[]): string => stepNotice(run, after(...actions), choose(run, after(...actions)));
  assert.equal(notice(), "");
  assert.equal(notice({ do: "step", step: 120 }), "");
  assert.equal(notice({ do: "step", step: 124 }), "step 124 was not recorded; nearest: 120");
  assert.equal(notice({ do: "step", step: 99_999 }), "step 99,999 was not recorded; nearest: 390");
  assert.equal(notice({ do: "kind", kind: "long" }, { do: "step", step: 100 }), "step 100 is not of kind long; nearest that is: 110");
  assert.equal(notice({ do: "kind", kind: "long" }, { do: "step", step: 104 }), "step 104 was not recorded; nearest of kind long: 110");
});

test("never more steps are recorded than there are, wherever counting begins", () => {
  const described = (steps: number[], logged: number[]): string => describeSteps({ ...run, steps, logged });
  assert.equal(described(Array.from({ length: 12 }, (_, i) => i), [0, 11]), "12 recorded");
  assert.equal(described(Array.from({ length: 12 }, (_, i) => i), [0, 10]), "12 recorded");
  assert.equal(described([1000, 1010, 1020], [1000, 1029]), "3 recorded of 30");
  assert.equal(described([0, 10, 20], []), "3 recorded of 21");
  assert.equal(described([5], [0, 0]), "1 recorded of 6");
  assert.equal(described([], [0, 9]), "none recorded yet");
});
