// Tests of overview.ts.

import assert from "node:assert/strict";
import { test } from "node:test";
import { rangeAt } from "./quantile-range";

test("the range of a tensor is read by the names of its statistics", () => {
  const matrix = { n_rows: 2, n_columns: 3, values: Float32Array.of(0, 0, 0, -1, 5, 2) };
  const { min, max, middle, low } = rangeAt(matrix, ["min", "max", "p50"], 1);
  assert.deepEqual([min, max, middle], [-1, 5, 2]);
  assert.ok(Number.isNaN(low));
});
