// Tests of place.ts.

import assert from "node:assert/strict";
import { test } from "node:test";

import { arrange } from "./layers";
import { boxSize, characters, labelWidth } from "./text-size";
import { place, placeCache, type Drawing } from "./place";

/** Blocks of two boxes, one after the other, of which some are open. */
function blocks(n: number, open: ReadonlySet<number>): Drawing {
  const boxes: { lines: string[]; form: "leaf" | "folded"; frame: number }[] = [];
  const frames = [{ key: "", title: "", parent: -1 }];
  const edges: { parent: number; child: number; label: string }[] = [];
  for (let block = 0; block < n; block++) {
    const lines = open.has(block) ? ["first", "second"] : ["both"];
    if (open.has(block)) frames.push({ key: `g${block}`, title: `block ${block}`, parent: 0 });
    for (const line of lines) {
      if (boxes.length) edges.push({ parent: boxes.length - 1, child: boxes.length, label: "" });
      boxes.push({ lines: [line], form: "leaf", frame: open.has(block) ? frames.length - 1 : 0 });
    }
  }
  return { boxes, frames, edges };
}

test("characters are counted as in Python", () => {
  assert.equal(characters("a→𝛼"), 3);
  assert.deepEqual(boxSize({ lines: ["12345", "123456"], form: "leaf" }), [6 * 11 * 0.62 + 20, 40]);
  assert.equal(labelWidth(""), 0);
  assert.equal(labelWidth("IF"), 2 * 9 * 0.62 + 8);
});

test("a link that passes is arranged beside the members it passes", () => {
  const none = new Uint8Array(3), links = [1, 2, 5]; // 0 → 1, 0 → 2, 1 → 2
  assert.deepEqual(arrange({ n: 3, links, reads: none, feeds: none }).layers, [[0], [1, 3], [2]]);
  assert.throws(() => arrange({ n: 3, links: [3], reads: none, feeds: none }), /parents first/);
});

test("a cache changes nothing but the time", () => {
  const cache = placeCache(), open = new Set<number>();
  for (const block of [3, 5, 3, 0, 5, 9, 3]) {
    if (!open.delete(block)) open.add(block);
    for (const direction of ["down", "right"] as const) {
      assert.deepEqual(place(blocks(12, open), direction, cache), place(blocks(12, open), direction));
    }
  }
});

test("a picture is not changed by what is placed after it with the same cache", () => {
  const cache = placeCache(), first = place(blocks(6, new Set([1])), "down", cache), copy = structuredClone(first);
  place(blocks(6, new Set([1, 2])), "down", cache);
  assert.deepEqual(first, copy);
});

test("edges lead one way, in both directions", () => {
  const drawing = blocks(8, new Set([1, 4]));
  const down = place(drawing, "down"), right = place(drawing, "right");
  for (const { parent, child } of drawing.edges) {
    assert.ok(down.boxes[parent].y + down.boxes[parent].height < down.boxes[child].y);
    assert.ok(right.boxes[parent].x + right.boxes[parent].width < right.boxes[child].x);
  }
});

test("nothing at all can be placed", () => {
  const { boxes, lines } = place({ boxes: [], frames: [{ key: "", title: "", parent: -1 }], edges: [] });
  assert.deepEqual([boxes, lines], [[], []]);
});
