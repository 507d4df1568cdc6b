// Maps pixels of an image to elements of the tensor, for exact values.

import { placeOf } from "./pixels";
import type { Image } from "../wire";

export interface Element {
  /** Its index in the kept value. */
  readonly index: readonly number[];
  readonly value: number;
}

export type Reader = (row: number, column: number) => Element | null;

/**
 * Reads single elements by the pixel that shows them. Null where a pixel is the mean of many elements.
 *
 * `values` are those of the whole value, or of one sample alone: then `sample` is its number, and `shape` still that of the
 * whole.
 */
export function exactReader(image: Image, shape: readonly number[], values: Float32Array, sample: number | null): Reader | null {
  const [tile, row, column] = image.axes;
  const isWhole = column >= 0 && shape.length === image.first.length && (row < 0 ? 1 : shape[row]) === image.tile_rows && shape[column] === image.tile_columns;
  const strides = shape.map((_, d) => shape.slice(d + 1).reduce((n, size) => n * size, 1));
  const n = (strides[0] ?? 1) * (sample === null ? shape[0] ?? 1 : 1);
  if (!isWhole || values.length !== n) return null;
  return (down, right) => {
    const place = placeOf(image, down, right);
    if (!place) return null;
    const index = [...image.first];
    if (tile >= 0) index[tile] += place.tile;
    if (row >= 0) index[row] = place.row;
    index[column] = place.column;
    const value = values[index.reduce((sum, at, d) => sum + at * strides[d], 0)];
    return { index: sample === null ? index : [sample, ...index.slice(1)], value };
  };
}
