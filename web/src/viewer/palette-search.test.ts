// Tests of palette-search.ts.

import assert from "node:assert/strict";
import { test } from "node:test";
import { exampleItem, exampleRun } from "./example";
import { searchPalette, paletteItems } from "./palette-search";

const run = exampleRun("a");
const all = paletteItems(run, [exampleItem("a"), exampleItem("b")]);
const titles = (query: string): string[] => searchPalette(all, query, run).map(({ title }) => title);

test("tensors are found by parts of their names, the plainest first", () => {
  assert.deepEqual(titles("blocks.2").slice(0, 2), ["blocks.2", "blocks.2.weight"]);
  assert.deepEqual(titles("weight 3"), ["blocks.3.weight"]);
  assert.deepEqual(titles("b3w"), ["blocks.3.weight"]);
  assert.deepEqual(titles("no such thing"), []);
});

test("a tensor is found by its further names, too", () => {
  assert.equal(titles("blocks.1.out")[0], "blocks.1");
});

test("a number is a step, the next recorded one where it was not", () => {
  assert.deepEqual(searchPalette(all, "120", run)[0].actions, [{ do: "step", step: 120 }]);
  assert.deepEqual(searchPalette(all, "step 1,04", run)[0].actions, [{ do: "step", step: 100 }]);
  assert.match(searchPalette(all, "104", run)[0].about, /not recorded/);
});

test("notes lead to their step, names to runs and tabs", () => {
  assert.deepEqual(searchPalette(all, "jumped", run)[0].actions, [{ do: "step", step: 30 }]);
  assert.deepEqual(searchPalette(all, "demo/b", run)[0].actions, [{ do: "run", id: "b" }]);
  assert.deepEqual(searchPalette(all, "curves", run)[0].actions, [{ do: "tab", tab: "curves" }]);
});

test("what was taken lately comes first, and before what fits as well", () => {
  const recent = ["Tensors blocks.2.weight", "Tabs Notes"];
  const lately = (query: string): string[] => searchPalette(all, query, run, { recent }).map(({ title }) => title);
  assert.deepEqual(lately("").slice(0, 3), ["blocks.2.weight", "Notes", "Start"]);
  assert.equal(lately("weight")[0], "blocks.2.weight");
  assert.equal(lately("blocks.1.w")[0], "blocks.1.weight");
});

test("nothing typed offers the tabs first, and never more than asked for", () => {
  assert.equal(titles("")[0], "Start");
  assert.equal(searchPalette(all, "", run, { most: 7 }).length, 7);
  assert.ok(paletteItems(null, []).length > 0);
});
