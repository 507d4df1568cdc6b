// Tests of decimate.ts.

import assert from "node:assert/strict";
import { test } from "node:test";

import { below, decimate, nearest } from "./decimate";

const line = (n: number, of: (i: number) => number): [Float64Array, Float64Array] => [
  Float64Array.from({ length: n }, (_, i) => i), Float64Array.from({ length: n }, (_, i) => of(i)),
];

/** A random number that is the same in every run. */
function dice(seed: number): () => number {
  let state = seed;
  return () => (state = (state * 16807) % 2147483647) / 2147483647;
}

test("a short curve is kept as it is", () => {
  const [x, y] = line(50, (i) => i * i);
  assert.deepEqual(decimate(x, y, 0, 49, 100), [...x.keys()]);
});

test("every stretch keeps its extremes, in order, and few points are left", () => {
  const roll = dice(7);
  const [x, y] = line(100_000, () => roll() - 0.5);
  const kept = decimate(x, y, 0, 99_999, 300);
  assert.ok(kept.length <= 4 * 301, String(kept.length));
  assert.ok(kept.every((place, i) => i === 0 || place > kept[i - 1]));
  const width = 99_999 / 300;
  const own = new Set(kept);
  for (let stretch = 0; stretch < 300; stretch++) {
    const inside = [...x.keys()].slice(Math.ceil(stretch * width), Math.ceil((stretch + 1) * width));
    const values = inside.map((i) => y[i]);
    for (const wanted of [Math.min(...values), Math.max(...values)]) assert.ok(inside.some((i) => own.has(i) && y[i] === wanted));
  }
});

test("one spike among a million is seen", () => {
  const [x, y] = line(1_000_000, (i) => (i === 765_432 ? 9 : 0));
  assert.ok(decimate(x, y, 0, 999_999, 200).includes(765_432));
});

test("one number that is not finite among many is kept", () => {
  const [x, y] = line(10_000, (i) => (i === 1234 ? NaN : 1));
  assert.ok(decimate(x, y, 0, 9_999, 50).includes(1234));
});

test("of a part only the part and its neighbors are kept", () => {
  const [x, y] = line(1000, (i) => i);
  const kept = decimate(x, y, 100.5, 110, 400);
  assert.deepEqual([kept[0], kept[kept.length - 1]], [100, 111]);
});

test("nothing of nothing, and one of one", () => {
  assert.deepEqual(decimate([], [], 0, 1, 10), []);
  assert.deepEqual(decimate([5], [1], 5, 5, 10), [0]);
});

test("the nearest number is found from both sides", () => {
  const x = [0, 10, 20, 40];
  assert.deepEqual([-5, 4, 6, 29, 31, 99].map((value) => nearest(x, value)), [0, 0, 1, 2, 3, 3]);
  assert.equal(nearest([], 3), -1);
  assert.deepEqual([below(x, 10), below(x, 10, true)], [1, 2]);
});
