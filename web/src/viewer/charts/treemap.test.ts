// Tests of treemap.ts.

import assert from "node:assert/strict";
import { test } from "node:test";
import { squarify, tiles, type Area } from "./treemap";

const room: Area = { x: 10, y: 20, width: 300, height: 200 };
const size = ({ width, height }: Area): number => width * height;
const overlap = (a: Area, b: Area): number =>
  Math.max(0, Math.min(a.x + a.width, b.x + b.width) - Math.max(a.x, b.x)) * Math.max(0, Math.min(a.y + a.height, b.y + b.height) - Math.max(a.y, b.y));

test("areas are as the sizes, fill the room, and do not overlap", () => {
  const sizes = [6, 1, 6, 4, 0, 3, 2, 2, 1];
  const areas = squarify(sizes, room);
  const total = sizes.reduce((a, b) => a + b);
  areas.forEach((area, i) => {
    assert.ok(Math.abs(size(area) - (size(room) * sizes[i]) / total) < 1e-6);
    if (sizes[i]) assert.ok(Math.abs(overlap(area, room) - size(area)) < 1e-6, "inside the room");
    for (const other of areas.slice(i + 1)) assert.ok(overlap(area, other) < 1e-6);
  });
});

test("shapes are near to squares", () => {
  for (const { width, height } of squarify(Array(12).fill(1), room)) assert.ok(Math.max(width / height, height / width) < 2);
});

test("nothing at all has no room", () => {
  assert.deepEqual(squarify([0, 0], room).map(size), [0, 0]);
  assert.deepEqual(squarify([], room), []);
});

test("parts lie inside what they are part of, and small ones are not divided", () => {
  const parts: Record<number, number[]> = { 0: [1, 2], 1: [3, 4], 2: [5] };
  const sizes = [100, 60, 1, 30, 30, 1];
  const drawn = tiles(0, room, { size: (of) => sizes[of], inside: (of) => parts[of] ?? [] });
  const by = new Map(drawn.map((tile) => [tile.of, tile]));
  assert.deepEqual([...by.keys()].sort(), [0, 1, 2, 3, 4]);
  assert.ok(Math.abs(overlap(by.get(3)!, by.get(1)!) - size(by.get(3)!)) < 1e-6);
  assert.equal(by.get(2)!.isLeaf, true);
  assert.equal(by.get(1)!.isLeaf, false);
});
