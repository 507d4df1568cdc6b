// Tests of glide.ts.

import assert from "node:assert/strict";
import { test } from "node:test";
import { toScreen } from "./camera";
import { folded, open } from "./example";
import { Glide, anchorCamera, mapRect, nearestToCenter, placeIn } from "./glide";
import { Stage } from "./stage";
import { LIGHT_THEME } from "./paint/theme";
import { PLAIN } from "./types";

const size = { width: 800, height: 700 };
const camera = { x: -100, y: -20, scale: 1 };
const closed = new Stage(folded(), PLAIN, LIGHT_THEME);
const opened = new Stage(open(), PLAIN, LIGHT_THEME);

test("a glide begins with the old picture and ends with the new one", () => {
  const way = new Glide({ stage: closed, camera }, { stage: opened, camera }, size);
  const [start, end] = [way.at(0), way.at(1)];
  const shown = (items: typeof start) => items.boxes.filter((box) => box.alpha > 0.01).map((box) => [box.box.key, box.x, box.y, box.width]).sort();
  const expected = (stage: Stage) => stage.boxes.map((box) => [box.box.key, box.x, box.y, box.width]).sort();
  assert.deepEqual(shown(start), expected(closed));
  assert.deepEqual(shown(end), expected(opened));
  assert.deepEqual(end.frames.filter((frame) => frame.alpha > 0).map((frame) => frame.frame.key), ["g1"]);
});

test("what comes out of a folded box begins in it", () => {
  for (const key of ["left", "right", "sum"]) {
    const item = opened.boxes[opened.boxOf.get(key)!]!;
    const from = placeIn(closed, opened, key, item.box.frame, item);
    const home = closed.rect("g1")!;
    assert.ok(from.x >= home.x && from.y >= home.y && from.x + from.width <= home.x + home.width && from.y + from.height <= home.y + home.height);
  }
});

test("a frame begins where its box was", () => assert.equal(placeIn(closed, opened, "g1", 0, opened.frames[1]!), closed.rect("g1")));

test("nothing to move is not worth a glide", () => {
  assert.equal(new Glide({ stage: opened, camera }, { stage: opened, camera }, size).isWorthIt, false);
  assert.equal(new Glide({ stage: closed, camera }, { stage: opened, camera }, size).isWorthIt, true);
});

test("the anchor keeps its place on the screen, on the whole way", () => {
  const after = anchorCamera(camera, closed.rect("g1")!, opened.rect("g1")!, size, false);
  const way = new Glide({ stage: closed, camera }, { stage: opened, camera: after }, size);
  const before = toScreen(camera, 200, 120);
  for (const t of [0, 0.3, 0.6, 1]) {
    const { camera: now, frames } = way.at(t);
    const { x, y, width } = frames.find(({ frame }) => frame.key === "g1")!;
    const at = toScreen(now, x + width / 2, y);
    assert.ok(Math.hypot(at[0] - before[0], at[1] - before[1]) < 0.01, `${t}: ${at} is not ${before}`);
  }
});

test("an anchor whose top was out of sight is in sight afterwards", () => {
  const deep = { x: -100, y: 300, scale: 1 };
  const after = anchorCamera(deep, opened.rect("g1")!, closed.rect("g1")!, size, false);
  const [x, y] = toScreen(after, 200, 120);
  assert.ok(x > 0 && x < 800 && y >= 0 && y < 700);
});

test("without an anchor, what is in the middle of the screen and in both pictures is one", () => {
  assert.equal(nearestToCenter(opened, closed, { x: 100, y: 450, width: 200, height: 120 }), "out");
  assert.equal(nearestToCenter(opened, closed, { x: 40, y: 190, width: 100, height: 60 }), "g1");
  assert.equal(nearestToCenter(opened, closed, { x: 4000, y: 4000, width: 10, height: 10 }), null);
});

test("carried keeps the relative place", () => {
  const carriedTo = mapRect({ x: 10, y: 20, width: 5, height: 5 }, { x: 0, y: 0, width: 100, height: 100 }, { x: 50, y: 50, width: 10, height: 200 });
  assert.deepEqual(carriedTo, { x: 51, y: 90, width: 0.5, height: 10 });
});
