// Tests of node-colors.ts.

import assert from "node:assert/strict";
import { test } from "node:test";
import { position } from "../colors";
import { medianRatio, foremost, joinScales, anomalyAt, positionOn, rowsAt, scaleFor, statisticAt, nodeValues, type Matrix, type NodeValues } from "./node-colors";
import type { NodeRows, RowView } from "../wire";

const STATISTICS = ["mean", "abs_mean", "nonfinite"];
const row = (number: number, given: Partial<RowView>): RowView =>
  ({ row: number, site: "a", of: "value", iteration: 0, pass_: 1, n_passes: 1, role: "value", node: "", part: "", names: [], ...given });
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

test("NaN, zeros and gaps are told apart from small numbers", () => {
  const given = matrix([0, 1e-30, 0], [0, 0, 0], [NaN, 3, 1], [NaN, NaN, NaN]);
  assert.deepEqual([0, 1, 2, 3, 4, -1].map((number) => anomalyAt(given, STATISTICS, number)), ["", "zero", "nonfinite", "none", "none", "none"]);
  assert.ok(Number.isNaN(statisticAt(given, 9, 0)), "a matrix from before a row was added is shorter");
});

test("a change is counted in doublings, and from nothing to something there is none", () => {
  const asked = { statistics: STATISTICS, statistic: "abs_mean", of: "grad", matrix: matrix([0, 8, 0], [0, 0, 0], [0, 1, 0], [0, 0, 0]) };
  const since = { step: 5, matrix: matrix([0, 2, 0], [0, 0, 0], [0, 0, 0], [0, 4, 0]) };
  const { values, title } = nodeValues(Int32Array.of(0, 1, 2, 3), { ...asked, since });
  assert.deepEqual([...values], [2, 0, NaN, -Infinity]);
  assert.equal(title, "abs mean of the gradient, change since step 5");
});

test("sizes lie on a log scale, signed numbers around zero", () => {
  const of = (statistic: string, ...values: number[]): ReturnType<typeof scaleFor> =>
    scaleFor({ title: "", isChange: false, values: Float64Array.from(values), anomalies: [], counts: new Float64Array() }, statistic);
  const sizes = of("abs_mean", 1e-9, 1e-3, 1e3, 0, NaN)!;
  assert.equal(position(sizes, 1e-3), 0.5);
  assert.equal(positionOn(sizes, 0), null, "zero has no place on it");
  const signed = of("mean", -100, 1e-3, 2)!;
  assert.equal(position(signed, 0), 0.5);
  assert.equal(position(signed, -100), 0);
  assert.ok(position(signed, 1e-3) > 0.51, "small numbers are told from zero");
  assert.equal(of("mean", NaN), null);
});

test("a scale that has grown stays as wide when one goes back", () => {
  const tinted = (...values: number[]) => scaleFor({ title: "", isChange: false, values: Float64Array.from(values), anomalies: [], counts: new Float64Array() }, "norm");
  const [first, later] = [tinted(1, 10), tinted(0.1, 5)];
  const both = joinScales(first, later)!;
  assert.deepEqual([both.low, both.high], [0.1, 10]);
  assert.equal(joinScales(both, first), both);
  assert.equal(joinScales(null, first), first);
});

test("a folded module shows its largest number, and a NaN anywhere in it", () => {
  const given = { title: "", isChange: false, values: Float64Array.of(1, -5, NaN, 0), anomalies: ["", "", "nonfinite", "zero"] as const, counts: new Float64Array() };
  assert.deepEqual(foremost(given, [0, 1]), { node: 1, anomaly: "" });
  assert.deepEqual(foremost(given, [0, 2]), { node: 0, anomaly: "nonfinite" });
  assert.deepEqual(foremost(given, [3]), { node: 3, anomaly: "zero" });
  assert.deepEqual(foremost(given, []), { node: -1, anomaly: "none" });
});

test("how far a step is from usual is told by the median, of what can be compared", () => {
  const of = (...values: number[]): NodeValues => ({ title: "", isChange: false, values: Float64Array.from(values), anomalies: [], counts: new Float64Array() });
  assert.equal(medianRatio(of(1000, 2000, -3000, NaN, 5), of(1, 2, 3, 4, 0)), 1000);
  assert.ok(Number.isNaN(medianRatio(of(NaN, 1), of(1, 0))));
});
