// Tests of tables.tsx.

import assert from "node:assert/strict";
import { test } from "node:test";
import { outliersFirst } from "./tables";

test("rows with outliers come first, the strongest before the others, broken ones before all", () => {
  const values = new Float32Array([1, 1, 1, 9, 1, 1, NaN, 1, 50, 1]);
  const z = new Float32Array([NaN, NaN, NaN, 7, NaN, NaN, NaN, NaN, -30, NaN]);
  const found = outliersFirst({ n_rows: 5, n_columns: 2, values, z });
  assert.deepEqual([...found.rows], [3, 4, 1, 0, 2]);
  assert.equal(found.n, 3);
  assert.deepEqual([...outliersFirst({ n_rows: 3, n_columns: 1, values: new Float32Array(3) }).rows], [0, 1, 2]);
});
