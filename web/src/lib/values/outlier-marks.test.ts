// Tests of outlier-marks.ts.

import assert from "node:assert/strict";
import { test } from "node:test";
import { MOST_MARKS, outlierMarks, trainingOf, type Standing } from "./outlier-marks";
import type { Anomaly, NodeValues } from "./node-colors";
import type { TrainingMark, TrainingState, Unusual } from "../wire";

const chain = { parent: [0, 1, 2, 3, 4], child: [1, 2, 3, 4, 5] };
const rows = [10, 11, 12, 13, 14, 15];

function nodeValues(values: number[], odd: Readonly<Record<number, Anomaly>> = {}, isChange = false): NodeValues {
  const anomalies = values.map((_, node): Anomaly => odd[node] ?? "");
  return { title: "", isChange, values: Float64Array.from(values), anomalies, counts: new Float64Array(values.length) };
}

const standing = (given: Partial<Standing>): Standing =>
  ({ nodeValues: nodeValues([1, 1, 1, 1, 1, 1]), links: chain, rows, statistic: "std", unusual: [], since: null, isBackward: false, ...given });
const unusual = (row: number, statistic: string, z: number): Unusual =>
  ({ row, statistic, z_past: z, z_peers: null, ratio: 41, is_above: z > 0, text: "×41 of usual", about: "since when" });

test("NaN starts at the first of a chain, and in gradients at the last; Inf is called Inf", () => {
  const broken = nodeValues([1, 1, NaN, NaN, NaN, 1], { 2: "inf", 3: "nan", 4: "nan" });
  assert.deepEqual([...outlierMarks(standing({ nodeValues: broken })).marks], [[2, { text: "Inf starts here", about: "none of its parents hold NaN or Inf", how: "broken" }]]);
  const back = outlierMarks(standing({ nodeValues: broken, isBackward: true })).marks;
  assert.deepEqual([...back].map(([node, { text, about }]) => [node, text, about]), [[4, "NaN starts here", "none of its children hold NaN or Inf"]]);
});

test("a mask of −Inf starts nothing, and NaN after it starts where it is", () => {
  assert.equal(outlierMarks(standing({ nodeValues: nodeValues([1, 1, 1, 1, 1, 1], { 0: "mask", 1: "mask" }) })).marks.size, 0);
  const after = outlierMarks(standing({ nodeValues: nodeValues([1, 1, NaN, 1, 1, 1], { 1: "mask", 2: "nan" }) })).marks;
  assert.deepEqual([...after.keys()], [2]);
});

test("where NaN starts everywhere, nowhere is marked", () => {
  const all = nodeValues(Array<number>(6).fill(NaN), { 0: "nan", 1: "nan", 2: "nan", 3: "nan", 4: "nan", 5: "nan" });
  assert.equal(outlierMarks(standing({ nodeValues: all, links: { parent: [], child: [] } })).marks.size, 0);
});

test("what the server calls unusual is marked with its words, for the statistic that is shown", () => {
  const { marks, nMore } = outlierMarks(standing({ unusual: [unusual(15, "std", -9), unusual(14, "mean", 8), unusual(11, "std", 6), unusual(99, "std", 6)] }));
  assert.deepEqual([...marks].map(([node, { text, how }]) => [node, text, how]), [[5, "×41 of usual", "below"], [1, "×41 of usual", "above"]]);
  assert.equal(nMore, 0);
  const many = Array.from({ length: 20 }, (_, row) => unusual(row, "std", 9));
  const most = outlierMarks(standing({ nodeValues: nodeValues(Array<number>(20).fill(1)), rows: many.map(({ row }) => row), unusual: many }));
  assert.deepEqual([most.marks.size, most.nMore], [MOST_MARKS, 8]);
});

test("of changes, a hundredfold is marked with since when; buffers and whole numbers are not", () => {
  const changes = nodeValues([0, 1, -1, 9, 7, -8], { 3: "apart" }, true);
  const { marks } = outlierMarks(standing({ nodeValues: changes, since: 1200, unusual: [unusual(10, "std", 9)] }));
  assert.deepEqual([...marks].map(([node, { text }]) => [node, text]), [[5, "×0.00391 since step 1,200"], [4, "×128 since step 1,200"]]);
});

test("a module says what all of it lacks, and counts what a part of it does", () => {
  const mark = (state: TrainingState, since: number): TrainingMark => ({ row: 0, state, since, is_first: false, text: `${state} since step ${since}`, about: "why" });
  const marks = new Map([[0, mark("no gradient", 3)], [1, mark("no gradient", 5)], [4, mark("frozen", 0)]]);
  const of = (...nodes: number[]) => trainingOf(marks, nodes, (node) => node !== 3);
  assert.equal(of(0)!.text, "no gradient since step 3");
  assert.equal(of(0, 1, 3)!.text, "no gradient since step 5", "inputs and buffers have none by nature");
  assert.equal(of(0, 1, 2)!.text, "2 of 3: no gradient");
  assert.equal(of(4)!.state, "frozen");
  assert.equal(of(4, 2), null, "a part may be frozen");
  assert.equal(of(2), null);
});
