// Tests of sparkline.ts.

import assert from "node:assert/strict";
import { test } from "node:test";

import { sparkOf } from "./sparkline";

test("a rising line goes from the lower left to the upper right, and the dot is on it", () => {
  const { path, dot } = sparkOf([0, 5, 10], [0, 1, 2], [100, 20], false, 5);
  const points = path.split(/[ML]/).filter(Boolean).map((pair) => pair.split(" ").map(Number));
  assert.deepEqual(points.map(([left]) => left), [0, 50, 100]);
  assert.ok(points[0][1] > points[1][1] && points[1][1] > points[2][1]);
  assert.ok(points.every(([, down]) => down >= 0 && down <= 20));
  assert.deepEqual(dot?.map((value) => Number(value.toFixed(1))), points[1]);
});

test("a gap lifts the pen, and nothing draws nothing", () => {
  assert.equal(sparkOf([0, 1, 2, 3], [1, NaN, 2, 3], [30, 10], false, 1).path.match(/M/g)?.length, 2);
  assert.deepEqual(sparkOf([], [], [30, 10], true, 1), { path: "", dot: null });
});
