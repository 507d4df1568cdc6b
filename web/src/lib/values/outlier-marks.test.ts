// Tests of outlier-marks.ts.

import assert from "node:assert/strict";
import { test } from "node:test";
import { outlierMarks } from "./outlier-marks";
import type { Anomaly, NodeValues } from "./node-colors";

const chain = { parent: [0, 1, 2, 3, 4], child: [1, 2, 3, 4, 5] };
const none = Array.from({ length: 6 }, () => NaN);

function nodeValues(values: number[], odd: number[] = [], isChange = false): NodeValues {
  const anomalies = values.map((_, node): Anomaly => (odd.includes(node) ? "nonfinite" : ""));
  return { title: "", isChange, values: Float64Array.from(values), anomalies, counts: new Float64Array(values.length) };
}

test("NaN begins at the first of a chain, and in gradients at the last", () => {
  const broken = nodeValues([1, 1, NaN, NaN, NaN, 1], [2, 3, 4]);
  assert.deepEqual([...outlierMarks(broken, chain, none, false)], [[2, { text: "NaN starts here", about: "none of its parents hold NaN or Inf", how: "broken" }]]);
  assert.deepEqual([...outlierMarks(broken, chain, none, true)].map(([node, { about }]) => [node, about]), [[4, "none of its children hold NaN or Inf"]]);
});

test("where NaN begins everywhere, nowhere is marked", () => {
  const apart = { parent: [], child: [] };
  assert.equal(outlierMarks(nodeValues([NaN, NaN, NaN, NaN, NaN, NaN], [0, 1, 2, 3, 4, 5]), apart, none, false).size, 0);
});

test("what has a large z-score is marked with it, and said to be above or below; numbers alone mark nothing", () => {
  const values = nodeValues([1, 1.1, 0.9, 1.2, 1, 1e-6]);
  const marks = outlierMarks(values, chain, [0.3, 4.9, -1, NaN, 5, -6.24], false);
  assert.deepEqual([...marks].map(([node, { text, how }]) => [node, text, how]), [[5, "z −6.2 vs. step", "below"], [4, "z 5 vs. step", "above"]]);
  assert.match(marks.get(5)!.about, /far below the other tensors of its role/);
  assert.equal(outlierMarks(values, chain, none, false).size, 0);
});

test("of changes, a hundredfold is marked", () => {
  const changes = [0, 1, -1, 2, 7, -8];
  const marks = outlierMarks(nodeValues(changes, [], true), chain, changes, false);
  assert.deepEqual([...marks].map(([node, { text }]) => [node, text]), [[5, "vanished"], [4, "exploded"]]);
  assert.equal(outlierMarks(nodeValues([8, 9, 8, 9, 8, 9], [], true), chain, [8, 9, 8, 9, 8, 9], false).size, 0, "then all did");
});
