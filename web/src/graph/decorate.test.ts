// Tests of decorate.ts.

import assert from "node:assert/strict";
import { test } from "node:test";

import { edgeKey } from "../canvas/types";
import { exampleView } from "../layout/example";
import { folded } from "../layout/fold";
import { ancestors, adjacency } from "../lib/reachability";
import { search, searchIndex } from "../lib/search";
import { nodeBoxes } from "../layout/box-of-node";
import { Representatives } from "../layout/representatives";
import type { Fold } from "../lib/wire";
import { boxMeasure, counts, decorations, type DecorationInput, type Drawn } from "./decorate";

const view = exampleView(3); // nodes: 0 input; 1–5, 6–10, 11–15 blocks; 16 head. Groups: 1 h.0, 2 h.0.attn, 3 h.1 …
const NOTHING: DecorationInput = { color: null, size: null, reached: null, found: null, second: null };

function drawn(how: Partial<Fold> = {}, of = view): Drawn {
  const fold = { open: [0], rolled: false, apart: [0], ...how };
  const { picture, box } = folded(of, fold);
  return { view: of, fold, picture, nodeBoxes: nodeBoxes(picture, box), representatives: new Representatives(of, fold) };
}

const closed = drawn(); // n0, g1, g3, g5, n16

test("what is not reached is dim, and a folded group says how much of it is", () => {
  const graph = adjacency(view.nodes.row.length, view.edges.parent, view.edges.child);
  const { boxes, edges, otherEdges } = decorations(closed, { ...NOTHING, reached: ancestors(graph, [7]) });
  assert.deepEqual([boxes.get("g1")?.dim, boxes.get("g3"), boxes.get("g5")], [undefined, { badge: "2 of 5", about: "2 of 5 inside are highlighted" }, { dim: true }]);
  assert.deepEqual([...edges.keys()], [edgeKey("n0", "g1"), edgeKey("g1", "g3")]);
  assert.equal(otherEdges, "faint");
});

test("identical blocks have a button that shows all of them, and the first one that shows them once", () => {
  const actions = (from: Drawn): unknown[] => [...decorations(from, NOTHING).boxes].map(([key, { action }]) => [key, action]);
  assert.deepEqual(actions(drawn({ apart: [] })), [["g1", "show all 3"]]);
  assert.deepEqual(actions(drawn({ apart: [], open: [0, 1] })), [["g1", "show all 3"]]);
  assert.deepEqual(actions(closed), [["g1", "show once"]]);
});

test("hits in a folded group are counted on it", () => {
  const found = search(searchIndex(view), "softmax");
  assert.deepEqual([...counts(closed, found)], [["g1", 1], ["g3", 1], ["g5", 1]]);
  const stack = drawn({ apart: [] });
  assert.equal(decorations(stack, { ...NOTHING, found }).boxes.get("g1")?.badge, "3");
});

test("a group that was found is marked as the box or frame it is, or where it is hidden", () => {
  const found = search(searchIndex(view), "attention");
  assert.deepEqual([...counts(closed, found)], [["g1", 1], ["g3", 1], ["g5", 1]]);
  const open = drawn({ open: [0, 1, 2] });
  assert.equal(decorations(open, { ...NOTHING, found }).boxes.get("g2")?.strong, true);
});

test("a folded group is colored and sized by the sum of what is in it", () => {
  const seconds = boxMeasure(closed, view.measures[0], false);
  const inside = view.measures[0].values.slice(1, 6).reduce<number>((sum, value) => sum + (value ?? 0), 0);
  assert.ok(Math.abs((seconds.values[1] ?? 0) - inside) < 1e-12);
  const { boxes } = decorations(closed, { ...NOTHING, color: seconds, size: seconds });
  assert.equal(boxes.get("g5")?.size, 1);
  assert.ok(boxes.get("g5")?.strip !== boxes.get("g1")?.strip);
});

test("an edge from a stand-in is strong if what it stands for leads there", () => {
  const wide = exampleView(12);
  for (let child = 3; child < wide.nodes.row.length; child += 5) {
    wide.edges.parent.push(0);
    wide.edges.child.push(child);
    wide.edges.argument.push("");
  }
  const open = drawn({}, wide);
  const reached = new Uint8Array(wide.nodes.row.length);
  reached[0] = reached[8] = 1; // of the second block
  const standin = open.picture.boxes.find(({ key, stands_for }) => stands_for[0] === "n0" && key.endsWith("g3"));
  assert.ok(standin);
  assert.deepEqual([...decorations(open, { ...NOTHING, reached }).edges.keys()], [edgeKey(standin.key, "g3")]);
});
