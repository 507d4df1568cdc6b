// Tests of smooth.ts.

import assert from "node:assert/strict";
import { test } from "node:test";

import { smooth } from "./smooth";

test("no weight changes nothing, and a constant stays what it is", () => {
  assert.deepEqual([...smooth([3, 1, 2], 0)], [3, 1, 2]);
  for (const value of smooth(new Float32Array(200).fill(5), 0.97)) assert.ok(Math.abs(value - 5) < 1e-9);
});

test("it is the weighted mean of what came before", () => {
  const y = [4, -2, 7, 1];
  const weight = 0.6;
  smooth(y, weight).forEach((value, i) => {
    const weights = y.slice(0, i + 1).map((_, j) => weight ** (i - j));
    const all = weights.reduce((sum, one) => sum + one, 0);
    const mean = weights.reduce((sum, one, j) => sum + one * y[j], 0) / all;
    assert.ok(Math.abs(value - mean) < 1e-12);
  });
});

test("what is not finite leaves no trace in what follows", () => {
  const [a, b] = [smooth([1, NaN, 3, Infinity, 5], 0.5), smooth([1, 3, 5], 0.5)];
  assert.deepEqual([a[0], a[2], a[4]], [...b]);
  assert.ok(Number.isNaN(a[1]) && a[3] === Infinity);
});
