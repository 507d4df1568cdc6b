// Tests of hit.ts.

import assert from "node:assert/strict";
import { test } from "node:test";
import { folded, open } from "./example";
import { hitAt } from "./hit";
import { Stage } from "./stage";
import { LIGHT_THEME } from "./paint/theme";
import type { Title } from "./paint/titles";
import { PLAIN } from "./types";

const camera = { x: -10, y: -10, scale: 1 };
const stage = new Stage(open(), PLAIN, LIGHT_THEME);
const title: Title = { frame: 1, text: "g1", x: 38, y: 134, width: 60, height: 16, size: 11, isStuck: false, isOutside: false };

test("boxes lie over frames", () => {
  assert.deepEqual(hitAt(stage, [], camera, 10 + 100, 10 + 220), { key: "left", part: "box" });
  assert.deepEqual(hitAt(stage, [], camera, 10 + 200, 10 + 220), { key: "g1", part: "frame" });
  assert.equal(hitAt(stage, [], camera, 10 + 200, 10 + 450), null);
});

test("titles lie over all, their chevron is at the left", () => {
  assert.deepEqual(hitAt(stage, [title], camera, 42, 140), { key: "g1", part: "chevron" });
  assert.deepEqual(hitAt(stage, [title], camera, 80, 140), { key: "g1", part: "title" });
});

test("a folded box has a chevron at its left", () => {
  const closed = new Stage(folded(), PLAIN, LIGHT_THEME);
  assert.deepEqual(hitAt(closed, [], camera, 10 + 156, 10 + 140), { key: "g1", part: "chevron" });
  assert.deepEqual(hitAt(closed, [], camera, 10 + 200, 10 + 140), { key: "g1", part: "box" });
});

test("a near miss counts", () => assert.equal(hitAt(stage, [], camera, 10 + 151, 10 + 41)?.key, "a"));

test("buttons lie over the border of their box and behind the title of their frame", () => {
  const looks = new Map([["g1", { action: "show all 3" }]]);
  const closed = new Stage(folded(), { ...PLAIN, boxes: looks }, LIGHT_THEME);
  const { x, y, width } = closed.rect("g1")!;
  assert.deepEqual(hitAt(closed, [], camera, 10 + x + width - 20, 10 + y - 4), { key: "g1", part: "action" });
  const named = { ...title, width: 160, action: { text: "show all 3", from: 80 } };
  assert.deepEqual(hitAt(stage, [named], camera, 38 + 90, 140), { key: "g1", part: "action" });
  assert.deepEqual(hitAt(stage, [named], camera, 38 + 50, 140), { key: "g1", part: "title" });
});
