import assert from "node:assert/strict";
import { test } from "node:test";
import { striking } from "./striking";
import type { Oddity, Tints } from "./tinting";

const chain = { parent: [0, 1, 2, 3, 4], child: [1, 2, 3, 4, 5] };
const alike = Array.from({ length: 6 }, () => "value");

function tints(values: number[], odd: number[] = [], isChange = false): Tints {
  const oddities = values.map((_, node): Oddity => (odd.includes(node) ? "nonfinite" : ""));
  return { title: "", isChange, values: Float64Array.from(values), oddities, counts: new Float64Array(values.length) };
}

test("NaN begins at the first of a chain, and in gradients at the last", () => {
  const broken = tints([1, 1, NaN, NaN, NaN, 1], [2, 3, 4]);
  assert.deepEqual([...striking(broken, chain, alike, false)], [[2, { text: "NaN begins here", how: "broken" }]]);
  assert.deepEqual([...striking(broken, chain, alike, true).keys()], [4]);
});

test("where NaN begins everywhere, nowhere is marked", () => {
  const none = { parent: [], child: [] };
  assert.equal(striking(tints([NaN, NaN, NaN, NaN, NaN, NaN], [0, 1, 2, 3, 4, 5]), none, alike, false).size, 0);
});

test("what is far from its like is marked, and said to be above or below", () => {
  const marks = striking(tints([1, 1.1, 0.9, 1.2, 1, 1e-6]), chain, alike, false);
  assert.deepEqual([...marks], [[5, { text: "far below its like", how: "below" }]]);
  assert.equal(striking(tints([1, 1.1, 0.9, 1.2, 1, 1e-6]), chain, alike.with(5, ""), false).size, 0);
});

test("of changes, a hundredfold is marked", () => {
  const marks = striking(tints([0, 1, -1, 2, 7, -8], [], true), chain, alike, false);
  assert.deepEqual([...marks].map(([node, { text }]) => [node, text]), [[5, "died away"], [4, "exploded"]]);
  assert.equal(striking(tints([8, 9, 8, 9, 8, 9], [], true), chain, alike, false).size, 0, "then all did");
});
