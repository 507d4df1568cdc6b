// Tests of filters in the address and of the steps that they leave.

import assert from "node:assert/strict";
import { test } from "node:test";
import { fromHash, toHash } from "../address";
import { actionOf } from "../commands";
import { choose, placesLeft, stepBy } from "../choice";
import { exampleRun } from "../example";
import { INITIAL, reduce } from "../state";
import { keepFilters, readFilters } from "./address";
import { placesOf } from "./use-filter";

const run = exampleRun("a");

test("filters survive the address, whatever they contain", () => {
  const filters = ["kind = train", "loss > 2", 'text ~ "a & b, c; 100 %"', "token = é"];
  const state = reduce(INITIAL, keepFilters([...filters, "loss > 2"]));
  assert.deepEqual(readFilters(state.kept), filters);
  assert.deepEqual(readFilters(fromHash(`#${toHash(state)}`).kept), filters);
  assert.equal(toHash(reduce(state, keepFilters([]))), "");
});

test("the places of the steps that are left", () => {
  assert.deepEqual(placesOf({ steps: [0, 5, 10, 15] }, { steps: [5, 15, 99] }), [1, 3]);
});

test("stepping goes from one step that is left to the next", () => {
  const left = [1, 4];
  assert.equal(stepBy(run, 1, 1, null, left), 4);
  assert.equal(stepBy(run, 4, 1, null, left), 4);
  assert.equal(stepBy(run, 2, 1, null, left), 4);
  assert.equal(stepBy(run, 2, -1, null, left), 1);
  assert.deepEqual(placesLeft(run, null, left), left);
  const kind = run.kinds[run.kind_of[4]];
  assert.ok(placesLeft(run, kind, left).every((place) => run.kinds[run.kind_of[place]] === kind));
  assert.equal(stepBy(run, 2, 1, null, []), 2, "nothing left: the step stays");
  const state = { ...INITIAL, step: run.steps[1] };
  const choice = { ...choose(run, state), left };
  assert.deepEqual(actionOf("later", { run, state, choice, nKept: 0 }), { do: "step", step: run.steps[4] });
});
