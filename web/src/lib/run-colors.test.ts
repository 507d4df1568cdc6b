// Tests of run-colors.ts.

import assert from "node:assert/strict";
import { test } from "node:test";
import { letterOf, N_COLORS, runLooks } from "./run-colors";

const names = Array.from({ length: 36 }, (_, i) => `sweep/lr-${i}`);

test("the color of a run follows from its name, whatever else is in the folder", () => {
  const [alone] = runLooks(["base"]);
  for (const other of names) assert.equal(runLooks(["base", other])[0].color, alone.color);
  const distinct = new Set(names.map((name) => runLooks([name])[0].color));
  assert.ok(distinct.size > N_COLORS / 2, "names spread over the colors");
});

test("no two of 36 runs on the page share a color, and runs that are added or hidden at the end change none", () => {
  const all = runLooks(names);
  assert.equal(new Set(all.map(({ color }) => color)).size, names.length);
  assert.deepEqual(runLooks(names.slice(0, 7)), all.slice(0, 7));
  assert.ok(all.slice(0, N_COLORS).every(({ color }) => /^var\(--run-\d+\)$/.test(color)), "the first twelve have plain colors");
});

test("letters are those of the places", () => {
  assert.deepEqual(runLooks(["x", "y", "z"]).map(({ letter }) => letter), ["A", "B", "C"]);
  assert.deepEqual([letterOf(25), letterOf(26), letterOf(53)], ["Z", "A2", "B3"]);
  assert.equal(new Set(runLooks(Array(80).fill("same")).map(({ letter }) => letter)).size, 80);
});
