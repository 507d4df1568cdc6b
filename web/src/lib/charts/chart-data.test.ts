// Tests of chart-data.ts.

import assert from "node:assert/strict";
import { test } from "node:test";

import { isolatedPoints, xRange, readings, chartData, nearestX, stretches, type Line } from "./chart-data";

const line = (key: string, x: number[], y: number[]): Line => ({ key, name: key, color: "red", x, y });
const linear = { isLog: false, above: new Set<string>(), below: new Set<string>() };
const plain = { zoom: null, width: 300, scale: linear, smoothing: 0 };

test("lines with steps of their own share one axis, and a missing step is no gap", () => {
  const sheet = chartData([line("a", [0, 10, 20], [1, 2, 3]), line("b", [5, 10], [7, NaN])], plain);
  assert.deepEqual(sheet.xs, [0, 5, 10, 20]);
  assert.deepEqual(sheet.drawn, [[1, undefined, 2, 3], [undefined, 7, null, undefined]]);
  assert.deepEqual([sheet.low, sheet.high, sheet.broken], [0, 20, [10]]);
});

test("smoothing draws another line and leaves the raw one", () => {
  const { raw, drawn } = chartData([line("a", [0, 1, 2], [0, 10, 0])], { ...plain, smoothing: 0.9 });
  assert.deepEqual(raw[0], [0, 10, 0]);
  assert.ok(Math.abs(drawn[0][1]! - 100 / 19) < 1e-9, String(drawn[0][1]));
});

test("the y axis is that of the part that is looked at", () => {
  const long = line("a", [0, 1, 2, 3, 4], [1000, 1, 2, 3, 1000]);
  const { y, low, high } = chartData([long], { ...plain, zoom: [1, 3] });
  assert.ok(y.high < 4 && low === 1 && high === 3);
});

test("ten lines of a hundred thousand points become a few thousand columns", () => {
  const x = Float64Array.from({ length: 100_000 }, (_, i) => i);
  const lines = Array.from({ length: 10 }, (_, k) => ({ ...line(`${k}`, [], []), x, y: x.map((i) => Math.sin(i * (k + 1))) }));
  assert.ok(chartData(lines, plain).xs.length <= 10 * 4 * 301);
});

test("of no points there is an empty sheet", () => {
  assert.ok(chartData([], plain).isEmpty && chartData([line("a", [0, 1], [NaN, NaN])], plain).isEmpty);
  assert.deepEqual(xRange([]), [0, 1]);
  const one = chartData([line("a", [7], [3])], plain);
  assert.ok(one.low < 7 && one.high > 7 && !one.isEmpty);
});

test("points without neighbors are found, whatever other lines do between", () => {
  assert.deepEqual(isolatedPoints([1, null, 2, undefined, null, undefined, 3, undefined, 4]), [0, 2]);
});

test("a reader is told the values of the points themselves", () => {
  const lines = [line("a", [0, 10, 20], [1, 2, 3]), line("b", [9, 100], [5, 6])];
  assert.equal(nearestX(lines, 8), 9);
  assert.deepEqual(readings(lines, 9, 1).map(({ line: one, x, value }) => [one, x, value]), [[0, 10, 2], [1, 9, 5]]);
  assert.deepEqual(readings(lines, 20, 1).map(({ line: one }) => one), [0]);
  assert.equal(nearestX([], 8), null);
});

test("a band belongs to the axis and keeps its extremes when it is thinned", () => {
  const banded: Line = { ...line("a", [0, 1, 2], [1, 2, 3]), band: { low: [-5, 2, 3], high: [1, 9, NaN] } };
  const { y, bands } = chartData([banded, line("b", [0.5], [1])], plain);
  assert.ok(y.low <= -5 && y.high >= 9);
  assert.deepEqual(bands, [{ low: [-5, undefined, 2, 3], high: [1, undefined, 9, null] }, null]);
  assert.deepEqual(stretches(bands[0]!.low, bands[0]!.high), [[0, 2]]);
  const x = Float64Array.from({ length: 50_000 }, (_, i) => i);
  const spike = { low: x.map((i) => (i === 23_456 ? -7 : 0)), high: x.map((i) => (i === 34_567 ? 8 : 0)) };
  const long = chartData([{ ...line("a", [], []), x, y: x.map(() => 0), band: spike }], plain);
  assert.ok(long.bands[0]!.low.includes(-7) && long.bands[0]!.high.includes(8) && long.xs.length < 4000);
});

test("a gap in a band begins another stretch of it", () => {
  assert.deepEqual(stretches([1, undefined, 2, null, 3, 4], [2, undefined, 3, null, 4, null]), [[0, 2], [4]]);
});

test("a reader is told how far the passes lie apart, where they do", () => {
  const banded: Line = { ...line("a", [0, 10], [1, 2]), band: { low: [0, 2], high: [3, 2] } };
  assert.deepEqual(readings([banded], 0, 1).map(({ band }) => band), [[0, 3]]);
  assert.deepEqual(readings([banded], 10, 1).map(({ band }) => band), [null]);
});

test("a run far from the others does not set the axis, and where it leaves is known", () => {
  const lines = [line("a", [0, 1, 2], [1, 2, 3]), line("b", [0, 1, 2], [1, 1e6, 1e9]), line("c", [0, 1, 2], [1, -1e6, 2])];
  const { y, left } = chartData(lines, { ...plain, scale: { ...linear, above: new Set(["b"]), below: new Set(["c"]) } });
  assert.ok(y.high < 4 && y.low >= 0);
  assert.deepEqual(left, [{ line: 1, x: 1, isAbove: true, farthest: 1e9 }, { line: 2, x: 1, isAbove: false, farthest: -1e6 }]);
  const zoomed = chartData(lines.slice(1, 2), { ...plain, zoom: [1, 2], scale: { ...linear, above: new Set(["b"]) } });
  assert.ok(zoomed.y.high >= 1e9, "alone in view, it sets the axis");
});
