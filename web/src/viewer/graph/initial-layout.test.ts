// Tests of initial-layout.ts.

import assert from "node:assert/strict";
import { test } from "node:test";
import { toDepth } from "../../graph/state";
import { exampleView } from "../../layout/example";
import { folded } from "../../layout/fold";
import { place } from "../../layout/place";
import { NARROW, USUAL, initialLayout, type Room } from "./initial-layout";

function scaleAt(n: number, room: Room): number {
  const view = exampleView(n);
  const { depth, direction } = initialLayout(view, room);
  const { picture } = folded(view, { open: [...toDepth(view, depth)], rolled: false, apart: [] });
  const { width, height } = place(picture, direction);
  return Math.min(room.width / width, room.height / height);
}

test("names can be read at first sight, however many blocks there are", () => {
  for (const n of [1, 2, 12, 96]) for (const room of [USUAL, NARROW]) assert.ok(scaleAt(n, room) >= 0.7, `${n} blocks: ${scaleAt(n, room)}`);
});

test("a long chain is upright where the room is", () => {
  const view = exampleView(3);
  const { groups } = view;
  const apart = { ...view, runs: [], groups: { ...groups, run: groups.run.map(() => -1) } };
  assert.equal(initialLayout(apart, { width: 420, height: 1200 }).direction, "down");
  assert.equal(initialLayout(apart, { width: 2400, height: 300 }).direction, "right");
});

test("what is shown at first is worked out once", () => {
  const view = exampleView(12);
  assert.equal(initialLayout(view), initialLayout(view));
});
