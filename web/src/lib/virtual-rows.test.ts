// Tests of virtual-rows.ts.

import assert from "node:assert/strict";
import { test } from "node:test";
import { heightOf, sortRows, rowAfter, scrollTo, toTsv, upTo, windowAt } from "./virtual-rows";

test("every row in view is drawn, at its place, however far one has scrolled", () => {
  const [n, height, rowHeight] = [100_000, 600, 26];
  for (const scrolled of [0, 13, 5_000, 1_234_567, heightOf(n, rowHeight) - height]) {
    const { first, end, top } = windowAt(scrolled, height, rowHeight, n);
    assert.equal(top, first * rowHeight);
    assert.ok(first * rowHeight <= scrolled && end * rowHeight >= Math.min(scrolled + height, n * rowHeight));
    assert.ok(end - first < 60, "only a screenful is drawn");
  }
});

test("a table of ten million rows has an end that can be reached", () => {
  const [n, height, rowHeight] = [10_000_000, 500, 25];
  const last = heightOf(n, rowHeight) - height;
  assert.ok(last < 10_000_000);
  const { first, end, top } = windowAt(last, height, rowHeight, n);
  assert.equal(end, n);
  // The last row ends where the element ends.
  assert.ok(Math.abs(top + (end - first) * rowHeight - heightOf(n, rowHeight)) < 1e-6 * n);
  for (const row of [0, 1_234_567, n - 1]) {
    const at = scrollTo(row, last / 2, height, rowHeight, n);
    const seen = windowAt(at, height, rowHeight, n);
    assert.ok(seen.first <= row && row < seen.end, `${row} in ${seen.first}–${seen.end}`);
  }
});

test("few rows, no rows and no height are drawn too", () => {
  assert.deepEqual(windowAt(0, 600, 26, 3), { first: 0, end: 3, top: 0 });
  assert.deepEqual(windowAt(100, 600, 26, 0), { first: 0, end: 0, top: 0 });
  assert.equal(windowAt(0, 0, 26, 100).first, 0);
});

test("what is in view stays where it is, anything else is brought to the nearer edge", () => {
  assert.equal(scrollTo(5, 40, 300, 20, 1000), 40);
  assert.equal(scrollTo(0, 40, 300, 20, 1000), 0);
  assert.equal(scrollTo(100, 40, 300, 20, 1000), 101 * 20 - 300);
});

test("keys walk, and stop at both ends", () => {
  assert.equal(rowAfter("ArrowDown", 0, 10, 5), 1);
  assert.equal(rowAfter("ArrowUp", 0, 10, 5), 0);
  assert.equal(rowAfter("PageDown", 3, 10, 5), 7);
  assert.equal(rowAfter("End", 3, 10, 5), 9);
  assert.equal(rowAfter("Home", 3, 10, 5), 0);
  assert.equal(rowAfter("ArrowDown", -1, 10, 5), 0);
  assert.equal(rowAfter("x", 3, 10, 5), null);
  assert.equal(rowAfter("End", 0, 0, 5), null);
});

test("rows without a number stand last, up or down, and equal ones keep their places", () => {
  const values = [3, NaN, 1, 3, -Infinity, NaN, Infinity];
  const by = (row: number): number => values[row];
  assert.deepEqual([...sortRows(upTo(7), by, false)], [4, 2, 0, 3, 6, 1, 5]);
  assert.deepEqual([...sortRows(upTo(7), by, true)], [6, 0, 3, 2, 4, 1, 5]);
});

test("names are sorted as people count: h.2 before h.10", () => {
  const names = ["h.10", "h.2", "a"];
  assert.deepEqual([...sortRows(upTo(3), (row) => names[row], false)], [2, 1, 0]);
});

test("numbers that single precision cannot tell apart are told apart", () => {
  const values = [1 + 2e-12, 1, 1 + 1e-12, NaN];
  assert.deepEqual([...sortRows(upTo(4), (row) => values[row], false)], [1, 2, 0, 3]);
  const tiny = [-1e-45, 1e-45, 0, -0, -3e38, 3e38].map(Math.fround);
  assert.deepEqual([...sortRows(upTo(6), (row) => tiny[row], false)], [4, 0, 2, 3, 1, 5]);
});

test("sorting agrees with the sort of the language on random numbers", () => {
  const values = Array.from({ length: 2000 }, (_, i) => ((i * 7919) % 1009) - 500);
  const rows = upTo(values.length);
  const expected = [...rows].sort((a, b) => values[b] - values[a] || a - b);
  assert.deepEqual([...sortRows(rows, (row) => values[row], true)], expected);
});

test("copied cells cannot break out of their place", () => {
  assert.equal(toTsv(["a", "b"], [0, 1], (row, column) => `${row}\t${column}\n`), "a\tb\n0 0 \t0 1 \n1 0 \t1 1 ");
});
