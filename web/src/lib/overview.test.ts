import assert from "node:assert/strict";
import { test } from "node:test";
import { deviations, rangeAt } from "./overview";

test("one that is a thousand times smaller than its like stands apart, the others do not", () => {
  const values = [1, 1.3, 0.8, 1.1, 0.9, 1e-3, 50, 60];
  const groups = ["a", "a", "a", "a", "a", "a", "b", "b"];
  const found = deviations(values, groups);
  assert.ok(found[5] < -8);
  for (const i of [0, 1, 2, 3, 4]) assert.ok(Math.abs(found[i]) < 2);
  assert.deepEqual([found[6], found[7]], [0, 0], "two do not say what is usual");
});

test("signs, zeros, NaN and infinities are no deviations", () => {
  const found = deviations([1, -1, 1, -1, 1, 0, NaN, Infinity], Array(8).fill("a"));
  assert.ok([...found].every((z) => z === 0));
});

test("the range of a tensor is read by the names of its statistics", () => {
  const matrix = { n_rows: 2, n_columns: 3, values: Float32Array.of(0, 0, 0, -1, 5, 2) };
  const { min, max, middle, low } = rangeAt(matrix, ["min", "max", "p50"], 1);
  assert.deepEqual([min, max, middle], [-1, 5, 2]);
  assert.ok(Number.isNaN(low));
});
