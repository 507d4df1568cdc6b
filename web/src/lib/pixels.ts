// Decodes images of values.

import { decodeBase64 } from "./host";
import type { Image } from "./wire";

/** Of the 256 shades the last one means: not a finite number. */
const NOT_FINITE = 255;
const STEPS = 254;

/** The pixels, row after row; as many as there are, whatever the text says. */
export function decodedPixels(image: Image): Uint8Array {
  const out = new Uint8Array(image.rows * image.columns).fill(NOT_FINITE);
  out.set(decodeBase64(image.data).subarray(0, out.length));
  return out;
}

/** What a pixel was before it became one of 255 shades, nearly; null where it was not finite. */
export function valueAt(image: Image, pixels: Uint8Array, row: number, column: number): number | null {
  const shade = pixels[row * image.columns + column];
  const [low, high] = image.ranges[placeOf(image, row, column)?.tile ?? 0] ?? [image.low, image.high];
  return shade === NOT_FINITE ? null : low + ((high - low) * shade) / STEPS;
}

/** Whether some of the pixels are finite, and whether some are not; those behind the last tile do not count. */
export function kindsOf(image: Image, pixels: Uint8Array): { hasFinite: boolean; hasBroken: boolean } {
  let [hasFinite, hasBroken] = [false, false];
  for (let i = 0; i < pixels.length && !(hasFinite && hasBroken); i++) {
    if (pixels[i] !== NOT_FINITE) hasFinite = true;
    else if (!hasBroken) hasBroken = placeOf(image, Math.floor(i / image.columns), i % image.columns) !== null;
  }
  return { hasFinite, hasBroken };
}

/** The number of the tile in which a pixel lies, and its place there; null behind the last tile, where pixels mean nothing. */
export function placeOf(image: Image, row: number, column: number): { tile: number; row: number; column: number } | null {
  const across = Math.max(1, Math.round(image.columns / image.tile_columns));
  const tile = Math.floor(row / image.tile_rows) * across + Math.floor(column / image.tile_columns);
  return tile < image.n_tiles ? { tile, row: row % image.tile_rows, column: column % image.tile_columns } : null;
}
