// Decodes images of values.

import { decodeBase64 } from "../host";
import type { Image } from "../wire";

/** The last of the 256 gray levels means: not finite. */
const NOT_FINITE = 255;
/** The highest gray level of a number. */
const STEPS = 254;

/** The pixels, row by row; padded or cut to the expected number. */
export function decodedPixels(image: Image): Uint8Array {
  const out = new Uint8Array(image.rows * image.columns).fill(NOT_FINITE);
  out.set(decodeBase64(image.data).subarray(0, out.length));
  return out;
}

/** The approximate value of a pixel, from its gray level; null if not finite. */
export function valueAt(image: Image, pixels: Uint8Array, row: number, column: number): number | null {
  const shade = pixels[row * image.columns + column];
  const [low, high] = image.ranges[placeOf(image, row, column)?.tile ?? 0] ?? [image.low, image.high];
  return shade === NOT_FINITE ? null : low + ((high - low) * shade) / STEPS;
}

/** Whether some pixels are finite, and whether some are not; padding does not count. */
export function kindsOf(image: Image, pixels: Uint8Array): { hasFinite: boolean; hasBroken: boolean } {
  let [hasFinite, hasBroken] = [false, false];
  for (let i = 0; i < pixels.length && !(hasFinite && hasBroken); i++) {
    if (pixels[i] !== NOT_FINITE) hasFinite = true;
    else if (!hasBroken) hasBroken = placeOf(image, Math.floor(i / image.columns), i % image.columns) !== null;
  }
  return { hasFinite, hasBroken };
}

/** The tile of a pixel, and its position there; null for padding after the last tile. */
export function placeOf(image: Image, row: number, column: number): { tile: number; row: number; column: number } | null {
  const across = Math.max(1, Math.round(image.columns / image.tile_columns));
  const tile = Math.floor(row / image.tile_rows) * across + Math.floor(column / image.tile_columns);
  return tile < image.n_tiles ? { tile, row: row % image.tile_rows, column: column % image.tile_columns } : null;
}
