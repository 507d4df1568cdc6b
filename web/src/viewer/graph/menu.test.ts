// Tests of menu.ts.

import assert from "node:assert/strict";
import { test } from "node:test";
import { adjacency } from "../../lib/reachability";
import { menuItems, type LayoutActions } from "./menu";
import type { LayoutOverride } from "./layout-overrides";

function arranging(told: Partial<LayoutActions> = {}): { how: LayoutActions; said: Record<string, unknown> } {
  const said: Record<string, unknown> = {};
  const keep = (name: string) => (value?: unknown): void => void (said[name] = value);
  const how: LayoutActions = {
    n: 5, ways: adjacency(5, [0, 1, 2, 3], [1, 2, 3, 4]), hidden: new Set([4]), pinned: new Set(), isMoved: false, overrides: [],
    hide: keep("hide"), pin: keep("pin"), back: keep("back"), move: keep("move"), override: keep("override"), rename: keep("rename"), ...told,
  };
  return { how, said };
}

function run(text: string, about: Parameters<typeof menuItems>[0], told: Partial<LayoutActions> = {}): Record<string, unknown> {
  const { how, said } = arranging(told);
  const item = menuItems(about, how).find((one) => one.text.startsWith(text));
  assert.ok(item, `there is no '${text}'`);
  item.run();
  return said;
}

const about = { key: "n2", nodes: [2], names: ["c"], selected: { names: ["a"], title: "a" } };

test("what is hidden joins what was hidden before", () => {
  assert.deepEqual(run("Hide", about).hide, new Set([2, 4]));
});

test("alone, a box is seen with its neighbors", () => {
  assert.deepEqual(run("Show only this", about).hide, new Set([0, 4]));
});

test("a box is grouped with the selected one, and taken out again", () => {
  const { override } = run("Group with a", about) as { override: LayoutOverride[] };
  assert.deepEqual(override, [{ at: "a", within: "group 1" }, { at: "c", within: "group 1" }]);
  assert.deepEqual((run("Remove from group 1", about, { overrides: override }).override as LayoutOverride[]).at(-1), { at: "c", within: "" });
  assert.equal(run("Rename group 1", about, { overrides: override }).rename, "group 1");
});
