// Tests of box-of-node.ts.

import assert from "node:assert/strict";
import { test } from "node:test";

import { exampleView } from "./example";
import { folded } from "./fold";
import { nodesOf, nodeBoxes, aggregate } from "./box-of-node";
import type { Fold } from "../lib/wire";

const view = exampleView(3); // nodes: 0 input; 1–5, 6–10, 11–15 blocks; 16 head. Groups: 1 h.0, 2 h.0.attn, 3 h.1 …

function drawn(how: Partial<Fold>, of = view) {
  const { picture, box } = folded(of, { open: [0], rolled: false, apart: [], ...how });
  const found = nodeBoxes(picture, box);
  const nodes = (key: string): readonly number[] => nodesOf(of, picture, found, key);
  return { picture, found, nodes, keys: picture.boxes.map(({ key }) => key) };
}

test("a stack stands for the nodes of all its blocks", () => {
  const { keys, nodes } = drawn({});
  assert.deepEqual(keys, ["n0", "g1", "n16"]);
  assert.equal(nodes("g1").length, 15);
});

test("in an open block of a stack, each op stands for its like in the others", () => {
  const { nodes } = drawn({ open: [0, 1] });
  assert.deepEqual([nodes("g2"), nodes("n4"), nodes("n5")], [[1, 2, 3, 6, 7, 8, 11, 12, 13], [4, 9, 14], [5, 10, 15]]);
});

test("blocks drawn one by one stand for themselves", () => {
  assert.deepEqual(drawn({ apart: [0] }).nodes("g3"), [6, 7, 8, 9, 10]);
});

test("a rolled-up op stands for all its passes", () => {
  const loop = exampleView(1);
  loop.nodes.rolled = loop.nodes.rolled.map((node) => (node === 5 ? 4 : node));
  assert.deepEqual(drawn({ open: [0, 1, 2], rolled: true }, loop).nodes("n4"), [4, 5]);
});

test("a stand-in means what it stands for", () => {
  const crowd = exampleView(1);
  const n = crowd.nodes.row.length;
  crowd.edges.parent.push(...Array(n - 2).fill(0));
  crowd.edges.child.push(...Array.from({ length: n - 2 }, (_, i) => i + 2));
  crowd.edges.argument.push(...Array(n - 2).fill(""));
  const { keys } = drawn({ open: [0, 1, 2] }, crowd);
  assert.ok(!keys.some((key) => key.startsWith("s")), "as few users as these need no stand-in");
  const wide = exampleView(12);
  for (let child = 2; child < wide.nodes.row.length; child += 3) {
    wide.edges.parent.push(0);
    wide.edges.child.push(child);
    wide.edges.argument.push("");
  }
  const open = drawn({ open: wide.groups.parent.map((_, group) => group), apart: [0] }, wide);
  const standin = open.keys.find((key) => key.startsWith("s"));
  assert.ok(standin);
  assert.deepEqual(open.nodes(standin), [0]);
});

test("a frame means all that is in it", () => {
  assert.deepEqual(drawn({ open: [0, 1, 2] }).nodes("g2"), [1, 2, 3]);
});

test("sums add up, other measures show the one farthest from zero", () => {
  const measure = { ...view.measures[0], values: [1, null, -5, 2] };
  assert.equal(aggregate(measure, [0, 1, 2, 3]), -2);
  assert.equal(aggregate({ ...measure, total: "max" }, [0, 1, 2, 3]), -5);
  assert.equal(aggregate(measure, [1]), null);
  assert.ok(Number.isNaN(aggregate({ ...measure, total: "max", values: [1, NaN, 3] }, [0, 1])));
});
