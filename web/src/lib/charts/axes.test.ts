// Tests of axes.ts.

import assert from "node:assert/strict";
import { test } from "node:test";

import { axisOf, extent, powers, rounds, tickTexts } from "./axes";

const of = (...values: number[]) => extent(values, values.keys());

test("the extent is that of the finite numbers", () => {
  assert.deepEqual(of(NaN, -3, 0, 1e-4, Infinity), { low: -3, high: 1e-4, tiny: 1e-4 });
  assert.equal(of(NaN), null);
});

test("ticks are round and lie within", () => {
  assert.deepEqual(rounds(0, 1, 5), [0, 0.2, 0.4, 0.6, 0.8, 1]);
  assert.deepEqual(rounds(-0.3, 0.3, 3), [-0.2, 0, 0.2]);
  assert.deepEqual(rounds(0, 9999, 3.3), [0, 2500, 5000, 7500]);
  assert.deepEqual(powers(1e-7, 1e-1, 3), [1e-6, 1e-3]);
  assert.deepEqual(powers(0.1, 1.5, 4), [0.1, 0.2, 0.5, 1]);
  for (const isLog of [false, true]) {
    for (const [low, high] of [[1e-9, 1e9], [3, 3], [0, 0], [-3, -3], [-5, 2], [0, 1e-12], [-1e30, 1e30], [0.31, 0.32], [-2, -1]]) {
      const axis = axisOf(of(low, high), isLog);
      assert.ok(axis.low < axis.high && axis.low <= low && axis.high >= high, `${low} ${high}`);
      assert.ok(axis.ticks.length >= 1 && axis.ticks.length <= 12, `${low} ${high} ${isLog}: ${axis.ticks}`);
      assert.ok(axis.ticks.every((tick) => tick >= axis.low && tick <= axis.high), `${low} ${high} ${isLog}: ${axis.ticks}`);
    }
  }
});

test("places rise with their numbers, and lead back to them", () => {
  for (const axis of [axisOf(of(0.1, 50), true), axisOf(of(-50, 1e-3, 7), true), axisOf(of(0, 50), false)]) {
    const numbers = [axis.low, ...axis.ticks, axis.high];
    numbers.forEach((value, i) => {
      const back = axis.backward(axis.forward(value));
      assert.ok(Math.abs(back - value) <= 1e-9 * Math.max(1, Math.abs(value)));
      assert.ok(i === 0 || axis.forward(value) >= axis.forward(numbers[i - 1]));
    });
  }
});

test("a logarithmic axis of numbers around zero shows both sides of it", () => {
  const { ticks } = axisOf(of(-1000, 0.01, 1000), true);
  assert.ok(ticks.some((tick) => tick < 0) && ticks.includes(0) && ticks.some((tick) => tick > 0));
});

test("what is never negative has an axis that is not either", () => {
  assert.equal(axisOf(of(0, 3), false).low, 0);
  assert.equal(axisOf(null, false).low, 0);
});

test("within a power of ten there are at least three ticks", () => {
  assert.deepEqual(powers(0.05, 0.111, 4), [0.05, 0.06, 0.08, 0.1]);
  assert.ok(powers(0.4, 0.52, 4).length >= 3);
});

test("powers of ten are written as such where some are long, and other ticks as numbers", () => {
  assert.deepEqual(tickTexts([1, 1e5, 1e10]), ["1", "1e5", "1e10"]);
  assert.deepEqual(tickTexts([-1e6, 0, 1e-6, 0.01]), ["−1e6", "0", "1e−6", "0.01"]);
  assert.deepEqual(tickTexts([10000, 20000]), ["10,000", "20,000"]);
  assert.deepEqual(tickTexts([0.1, 1, 10]), ["0.1", "1", "10"]);
});
