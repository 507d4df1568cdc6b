// Tests of hidden-boxes.ts.

import assert from "node:assert/strict";
import { test } from "node:test";
import { exampleView } from "./example";
import { folded } from "./fold";
import { withoutHidden } from "./hidden-boxes";
import { place } from "./place";

const view = exampleView(1);
const open = view.groups.parent.map((_, group) => group);
const whole = (): ReturnType<typeof folded> => folded(view, { open, rolled: false, apart: [] });
const keys = ({ picture }: ReturnType<typeof folded>): string[] => picture.boxes.map(({ key }) => key);
const pairs = ({ picture: { boxes, edges } }: ReturnType<typeof folded>): string[] =>
  edges.map(({ parent, child }) => `${boxes[parent].key}>${boxes[child].key}`).sort();

test("nothing hidden is nothing changed", () => {
  const given = whole();
  assert.equal(withoutHidden(given, new Set()).picture, given.picture);
  assert.equal(withoutHidden(given, new Set([999])).picture, given.picture);
});

test("what led through a hidden box leads on", () => {
  // Node 2 is the softmax between the linear op (1) and the product (3).
  const less = withoutHidden(whole(), new Set([2]));
  assert.ok(!keys(less).includes("n2"));
  assert.ok(pairs(less).includes("n1>n3"));
  assert.equal(less.box[2], -1);
  for (const [node, box] of less.box.entries()) if (box >= 0) assert.equal(less.picture.boxes[box].node, node);
});

test("a module of which nothing is left goes with its frame, and the rest can be placed", () => {
  const less = withoutHidden(whole(), new Set([1, 2, 3]));
  assert.ok(less.picture.frames.every(({ title }) => !title.includes("attn")));
  assert.ok(pairs(less).includes("n0>n4"));
  const placed = place(less.picture, "right");
  assert.equal(placed.boxes.length, less.picture.boxes.length);
  for (const { frame } of less.picture.boxes) assert.ok(frame >= 0 && frame < less.picture.frames.length);
});

test("a folded module is hidden only if all in it is", () => {
  const closed = folded(view, { open: [0], rolled: false, apart: [] });
  assert.equal(withoutHidden(closed, new Set([1])).picture, closed.picture);
  assert.ok(!keys(withoutHidden(closed, new Set([1, 2, 3, 4, 5]))).includes("g1"));
});
