import assert from "node:assert/strict";
import { test } from "node:test";

import { listed, snippet } from "./snippet";

test("the line of Python names the step, the site and what of it", () => {
  const row = (of: string, iteration = 0) => ({ site: "encoder.2", of, iteration });
  assert.equal(snippet(row("value"), 400), 'run.at(400)["encoder.2"].value');
  assert.equal(snippet(row("grad"), 400), 'run.at(400)["encoder.2"].grad.value');
  assert.equal(snippet(row("grad/aux"), 400), 'run.at(400)["encoder.2"].other("grad/aux").value');
  assert.equal(snippet(row("value", 3), 400, 7), 'run.at(400)["encoder.2"].other("value", iteration=3).value[7]');
});

test("values are lists in lists, and read back the same", () => {
  assert.deepEqual(JSON.parse(listed([1, 2.5, -3, 4, 5, 6], [2, 3])), [[1, 2.5, -3], [4, 5, 6]]);
  assert.equal(listed([NaN, -Infinity], [2]), "[nan, -inf]");
  assert.equal(listed([7], []), "7");
});
