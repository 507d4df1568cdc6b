// Tests of surface.ts.

import assert from "node:assert/strict";
import { test } from "node:test";
import type { Rect } from "./types";
import { cut, exposedAreas } from "./surface";

const W = 40;
const H = 30;

function cells(rects: readonly Rect[]): string[] {
  return rects.flatMap(({ x, y, width, height }) =>
    Array.from({ length: width * height }, (_, i) => `${x + (i % width)},${y + Math.floor(i / width)}`)).sort();
}

test("what is exposed is exactly what the shifted picture does not cover, once", () => {
  for (const dx of [-50, -40, -7, 0, 3, 39]) for (const dy of [-31, -1, 0, 12, 30]) {
    const empty: string[] = [];
    for (let x = 0; x < W; x++) for (let y = 0; y < H; y++) {
      if (x - dx < 0 || x - dx >= W || y - dy < 0 || y - dy >= H) empty.push(`${x},${y}`);
    }
    assert.deepEqual(cells(exposedAreas(W, H, dx, dy)), empty.sort(), `${dx} ${dy}`);
  }
});

test("cut pieces make up the area, and each lies within one turn of the bitmap", () => {
  for (const ox of [-1000003, -40, -1, 0, 17, 39, 40, 99991]) for (const oy of [-7, 0, 29, 500]) {
    const area = { x: 5, y: 2, width: 33, height: 27 };
    const pieces = cut(area, ox, oy, W, H);
    assert.deepEqual(cells(pieces), cells([area]));
    for (const { x, y, width, height } of pieces) {
      assert.equal(Math.floor((x + ox) / W), Math.floor((x + width - 1 + ox) / W));
      assert.equal(Math.floor((y + oy) / H), Math.floor((y + height - 1 + oy) / H));
    }
  }
});
