// Tests of snippet.ts.

import assert from "node:assert/strict";
import { test } from "node:test";

import { elementsOf, nestedList, snippet } from "./snippet";

test("the line of Python names the step, the site and what of it", () => {
  const row = (of: string, iteration = 0) => ({ site: "encoder.2", of, iteration });
  assert.equal(snippet(row("value"), 400), 'run.at(400)["encoder.2"].value');
  assert.equal(snippet(row("grad"), 400), 'run.at(400)["encoder.2"].grad.value');
  assert.equal(snippet(row("grad/aux"), 400), 'run.at(400)["encoder.2"].other("grad/aux").value');
  assert.equal(snippet(row("value", 3), 400, 7), 'run.at(400)["encoder.2"].other("value", iteration=3).value[7]');
});

test("values are lists in lists, and read back the same", () => {
  assert.deepEqual(JSON.parse(nestedList(["1", "2.5", "-3", "4", "5", "6"], [2, 3])), [[1, 2.5, -3], [4, 5, 6]]);
  assert.equal(nestedList(["nan", "-inf"], [2]), "[nan, -inf]");
  assert.equal(nestedList(["7"], []), "7");
});

test("a table of the server has the elements behind their places", () => {
  assert.deepEqual(elementsOf("i0,i1,0,1\n0,0,0.1,1.0\n1,0,2.0,29000087\n", [2, 1, 2]), ["0.1", "1.0", "2.0", "29000087"]);
  assert.deepEqual(elementsOf("0\n7\n", []), ["7"]);
});
