// Tests of stage.ts.

import assert from "node:assert/strict";
import { test } from "node:test";
import { box, open } from "./example";
import { Stage } from "./stage";
import { LIGHT_THEME } from "./paint/theme";
import { PLAIN, edgeKey } from "./types";
import type { Decorations } from "./types";

const stage = (decorations: Decorations = PLAIN): Stage => new Stage(open(), decorations, LIGHT_THEME);

test("an edge knows all lines of its way, from its box to its end", () => {
  assert.deepEqual(stage().linesOf(0), [2, 1, 0]);
  assert.deepEqual(stage().linesOf(1), [3, 1, 0]);
  assert.deepEqual(stage().linesOf(2), [5, 4]);
  assert.deepEqual(stage().linesOf(5), [9, 8]);
});

test("a line is as strong as the strongest edge that runs along it", () => {
  const looks = stage({ boxes: new Map(), edges: new Map([[edgeKey("a", "left"), "strong"]]), otherEdges: "faint" }).lines.map((line) => line.look);
  assert.deepEqual(looks.slice(0, 4), ["strong", "strong", "strong", "faint"]);
  assert.ok(looks.slice(4).every((look) => look === "faint"));
});

test("a line is hidden only if all of its edges are", () => {
  const looks = stage({ boxes: new Map(), edges: new Map([[edgeKey("a", "left"), "hidden"]]) }).lines.map((line) => line.look);
  assert.deepEqual(looks.slice(0, 4), ["plain", "plain", "hidden", "plain"]);
});

test("labels stand on the line that arrives", () => {
  assert.deepEqual(stage().lines.map((line) => line.label).filter(Boolean), ["1"]);
  assert.equal(stage().lines[5]!.label, "1");
});

test("looks are found by key, for boxes and for frames", () => {
  const decorated = stage({ boxes: new Map([["sum", { dim: true }], ["g1", { strong: true }]]), edges: new Map() });
  assert.ok(decorated.boxes[4]!.style.alpha < 0.5);
  assert.equal(decorated.boxes[3]!.style.alpha, 1);
  assert.equal(decorated.frames[1]!.look?.strong, true);
});

test("a frame holds what is in it", () => assert.deepEqual(stage().boxesIn(1), [2, 3, 4]));

test("a stand-in and what it stands for know each other", () => {
  const scene = open();
  const with_ = new Stage({
    picture: { ...scene.picture, boxes: [...scene.picture.boxes, box("s1", { stands_for: ["b", "not drawn"] })] },
    placement: { ...scene.placement, boxes: [...scene.placement.boxes, scene.placement.boxes[0]!] },
  }, PLAIN, LIGHT_THEME);
  assert.deepEqual(with_.standsWith(6), [1]);
  assert.deepEqual(with_.standsWith(1), [6]);
  assert.deepEqual(with_.standsWith(0), []);
});
