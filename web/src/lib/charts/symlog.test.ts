// Tests of symlog.ts.

import assert from "node:assert/strict";
import { test } from "node:test";
import { along, axisOf, ticks } from "./symlog";

test("larger values lie further to the right, over many powers of ten and both signs", () => {
  const values = [-1e6, -3, -1e-8, 0, 1e-8, 1e-3, 2, 1e6];
  const axis = axisOf(values);
  const places = values.map((value) => along(axis, value));
  assert.deepEqual(places, [...places].sort((a, b) => a - b));
  assert.equal(places[0], 0);
  assert.equal(places.at(-1), 1);
});

test("what is beyond the axis, or infinite, is at its end", () => {
  const axis = axisOf([1, 100]);
  assert.equal(along(axis, Infinity), 1);
  assert.equal(along(axis, -Infinity), 0);
  assert.equal(along(axis, 1e9), 1);
});

test("zeros, NaN and nothing at all have an axis as well", () => {
  for (const values of [[], [0, 0], [NaN, Infinity]]) {
    const axis = axisOf(values);
    assert.equal(along(axis, 0), 0.5);
    assert.ok(ticks(axis, 0.1).includes(0));
  }
});

test("ticks are powers of ten on the axis, with room between them", () => {
  const axis = axisOf([-0.5, 1e-4, 3e-3, 2, 900]);
  const found = ticks(axis, 0.08);
  assert.ok(found.length >= 4);
  for (const tick of found) {
    assert.ok(tick === 0 || Number.isInteger(Math.round(Math.log10(Math.abs(tick)) * 1e9) / 1e9));
    assert.ok(tick >= axis.low && tick <= axis.high);
  }
  const places = found.map((tick) => along(axis, tick));
  for (let i = 1; i < places.length; i++) assert.ok(places[i] - places[i - 1] >= 0.08);
});

test("values of one size have a linear axis with round ticks, and the reader can choose otherwise", () => {
  const axis = axisOf([-0.5, 0.1, 0.4, 1.5]);
  assert.equal(along(axis, 0.5), 0.5);
  assert.deepEqual(ticks(axis, 0.2), [-0.5, 0, 0.5, 1, 1.5]);
  assert.ok(axisOf([1, 2, 3], true).knee < Infinity && axisOf([1e-9, 1, 1e9], false).knee === Infinity);
});

test("one exploded tensor leaves the axis to the others", () => {
  const axis = axisOf([...Array.from({ length: 40 }, (_, i) => Math.sin(i)), 6.7e23]);
  assert.ok(axis.high <= 1 && axis.knee === Infinity);
  assert.equal(along(axis, 6.7e23), 1);
});
