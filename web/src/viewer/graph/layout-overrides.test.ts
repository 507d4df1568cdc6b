// Tests of layout-overrides.ts.

import assert from "node:assert/strict";
import { test } from "node:test";
import { groupNodes, orderNodes, renameGroup, renumber, arrangementKey, ungroupNodes, parseOverrides, formatOverrides, type LayoutOverride } from "./layout-overrides";

const told = (overrides: readonly LayoutOverride[]): LayoutOverride[] => [...parseOverrides(formatOverrides(overrides))];

test("nodes are put in a new group, or in that of one of them", () => {
  const one = groupNodes([], ["a", "b"]);
  assert.deepEqual(told(one), [{ at: "a", within: "group 1" }, { at: "b", within: "group 1" }]);
  assert.deepEqual(told(groupNodes(one, ["c", "b"])).map(({ within }) => within), ["group 1", "group 1", "group 1"]);
  assert.equal(told(groupNodes(one, ["c"])).at(-1)!.within, "group 2");
});

test("a node without a group and without an order has no override", () => {
  assert.equal(formatOverrides(ungroupNodes(groupNodes([], ["a", "b"]), ["a", "b"])), "");
  assert.deepEqual(told(ungroupNodes(groupNodes(orderNodes([], ["a"], true), ["a"]), ["a"])), [{ at: "a", order: -1 }]);
});

test("a group is renamed for all in it", () => {
  assert.deepEqual(told(renameGroup(groupNodes([], ["a", "b"]), "group 1", "core")).map(({ within }) => within), ["core", "core"]);
});

test("what is put first later stands before what was put first earlier", () => {
  const overrides = told(orderNodes(orderNodes([], ["a"], true), ["b"], true));
  assert.ok(overrides[1].order! < overrides[0].order!);
});

test("invalid text gives no overrides", () => {
  for (const text of ["", "{", "3", '[1, {"at": 2}, null]']) assert.deepEqual(parseOverrides(text), []);
});

test("each set of overrides has its own arrangement", () => {
  assert.equal(arrangementKey("abc", ""), "abc");
  assert.notEqual(arrangementKey("abc", "[1]").slice(0, 8), arrangementKey("abc", "[2]").slice(0, 8));
});

test("things keep their names when numbers change", () => {
  assert.deepEqual(renumber([0, 2, 3], ["a", "b", "c", "d"], ["c", "a"]), new Set([1, 0]));
});
