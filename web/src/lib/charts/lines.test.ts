// Tests of lines.ts.

import assert from "node:assert/strict";
import { test } from "node:test";

import { exampleRun } from "../../viewer/example";
import { allKinds, linesOf, stepAt, valueAtStep, xOf, type RecordedCurve } from "./lines";

const run = exampleRun("a"); // steps 0, 10…; every third is long, every tenth rare
const recorded: RecordedCurve = {
  steps: Float64Array.from(run.steps), values: Float32Array.from(run.steps, (step) => step / 10), seconds: Float32Array.from(run.steps, (step) => step * 2),
};
const plain = { color: "red", isOneOfMany: false, kind: null, isByKind: true, xName: "step" as const };

test("each kind of step has a line of its own, and together they have all points", () => {
  const lines = linesOf(run, recorded, plain);
  assert.deepEqual(lines.map(({ name }) => name), ["short", "long", "rare"]);
  assert.deepEqual(lines.flatMap(({ steps }) => [...steps]).sort((a, b) => a - b), run.steps);
  assert.equal(new Set(lines.map(({ dash }) => String(dash))).size, 3);
});

test("of one kind there is one line, with the name of its run where there are several", () => {
  const [line, ...others] = linesOf(run, recorded, { ...plain, kind: "rare", isOneOfMany: true });
  assert.deepEqual([line.name, [...line.steps].slice(0, 2), others.length], ["demo/a", [90, 190], 0]);
});

test("seconds go on where a session was resumed", () => {
  const seconds = Float32Array.from([0, 5, 9, 1, 4]);
  const some = { steps: Float64Array.of(0, 10, 20, 30, 40), values: new Float32Array(5), seconds };
  const [line] = linesOf(run, some, { ...plain, isByKind: false, xName: "seconds" });
  assert.deepEqual([...line.x], [0, 5, 9, 9, 12]);
});

test("a place on the axis leads to its step, and back", () => {
  const lines = linesOf(run, recorded, { ...plain, xName: "seconds" });
  assert.equal(stepAt(lines, 203), 100);
  assert.equal(xOf(lines, 100), 200);
  assert.equal(stepAt([], 3), null);
});

test("between two points the value is that of the one before", () => {
  const [line] = linesOf(run, recorded, { ...plain, isByKind: false });
  assert.deepEqual([valueAtStep(line, 20), valueAtStep(line, 28), valueAtStep(line, -5)], [2, 2, 0]);
});

test("a kind is dashed alike in runs that met it at another time", () => {
  const kinds = allKinds([{ kinds: ["b", "a"] }, { kinds: ["a", "c"] }]);
  assert.deepEqual(kinds, ["b", "a", "c"]);
  const first = linesOf(run, recorded, { ...plain, isByKind: true, kinds: [...run.kinds].reverse() });
  const second = linesOf(run, recorded, { ...plain, isByKind: true, kinds: run.kinds });
  assert.deepEqual(first.map(({ dash }) => dash), second.map(({ dash }) => dash).reverse());
});
