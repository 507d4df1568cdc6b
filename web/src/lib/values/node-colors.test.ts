// Tests of node-colors.ts.

import assert from "node:assert/strict";
import { test } from "node:test";
import { position } from "../colors";
import { DIVERGING, RISING, RISING_DARK } from "../colors";
import { anomalyAt, beyond, CHANGES, foremost, limitsIn, limitsText, nodeValues, positionOn, rowsAt, scaleBetween, statisticAt, type Anomaly, type Matrix } from "./node-colors";
import { HOLDS_INF, HOLDS_MASK, HOLDS_MISSING, HOLDS_NAN, HOLDS_NUMBERS, HOLDS_ZEROS, LEFT_OUT, type NodeRows, type RowView } from "../wire";

const STATISTICS = ["mean", "abs_mean", "nonfinite"];
const row = (number: number, given: Partial<RowView>): RowView =>
  ({ row: number, site: "a", of: "value", iteration: 0, pass_: 1, n_passes: 1, role: "value", node: "", part: "", names: [], title: "", ...given });
const node = (...rows: number[]): NodeRows => ({ name: "a", node: "a", iteration: 0, pass_: 1, role: "value", sites: [], rows, parts: [] });
const matrix = (...lines: number[][]): Matrix => ({ n_rows: lines.length, n_columns: 3, values: Float32Array.from(lines.flat()) });

test("a node shows the tensor that is wanted, and only that", () => {
  const rows = [row(0, {}), row(1, { of: "grad" }), row(2, { of: "grad", iteration: 2 }), row(3, { of: "grad", iteration: 1 }), row(4, { part: "b" })];
  const at = (wanted: Parameters<typeof rowsAt>[2], ...own: number[]): number => rowsAt([node(...own)], rows, wanted)[0];
  assert.equal(at({ of: "grad", iteration: 2, pass: 0, part: "" }, 0, 1, 2, 3), 2);
  assert.equal(at({ of: "grad", iteration: 3, pass: 0, part: "" }, 0, 1), 1, "parameters have no iterations");
  assert.equal(at({ of: "grad", iteration: 3, pass: 0, part: "" }, 0, 2, 3), -1, "another iteration would be another tensor");
  assert.equal(rowsAt([{ ...node(2), iteration: 2 }], rows, { of: "grad", iteration: 1, pass: 0, part: "" })[0], 2, "a node of one iteration has its own");
  const passes = [row(0, { pass_: 1 }), row(1, { pass_: 2 })];
  const wanted = { of: "value", iteration: 0, part: "" };
  assert.equal(rowsAt([{ ...node(0, 1), pass_: 0 }], passes, { ...wanted, pass: 2 })[0], 1, "a node of several passes shows the one that is picked");
  assert.equal(rowsAt([{ ...node(0, 1), pass_: 0 }], passes, { ...wanted, pass: 0 })[0], 0);
  assert.equal(at({ of: "update", iteration: 0, pass: 0, part: "" }, 0, 1), -1);
  assert.equal(at({ of: "value", iteration: 0, pass: 0, part: "b" }, 0, 4), 4);
  assert.equal(at({ of: "value", iteration: 0, pass: 0, part: "gone" }, 0, 4), 0);
});

test("what the server says a tensor holds decides what a color cannot show", () => {
  const codes = [HOLDS_NUMBERS, HOLDS_ZEROS, HOLDS_NAN, HOLDS_INF, HOLDS_MASK + LEFT_OUT, HOLDS_NUMBERS + LEFT_OUT, HOLDS_MISSING, HOLDS_NAN + LEFT_OUT];
  const given: Matrix = { ...matrix(...codes.map(() => [0, 0, 0])), contents: Uint8Array.from(codes) };
  assert.deepEqual([...codes.keys(), 8, -1].map((number) => anomalyAt(given, number)), ["", "zero", "nan", "inf", "mask", "apart", "none", "nan", "none", "none"]);
  assert.ok(Number.isNaN(statisticAt(given, 9, 0)), "a matrix from before a row was added is shorter");
});

test("a change is counted in doublings, and from nothing to something there is none", () => {
  const asked = { statistics: STATISTICS, statistic: "abs_mean", of: "grad", matrix: matrix([0, 8, 0], [0, 0, 0], [0, 1, 0], [0, 0, 0]) };
  const since = { step: 5, matrix: matrix([0, 2, 0], [0, 0, 0], [0, 0, 0], [0, 4, 0]) };
  const { values, title } = nodeValues(Int32Array.of(0, 1, 2, 3), { ...asked, since });
  assert.deepEqual([...values], [2, 0, NaN, -Infinity]);
  assert.equal(title, "abs mean of the gradient, change since step 5");
});

test("amounts rise from nothing, and turn round on dark ground; signed numbers and changes have a middle", () => {
  const sizes = scaleBetween({ low: 1e-9, high: 1e3, scale: "log", knee: 0 }, false);
  assert.equal(position(sizes, 1e-3), 0.5);
  assert.equal(positionOn(sizes, 0), null, "zero has no place on it");
  assert.deepEqual([sizes.ramp, scaleBetween(sizes as Parameters<typeof scaleBetween>[0], true).ramp], [RISING, RISING_DARK]);
  const signed = scaleBetween({ low: -100, high: 100, scale: "symlog", knee: 1e-3 }, true);
  assert.deepEqual([signed.ramp, position(signed, 0), position(signed, -100)], [DIVERGING, 0.5, 0]);
  assert.ok(position(signed, 1e-3) > 0.51, "small numbers are told from zero");
  assert.deepEqual([CHANGES.ramp, position(CHANGES, 0)], [DIVERGING, 0.5]);
});

test("limits go into the address with the selection that they belong to, and come back for that alone", () => {
  const limits = { low: 0.00123456, high: 41, scale: "log" as const, knee: 0 };
  const text = limitsText(["run", "std", "grad/a", "train"], limits);
  assert.deepEqual(limitsIn(text, ["run", "std", "grad/a", "train"]), { ...limits, low: 0.0012346 });
  assert.equal(limitsIn(text, ["other", "std", "grad/a", "train"]), null);
  for (const bad of ["", "run|std|grad/a|train", text.replace("41", "x"), text.replace("log", "cube"), text.replace("41", "1e-9")]) assert.equal(limitsIn(bad, ["run", "std", "grad/a", "train"]), null, bad);
});

test("what is beyond the limits is counted, without what has no color", () => {
  const anomalies: Anomaly[] = ["", "", "", "apart", "nan"];
  const given = { title: "", isChange: false, values: Float64Array.of(0.5, 2, 99, 1e9, NaN), anomalies, counts: new Float64Array() };
  assert.deepEqual(beyond(given, scaleBetween({ low: 1, high: 10, scale: "log", knee: 0 }, false)), { below: 1, above: 1 });
});

test("a folded module shows its largest number, and a NaN anywhere in it; counters and buffers do not count", () => {
  const given = { title: "", isChange: false, values: Float64Array.of(1, -5, NaN, 0, 1e6), anomalies: ["", "", "nan", "zero", "apart"] as const, counts: new Float64Array() };
  assert.deepEqual(foremost(given, [0, 1]), { node: 1, anomaly: "" });
  assert.deepEqual(foremost(given, [0, 2]), { node: 0, anomaly: "nan" });
  assert.deepEqual(foremost(given, [3]), { node: 3, anomaly: "zero" });
  assert.deepEqual(foremost(given, [0, 3, 4]), { node: 0, anomaly: "" });
  assert.deepEqual(foremost(given, [4]), { node: 4, anomaly: "apart" });
  assert.deepEqual(foremost(given, []), { node: -1, anomaly: "none" });
});
