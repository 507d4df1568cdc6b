// Tests of moved-boxes.ts.

import assert from "node:assert/strict";
import { test } from "node:test";
import { exampleView } from "./example";
import { fold } from "./fold";
import { moveBoxes, offsetsOf, offsetsText, movedBy } from "./moved-boxes";
import { place } from "./place";

const view = exampleView(1);
const picture = fold(view, { open: view.groups.parent.map((_, group) => group), rolled: false, apart: [] });
const placement = place(picture, "right");
const number = (key: string): number => picture.boxes.findIndex((box) => box.key === key);

test("nothing moveBoxes is nothing changed", () => {
  assert.equal(moveBoxes(placement, picture, new Map()).placement, placement);
  assert.equal(moveBoxes(placement, picture, new Map([["n99", [5, 5]]])).placement, placement);
});

test("a box moves with the ends of its lines, the others stay", () => {
  const box = number("n2");
  const { placement: after, shift } = moveBoxes(placement, picture, new Map([["n2", [0, 60]]]));
  assert.deepEqual(shift, [0, 0]);
  assert.equal(after.boxes[box].y, placement.boxes[box].y + 60);
  placement.boxes.forEach((rect, other) => { if (other !== box) assert.deepEqual(after.boxes[other], rect); });
  const arriving = placement.lines.findIndex((line) => line.child === box);
  assert.equal(after.lines[arriving].points.at(-1)![1], placement.lines[arriving].points.at(-1)![1] + 60);
  assert.deepEqual(after.lines[arriving].points[0], placement.lines[arriving].points[0]);
  const leaving = placement.lines.findIndex((line) => line.parent === box);
  assert.equal(after.lines[leaving].points[0][1], placement.lines[leaving].points[0][1] + 60);
});

test("frames hold what was moveBoxes in them, and nothing is lost beyond the corner", () => {
  for (const offset of [[0, 500], [-3000, -400]] as const) {
    const { placement: after } = moveBoxes(placement, picture, new Map([["n2", [...offset]]]));
    for (const [i, { frame }] of picture.boxes.entries()) {
      const [inner, outer] = [after.boxes[i], after.frames[frame]];
      assert.ok(inner.x >= outer.x && inner.y >= outer.y, `${offset}`);
      assert.ok(inner.x + inner.width <= outer.x + outer.width && inner.y + inner.height <= outer.y + outer.height);
    }
    for (const rect of after.boxes) assert.ok(rect.x >= 0 && rect.y >= 0 && rect.x + rect.width <= after.width && rect.y + rect.height <= after.height);
  }
});

test("offsets survive as text, and a box that is movedBy back has none", () => {
  const offsets = movedBy(movedBy(new Map(), "n3", [24, -24]), "g1", [0, 5]);
  assert.deepEqual(offsetsOf(offsetsText(offsets)), offsets);
  assert.deepEqual([...movedBy(offsets, "n3", [-24, 24]).keys()], ["g1"]);
  assert.equal(offsetsOf("x1:2:3,n:1:2,n4:a:b").size, 0);
});
