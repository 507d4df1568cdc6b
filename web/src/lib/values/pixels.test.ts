// Tests of pixels.ts.

import assert from "node:assert/strict";
import { test } from "node:test";

import { decodedPixels, kindsOf, placeOf, valueAt } from "./pixels";
import type { Image } from "../wire";

const image = (shades: number[], low: number, high: number): Image => ({
  kind: "matrix", rows: 2, columns: 2, tile_rows: 2, tile_columns: 2, n_tiles: 1, low, high, caption: "", axes: [-1, 0, 1], first: [0, 0], tile_word: "", n_tiles_total: 0, ranges: [],
  data: Buffer.from(shades).toString("base64"),
});

test("a pixel tells its value to half a shade", () => {
  const low = -1, high = 3;
  const values = [-1, 0.3, 2.718, 3];
  const shown = image(values.map((value) => Math.round((254 * (value - low)) / (high - low))), low, high);
  const pixels = decodedPixels(shown);
  values.forEach((value, i) => assert.ok(Math.abs(valueAt(shown, pixels, i >> 1, i & 1)! - value) <= (high - low) / 508 + 1e-12));
});

test("what is not finite, and what is missing, has no value", () => {
  const shown = image([0, 255, 9], 0, 1);
  const pixels = decodedPixels(shown);
  assert.deepEqual([valueAt(shown, pixels, 0, 1), valueAt(shown, pixels, 1, 1)], [null, null]);
});

test("what is finite and what is not is told apart, and what lies behind the last tile does not count", () => {
  const of = (shades: number[], also: Partial<Image> = {}) => kindsOf({ ...image([], 0, 1), ...also }, Uint8Array.from(shades));
  assert.deepEqual(of([0, 1, 2, 254]), { hasFinite: true, hasBroken: false });
  assert.deepEqual(of([255, 255, 255, 255]), { hasFinite: false, hasBroken: true });
  assert.deepEqual(of([3, 3, 3, 255], { tile_rows: 1, tile_columns: 1, n_tiles: 3 }), { hasFinite: true, hasBroken: false });
});

test("where each tile has a range of its own, a pixel tells its value by that", () => {
  const shown: Image = { ...image([0, 254, 0, 254], 0, 20), kind: "tiles", tile_rows: 1, n_tiles: 2, ranges: [[0, 1], [10, 20]] };
  const pixels = decodedPixels(shown);
  assert.deepEqual([valueAt(shown, pixels, 0, 1), valueAt(shown, pixels, 1, 0), valueAt(shown, pixels, 1, 1)], [1, 10, 20]);
});

test("tiles are counted from the left and row by row, and behind the last one is nothing", () => {
  const tiles: Image = { ...image([], 0, 1), kind: "tiles", rows: 4, columns: 9, tile_rows: 2, tile_columns: 3, n_tiles: 5 };
  assert.deepEqual(placeOf(tiles, 1, 4), { tile: 1, row: 1, column: 1 });
  assert.deepEqual(placeOf(tiles, 2, 0), { tile: 3, row: 0, column: 0 });
  assert.equal(placeOf(tiles, 3, 8), null);
});
