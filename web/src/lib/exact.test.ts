import assert from "node:assert/strict";
import { test } from "node:test";

import { exactReader } from "./exact";
import type { Image } from "./wire";

/** A picture of tiles of some numbers, as the server makes it. */
function picture(tiles: number[][][], across: number, also: Partial<Image> = {}): Image {
  const [rows, columns] = [tiles[0].length, tiles[0][0].length];
  const flat = tiles.flat(2).filter(Number.isFinite);
  const [low, high] = [Math.min(...flat), Math.max(...flat)];
  const down = Math.ceil(tiles.length / across);
  const shades = new Uint8Array(down * rows * across * columns).fill(255);
  tiles.forEach((tile, t) => tile.forEach((line, r) => line.forEach((value, c) => {
    const place = (Math.floor(t / across) * rows + r) * across * columns + (t % across) * columns + c;
    shades[place] = Number.isFinite(value) ? Math.round((254 * (value - low)) / (high - low)) : 255;
  })));
  return {
    kind: tiles.length > 1 ? "tiles" : rows === 1 ? "line" : "matrix", rows: down * rows, columns: across * columns, tile_rows: rows,
    tile_columns: columns, n_tiles: tiles.length, low, high, data: Buffer.from(shades).toString("base64"), caption: "", ...also,
  };
}

/** Numbers without any order. */
const noise = (n: number): Float32Array => Float32Array.from({ length: n }, (_, i) => Math.sin(i * 12.9898) * 43758.5453 % 1);

test("a matrix is read by its rows and columns", () => {
  const values = noise(12);
  const tile = [0, 1, 2].map((r) => [...values.subarray(4 * r, 4 * r + 4)]);
  const read = exactReader(picture([tile], 1), [3, 4], values, null)!;
  assert.deepEqual(read(2, 1), { index: [2, 1], value: values[9] });
});

test("of a chosen sample it is that sample which is read", () => {
  const values = noise(3 * 4 * 5); // (sample, row, column)
  const tile = [0, 1, 2, 3].map((r) => [...values.subarray(20 + 5 * r, 25 + 5 * r)]);
  const read = exactReader(picture([tile], 1), [3, 4, 5], values, 1)!;
  assert.deepEqual(read(3, 2), { index: [1, 3, 2], value: values[37] });
});

test("channels are read from their tiles, also where they stand last", () => {
  const values = noise(2 * 4 * 4 * 3); // (sample, row, column, channel)
  const tiles = [0, 1, 2].map((k) => [0, 1, 2, 3].map((r) => [0, 1, 2, 3].map((c) => values[(r * 4 + c) * 3 + k])));
  const read = exactReader(picture(tiles, 2), [2, 4, 4, 3], values, null)!;
  assert.deepEqual(read(1, 6), { index: [0, 1, 2, 1], value: values[(4 + 2) * 3 + 1] });
  assert.equal(read(5, 6), null, "behind the last tile there is nothing");
});

test("a vector is read along its line, and what is not finite is told as it is", () => {
  const values = Float32Array.of(1, NaN, 3, Infinity);
  const read = exactReader(picture([[[...values]]], 1), [4], values, null)!;
  assert.deepEqual([read(0, 1)!.value, read(0, 3)!.value], [NaN, Infinity]);
});

test("means of blocks, and other numbers, are not mistaken for elements", () => {
  const values = noise(64);
  const other = [0, 1, 2, 3, 4, 5, 6, 7].map((r) => [...noise(200).subarray(100 + 8 * r, 108 + 8 * r)]);
  assert.equal(exactReader(picture([other], 1), [8, 8], values, null), null);
  assert.equal(exactReader(picture([other.slice(0, 4).map((line) => line.slice(0, 4))], 1), [8, 8], values, null), null);
});
