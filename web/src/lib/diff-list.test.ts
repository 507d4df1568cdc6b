// Tests of diff-list.ts.

import assert from "node:assert/strict";
import { test } from "node:test";

import { differences } from "./diff-list";

test("differences are sorted by what they are, values by how far they are apart", () => {
  const found = differences({
    mark: ["", "new", "gone", "changed", "new", ""],
    shade: [2, 0, 0, 1, 0, 2],
    amount: ["", "", "", "", "", ""],
    order: [0.5, 0, 0, 0.1, 0, 0.9],
  });
  assert.deepEqual(found, { new: [1, 4], gone: [2], changed: [3], apart: [5, 0, 3] });
});
