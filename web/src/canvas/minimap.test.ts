// Tests of minimap.ts.

import assert from "node:assert/strict";
import { test } from "node:test";
import { mapSize, showsAll } from "./minimap";

const screen = { width: 1400, height: 1000 };

test("the map is true to shape, but never too thin to point at", () => {
  const square = mapSize({ width: 5000, height: 5000 }, screen);
  assert.equal(square.width, square.height);
  const long = mapSize({ width: 300, height: 500000 }, screen);
  assert.ok(long.width >= 36 && long.height <= 200);
  const wide = mapSize({ width: 500000, height: 300 }, screen);
  assert.ok(wide.height >= 36 && wide.width <= 200);
});

test("the map is needed as soon as something is out of view", () => {
  const size = { width: 800, height: 600 };
  assert.equal(showsAll({ x: -10, y: -10, scale: 1 }, { width: 700, height: 500 }, size), true);
  assert.equal(showsAll({ x: 10, y: -10, scale: 1 }, { width: 700, height: 500 }, size), false);
  assert.equal(showsAll({ x: 0, y: 0, scale: 0.5 }, { width: 1600, height: 1201.5 }, size), false);
});

test("the map takes a small part of a small screen", () => {
  const map = mapSize({ width: 600, height: 1500 }, { width: 500, height: 400 });
  assert.ok(map.width <= 100 && map.height <= 80, `${map.width} × ${map.height}`);
});
