// Tests of pixel-values.ts.

import assert from "node:assert/strict";
import { test } from "node:test";

import { exactReader } from "./pixel-values";
import type { Image } from "../wire";

/** A picture of so many tiles of rows and columns, as the server describes it. */
function picture(tiles: number, rows: number, columns: number, axes: Image["axes"], first: number[], across = 1): Image {
  const down = Math.ceil(tiles / across);
  return {
    kind: tiles > 1 ? "tiles" : "matrix", rows: down * rows, columns: across * columns, tile_rows: rows, tile_columns: columns, n_tiles: tiles,
    low: 0, high: 1, data: "", caption: "", axes, first, tile_word: "", n_tiles_total: tiles, ranges: [],
  };
}

const counted = (n: number): Float32Array => Float32Array.from({ length: n }, (_, i) => i);

test("a matrix is read by its rows and columns", () => {
  const read = exactReader(picture(1, 3, 4, [-1, 0, 1], [0, 0]), [3, 4], counted(12), null)!;
  assert.deepEqual(read(2, 1), { index: [2, 1], value: 9 });
});

test("of a chosen sample only its own values are needed, and the place is that in the whole", () => {
  const read = exactReader(picture(1, 4, 5, [-1, 1, 2], [0, 0, 0]), [3, 4, 5], counted(20), 1)!;
  assert.deepEqual(read(3, 2), { index: [1, 3, 2], value: 17 });
  assert.equal(exactReader(picture(1, 4, 5, [-1, 1, 2], [0, 0, 0]), [3, 4, 5], counted(60), 1), null);
});

test("channels are read from their tiles, also where they stand last", () => {
  const read = exactReader(picture(3, 4, 4, [3, 1, 2], [0, 0, 0, 0], 2), [2, 4, 4, 3], counted(96), null)!;
  assert.deepEqual(read(1, 6), { index: [0, 1, 2, 1], value: (4 + 2) * 3 + 1 });
  assert.equal(read(5, 6), null, "behind the last tile there is nothing");
});

test("one head alone is read where it is", () => {
  const read = exactReader(picture(1, 4, 4, [1, 2, 3], [0, 2, 0, 0]), [2, 3, 4, 4], counted(96), null)!;
  assert.deepEqual(read(1, 3), { index: [0, 2, 1, 3], value: 2 * 16 + 4 + 3 });
});

test("a vector is read along its line, and what is not finite is told as it is", () => {
  const read = exactReader(picture(1, 1, 4, [-1, -1, 0], [0]), [4], Float32Array.of(1, NaN, 3, Infinity), null)!;
  assert.deepEqual([read(0, 1)!.value, read(0, 3)!.value], [NaN, Infinity]);
});

test("means of blocks are not mistaken for elements", () => {
  assert.equal(exactReader(picture(1, 4, 4, [-1, 0, 1], [0, 0]), [8, 8], counted(64), null), null);
  assert.equal(exactReader(picture(1, 8, 8, [-1, 0, 1], [0, 0]), [8, 8], counted(63), null), null);
});
