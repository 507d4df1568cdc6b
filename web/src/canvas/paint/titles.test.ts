// Tests of titles.ts.

import assert from "node:assert/strict";
import { test } from "node:test";
import { titlesOf } from "./titles";

const screen = { width: 800, height: 600 };
const frame = (title: string, parent: number, x: number, y: number, width: number, height: number) => ({ title, parent, x, y, width, height });

test("a title stands at the top of its frame", () => {
  const [title] = titlesOf([frame("h.0", -1, 100, 50, 300, 200)], screen, 1);
  assert.equal(title!.text, "h.0");
  assert.ok(title!.x > 100 && title!.y >= 50 && title!.y < 60);
  assert.equal(title!.isStuck, false);
});

test("a title stays in view while its frame is, below those of the frames around it", () => {
  const [outer, inner] = titlesOf([frame("outer", -1, -50, -300, 600, 900), frame("inner", 0, 20, -200, 400, 700)], screen, 1);
  assert.ok(outer!.isStuck && inner!.isStuck);
  assert.ok(outer!.y >= 0 && inner!.y >= outer!.y + outer!.height);
  assert.ok(outer!.x >= 0);
});

test("a frame that leaves takes its title along", () => {
  const [title] = titlesOf([frame("going", -1, 0, -500, 400, 506)], screen, 1);
  assert.ok(title!.y + title!.height <= 6);
});

test("from afar titles are large enough to read, and inside their frames", () => {
  const frames = Array.from({ length: 40 }, (_, i) => frame(`model.layers.${i}`, -1, 10 + (i % 5) * 150, Math.floor(i / 5) * 70, 20 + i * 3, 60));
  for (const title of titlesOf(frames, screen, 0.05)) {
    const around = frames[title.frame]!;
    assert.ok(title.size >= 11);
    assert.ok(title.x >= around.x && title.x + title.width <= around.x + around.width, title.text);
    assert.ok(title.y >= around.y && title.y + title.height <= around.y + around.height);
  }
});

test("titles never overlap, and the outer ones win", () => {
  const frames = [frame("a", -1, 0, 0, 700, 500), frame("b", 0, 1, 1, 690, 490), frame("c", 1, 2, 2, 300, 300), frame("d", 1, 350, 200, 300, 250)];
  const titles = titlesOf(frames, screen, 0.1);
  assert.equal(titles[0]!.frame, 0);
  assert.ok(titles.some((title) => title.frame === 3));
  for (const a of titles) for (const b of titles) {
    if (a !== b) assert.ok(a.x >= b.x + b.width || b.x >= a.x + a.width || a.y >= b.y + b.height || b.y >= a.y + a.height);
  }
});

test("where frames are too narrow, titles stand beside the picture, those of outer frames first", () => {
  const frames = [frame("h.0 (Block)", -1, 100, 0, 20, 200), frame("h.0.attn", 0, 102, 5, 10, 40), frame("h.0.mlp", 0, 102, 60, 10, 30), frame("h.1 (Block)", -1, 100, 200, 20, 100), frame("h.1.mlp", 3, 100, 240, 20, 30)];
  const titles = titlesOf(frames, screen, 0.02, 130);
  assert.deepEqual(titles.map((title) => title.text), ["h.0 (Block)", "h.1 (Block)", "h.0.mlp"]);
  assert.ok(titles.every((title) => title.isOutside && title.x > 130));
  assert.ok(titles[2]!.x > titles[0]!.x);
});

test("a button stands behind the title, and takes the place of the class where both do not fit", () => {
  const action = "show all 12";
  const named = (width: number) => titlesOf([{ ...frame("model.h.0 … 11 ×12 (Block)", -1, 100, 50, width, 200), action }], screen, 1)[0]!;
  assert.equal(named(400).text, "model.h.0 … 11 ×12 (Block)");
  assert.equal(named(400).action?.text, action);
  assert.equal(named(250).text, "model.h.0 … 11 ×12");
  assert.equal(named(250).action?.text, action);
  for (const width of [160, 200, 250, 300, 400]) {
    const title = named(width);
    assert.ok(title.x + title.width <= 100 + width);
    if (title.action) assert.ok(title.action.from > title.text.length * title.size * 0.6);
  }
});
