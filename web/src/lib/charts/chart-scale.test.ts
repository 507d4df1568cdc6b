// Tests of chart-scale.ts.

import assert from "node:assert/strict";
import { test } from "node:test";
import { chartScale, type ScaledLine } from "./chart-scale";

const line = (key: string, from: number, to: number, n = 50): ScaledLine =>
  ({ key, y: Float32Array.from({ length: n }, (_, i) => from * (to / from) ** (i / (n - 1))) });
const names = (set: ReadonlySet<string>): string[] => [...set].sort();

test("values that span decades are logarithmic, others are not, and the user decides otherwise", () => {
  assert.equal(chartScale([line("a", 3, 0.4)]).isLog, false);
  assert.equal(chartScale([line("a", 5, 0.004)]).isLog, true);
  assert.equal(chartScale([line("a", 5, 0.004)], { isLog: false, isWhole: false }).isLog, false);
  assert.equal(chartScale([line("a", 3, 0.4)], { isLog: true, isWhole: false }).isLog, true);
  assert.equal(chartScale([{ key: "a", y: [0, 0, NaN, Infinity] }]).isLog, false);
  assert.equal(chartScale([]).isLog, false);
});

test("one tiny value does not make an axis logarithmic, and values around zero only do so when some explode", () => {
  assert.equal(chartScale([{ key: "a", y: [1e-9, ...Array(99).fill(2)] }]).isLog, false);
  const noise = Array.from({ length: 200 }, (_, i) => Math.sin(i));
  assert.equal(chartScale([{ key: "a", y: noise }]).isLog, false);
  assert.equal(chartScale([{ key: "a", y: [...noise, -1e6] }]).isLog, true);
});

test("one exploding run of three leaves the axis to the others, which then need no logarithm", () => {
  const { isLog, above, below } = chartScale([line("a", 3, 0.4), line("b", 3, 0.5), line("c", 3, 1e30)]);
  assert.deepEqual([isLog, names(above), names(below)], [false, ["c"], []]);
  const whole = chartScale([line("a", 3, 0.4), line("b", 3, 0.5), line("c", 3, 1e30)], { isLog: null, isWhole: true });
  assert.deepEqual([whole.isLog, whole.above.size], [true, 0]);
});

test("of two runs the one that leaves the values of both is cut; runs of different size are both shown", () => {
  assert.deepEqual(names(chartScale([line("a", 3, 0.4), line("b", 3, 1e9)]).above), ["b"]);
  const apart = chartScale([line("a", 3, 0.4), line("b", 3e5, 4e4)]);
  assert.deepEqual([apart.isLog, apart.above.size], [true, 0]);
});

test("a dead run of three is cut below on a logarithmic axis, and not on a linear one", () => {
  const lines = [line("a", 1, 0.5), line("b", 1, 0.4), line("c", 1e-12, 1e-13)];
  assert.deepEqual(names(chartScale(lines).below), ["c"]);
  assert.equal(chartScale(lines, { isLog: false, isWhole: false }).below.size, 0);
});

test("if many runs explode, none is the odd one", () => {
  const lines = [line("a", 1, 0.5), line("b", 1, 1e9), line("c", 1, 1e8), line("d", 1, 5e8)];
  const { isLog, above } = chartScale(lines);
  assert.deepEqual([isLog, above.size], [true, 0]);
});

test("kinds of one run are judged together", () => {
  const lines = [{ ...line("a train", 1, 0.5), run: "a" }, { ...line("a eval", 1, 1e9), run: "a" }, { ...line("b", 1, 0.3), run: "b" }];
  assert.deepEqual(names(chartScale(lines).above), ["a eval", "a train"]);
});
