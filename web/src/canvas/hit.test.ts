import assert from "node:assert/strict";
import { test } from "node:test";
import { folded, open } from "./example";
import { hitAt } from "./hit";
import { Stage } from "./stage";
import { LIGHT_THEME } from "./theme";
import type { Title } from "./titles";
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
