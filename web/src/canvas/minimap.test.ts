import assert from "node:assert/strict";
import { test } from "node:test";
import { mapSize, showsAll } from "./minimap";

test("the map is true to shape, but never too thin to point at", () => {
  const square = mapSize({ width: 5000, height: 5000 });
  assert.equal(square.width, square.height);
  const long = mapSize({ width: 300, height: 500000 });
  assert.ok(long.width >= 40 && long.height <= 200);
  const wide = mapSize({ width: 500000, height: 300 });
  assert.ok(wide.height >= 40 && wide.width <= 200);
});

test("the map is needed as soon as something is out of view", () => {
  const size = { width: 800, height: 600 };
  assert.equal(showsAll({ x: -10, y: -10, scale: 1 }, { width: 700, height: 500 }, size), true);
  assert.equal(showsAll({ x: 10, y: -10, scale: 1 }, { width: 700, height: 500 }, size), false);
  assert.equal(showsAll({ x: 0, y: 0, scale: 0.5 }, { width: 1600, height: 1201.5 }, size), false);
});
