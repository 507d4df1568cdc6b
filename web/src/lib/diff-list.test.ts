// Tests of diff-list.ts.

import assert from "node:assert/strict";
import { test } from "node:test";

import { differences } from "./diff-list";

test("differences are sorted by what they are, values by how far they are values", () => {
  const found = differences({
    mark: ["", "new", "removed", "changed", "new", ""],
    shade: [2, 0, 0, 1, 0, 2],
    amount: ["", "", "", "", "", ""],
    order: [0.5, 0, 0, 0.1, 0, 0.9],
  });
  assert.deepEqual(found, { new: [1, 4], removed: [2], changed: [3], values: [5, 0, 3] });
});
