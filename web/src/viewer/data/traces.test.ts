// Tests of traces.ts.

import assert from "node:assert/strict";
import { test } from "node:test";
import type { RunItem, RunView } from "../../lib/wire";
import { exampleRun } from "../example";
import { describeOrigin, ownTraces, traceOfStep } from "./traces";

const base = exampleRun("a");
const structures = [{ hash: "x", from_step: 0, n_steps: 20, kinds: [""] }, { hash: "y", from_step: 200, n_steps: 20, kinds: [""] }];
const run: RunView = {
  ...base, item: { ...base.item, archive: "run-1" }, structures, structure_of: base.steps.map((step) => (step < 200 ? 0 : 1)),
};
const trace = (id: string, of: string, step: number | null): RunItem =>
  ({ ...base.item, id, name: `${id}.trace`, kind: "trace", archive: "", trace: { model: "Net", created: 0, run: of, step } });
const items = [run.item, trace("late", "run-1", 300), trace("early", "run-1", 40), trace("foreign", "run-2", 40), trace("loose", "", null)];

test("the traces of a run are those made in its steps, in their order", () => {
  assert.deepEqual(ownTraces(items, run).map(({ id }) => id), ["early", "late"]);
  assert.deepEqual(ownTraces(items, { ...run, item: { ...run.item, archive: "" } }), []);
});

test("a step has the trace made in it, or one of the same structure, and never one of another", () => {
  assert.deepEqual(traceOfStep(items, run, 40), { item: items[2], isSameStep: true });
  assert.deepEqual(traceOfStep(items, run, 100), { item: items[2], isSameStep: false });
  assert.deepEqual(traceOfStep(items, run, 210), { item: items[1], isSameStep: false });
  assert.equal(traceOfStep(items.filter(({ id }) => id !== "late"), run, 210), null);
  assert.equal(traceOfStep(items, run, 41), null, "a step that was not recorded has no structure");
});

test("whose trace it is stands in a sentence, and what is not known is not guessed", () => {
  const { name } = run.item;
  assert.deepEqual(describeOrigin(items, items[2], run), { text: `made in step 40 of ${name}, structure 1 of 2 (20 recorded steps)`, to: { run: run.item, step: 40 } });
  assert.equal(describeOrigin(items, items[2], { ...run, item: { ...run.item, archive: "other", name: "other" } }).text, `made in step 40 of ${name}, not of other`);
  assert.equal(describeOrigin(items, items[3], run).text, "made in step 40 of a run that is not in this folder");
  assert.equal(describeOrigin(items, items[4], run).text, "not made in a step of a run, so it belongs to none");
});
