// Tests of grid.ts.

import assert from "node:assert/strict";
import { test } from "node:test";
import { intersects } from "./camera";
import { Grid } from "./grid";
import type { Rect } from "./types";

function random(seed: number): () => number {
  let state = seed;
  return () => (state = (state * 48271) % 2147483647) / 2147483647;
}

function scattered(n: number, seed: number): Rect[] {
  const next = random(seed);
  return Array.from({ length: n }, () => ({
    x: next() * 5000 - 1000, y: next() * 90000 - 1000, width: next() ** 6 * 6000, height: next() ** 6 * 90000,
  }));
}

test("finds exactly what a look at every item finds, once each and in order", () => {
  const rects = scattered(3000, 7);
  const grid = new Grid(rects);
  for (const area of scattered(200, 11)) {
    const expected = rects.flatMap((rect, i) => (intersects(rect, area) ? [i] : []));
    assert.deepEqual(grid.within(area), expected);
  }
});

test("items without size are found too", () => {
  const grid = new Grid([{ x: 10, y: 10, width: 0, height: 50 }]);
  assert.deepEqual(grid.within({ x: 0, y: 0, width: 20, height: 20 }), [0]);
});

test("an area far away from everything holds nothing, and so does an empty grid", () => {
  const grid = new Grid(scattered(50, 3));
  for (const [x, y] of [[-1e9, 0], [1e9, 0], [0, -1e9], [0, 1e9]] as const) {
    assert.deepEqual(grid.within({ x, y, width: 100, height: 100 }), []);
  }
  assert.deepEqual(new Grid([]).within({ x: 0, y: 0, width: 100, height: 100 }), []);
});
