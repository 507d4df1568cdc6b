// The numbers behind the pixels of a picture, where the value itself is at hand: which element a pixel shows.

import { decodedPixels, placeOf, valueAt } from "./pixels";
import type { Image } from "./wire";

export interface Element {
  /** Its place in the kept value. */
  readonly index: readonly number[];
  readonly value: number;
}

/** A way to read a value as tiles of rows and columns: which dimensions these are, and where the others are fixed. */
interface Cut {
  readonly tile: number | null;
  readonly row: number | null;
  readonly column: number;
  readonly fixed: readonly number[];
}

export type Reader = (row: number, column: number) => Element | null;

/** So many pixels are compared before a way to read is believed. */
const PROBES = 97;

/**
 * Reads single elements by the pixel that shows them. The picture does not say how it was made: of the ways there are
 * (which dimension counts the tiles, where the others are fixed) it is the one that gives the very same shades. Null if
 * none does, as where a pixel is the mean of many elements.
 */
export function exactReader(image: Image, shape: readonly number[], values: Float32Array, sample: number | null): Reader | null {
  if (values.length !== shape.reduce((n, size) => n * size, 1) || shape.length === 0) return null;
  const pixels = decodedPixels(image);
  const strides = shape.map((_, d) => shape.slice(d + 1).reduce((n, size) => n * size, 1));
  for (const cut of cuts(shape, sample)) {
    if (!suits(cut, shape, image)) continue;
    const read: Reader = (row, column) => {
      const place = placeOf(image, row, column);
      if (!place) return null;
      const index = [...cut.fixed];
      if (cut.tile !== null) index[cut.tile] = place.tile;
      if (cut.row !== null) index[cut.row] = place.row;
      index[cut.column] = place.column;
      return { index, value: values[index.reduce((sum, at, d) => sum + at * strides[d], 0)] };
    };
    if (agrees(read, image, pixels)) return read;
  }
  return null;
}

/** Every choice of dimensions, those that are usual first: the last two are rows and columns, the one before counts tiles. */
function cuts(shape: readonly number[], sample: number | null): Cut[] {
  const n = shape.length;
  const found: Cut[] = [];
  const bases = [shape.map((_, d) => (d === 0 && sample !== null ? sample : 0)), shape.map((size) => size >> 1)];
  bases[1][0] = bases[0][0];
  for (const fixed of bases) {
    for (let row = n - 2; row >= -1; row--) {
      for (let column = n - 1; column >= 0; column--) {
        if (row === column) continue;
        for (const tile of [null, ...Array.from({ length: n }, (_, d) => n - 1 - d)]) {
          if (tile !== row && tile !== column) found.push({ tile, row: row < 0 ? null : row, column, fixed });
        }
      }
    }
  }
  return found;
}

function suits({ tile, row, column }: Cut, shape: readonly number[], image: Image): boolean {
  return (row === null ? 1 : shape[row]) === image.tile_rows && shape[column] === image.tile_columns
    && (tile === null ? image.n_tiles === 1 : image.n_tiles <= shape[tile]);
}

/** Whether what is read has the shades of the picture. */
function agrees(read: Reader, image: Image, pixels: Uint8Array): boolean {
  const n = image.rows * image.columns;
  const half = (image.high - image.low) / 508;
  const dust = half * 1e-3 + 1e-6 * Math.max(Math.abs(image.low), Math.abs(image.high));
  for (let probe = 0; probe < Math.min(PROBES, n); probe++) {
    const at = n <= PROBES ? probe : Math.floor((probe * (n - 1)) / (PROBES - 1));
    const [row, column] = [Math.floor(at / image.columns), at % image.columns];
    const element = read(row, column);
    if (!element) continue;
    const shown = valueAt(image, pixels, row, column);
    if (shown === null || !Number.isFinite(element.value)) {
      if (shown !== null || Number.isFinite(element.value)) return false;
      continue;
    }
    const inside = Math.max(image.low, Math.min(image.high, element.value));
    if (Math.abs(inside - shown) > half + dust) return false;
  }
  return true;
}
