// Tests of walk.ts.

import assert from "node:assert/strict";
import { test } from "node:test";
import { box, open } from "./example";
import { Stage } from "./stage";
import { LIGHT_THEME } from "./paint/theme";
import { PLAIN } from "./types";
import type { Scene } from "./types";
import { neighbor } from "./walk";

const stage = new Stage(open(), PLAIN, LIGHT_THEME);

test("down and up follow edges, the straightest first", () => {
  assert.equal(neighbor(stage, "a", "down"), "left");
  assert.equal(neighbor(stage, "b", "down"), "right");
  assert.equal(neighbor(stage, "right", "up"), "b");
  assert.equal(neighbor(stage, "out", "down"), null);
  assert.equal(neighbor(stage, "a", "up"), null);
});

test("left and right go to what stands beside", () => {
  assert.equal(neighbor(stage, "left", "right"), "right");
  assert.equal(neighbor(stage, "right", "left"), "left");
  assert.equal(neighbor(stage, "left", "left"), null);
});

test("from a frame the way leads to what feeds it and what it feeds", () => {
  assert.ok(["a", "b"].includes(neighbor(stage, "g1", "up")!));
  assert.equal(neighbor(stage, "g1", "down"), "out");
});

test("in a picture that leads to the right, left and right follow edges", () => {
  const scene = open();
  const turn = (rect: { x: number; y: number; width: number; height: number }) => ({ x: rect.y, y: rect.x, width: rect.height, height: rect.width });
  const turned: Scene = { ...scene, direction: "right", placement: { ...scene.placement, boxes: scene.placement.boxes.map(turn), frames: scene.placement.frames.map(turn) } };
  const right = new Stage(turned, PLAIN, LIGHT_THEME);
  assert.equal(neighbor(right, "a", "right"), "left");
  assert.equal(neighbor(right, "left", "down"), "right");
});

test("up from a stand-in leads to what it stands for", () => {
  const scene = open();
  const boxes = [...scene.picture.boxes, box("s1", { stands_for: ["gone", "out"] })];
  const rects = [...scene.placement.boxes, { x: 300, y: 300, width: 40, height: 20 }];
  const with_ = new Stage({ picture: { ...scene.picture, boxes }, placement: { ...scene.placement, boxes: rects } }, PLAIN, LIGHT_THEME);
  assert.equal(neighbor(with_, "s1", "up"), "out");
});

test("what is not shown has no neighbors", () => assert.equal(neighbor(stage, "nobody", "up"), null));
