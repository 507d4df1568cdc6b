// Tests of box-colors.ts.

import assert from "node:assert/strict";
import { test } from "node:test";
import { PLAIN } from "../../canvas/types";
import { exampleView } from "../../layout/example";
import { folded } from "../../layout/fold";
import { nodeBoxes } from "../../layout/box-of-node";
import { Representatives } from "../../layout/representatives";
import { scaleFor, type Anomaly } from "../../lib/values/node-colors";
import { ANOMALY_COLORS, colorBoxes, withEdges } from "./box-colors";

const view = exampleView(1);
const n = view.nodes.row.length;

function drawn(open: number[]) {
  const fold = { open, rolled: false, apart: [] };
  const { picture, box } = folded(view, fold);
  return { view, fold, picture, nodeBoxes: nodeBoxes(picture, box), representatives: new Representatives(view, fold) };
}

function coloring(values: number[], anomalies: Anomaly[], isFilled = false) {
  const nodeValues = { title: "", isChange: false, values: Float64Array.from(values), anomalies, counts: new Float64Array(n) };
  return { nodeValues, scale: scaleFor(nodeValues, "norm"), isFilled, chosen: (nodes: readonly number[]) => nodes };
}

const values = Array.from({ length: n }, (_, node) => 10 ** node);
const fine = values.map((): Anomaly => "");

test("every box has a color, from blue for the smallest to red for the largest", () => {
  const { boxes } = colorBoxes(PLAIN, drawn(view.groups.parent.map((_, group) => group)), coloring(values, fine));
  assert.equal(boxes.size, n);
  assert.equal(boxes.get("n0")!.strip, "rgb(45,58,140)");
  assert.equal(boxes.get(`n${n - 1}`)!.strip, "rgb(179,37,63)");
  assert.equal(boxes.get("n0")!.fill, undefined);
});

test("a box that is drawn once for several blocks has a cell for each", () => {
  const many = exampleView(4);
  const fold = { open: [0], rolled: false, apart: [] };
  const { picture, box } = folded(many, fold);
  const stack = { view: many, fold, picture, nodeBoxes: nodeBoxes(picture, box), representatives: new Representatives(many, fold) };
  const count = many.nodes.row.length;
  const numbers = many.nodes.group.map((group) => (many.groups.label[group].startsWith("h.2") ? 1e6 : 1));
  const nodeValues = { title: "", isChange: false, values: Float64Array.from(numbers), anomalies: numbers.map((): Anomaly => ""), counts: new Float64Array(count) };
  const given = { nodeValues, scale: scaleFor(nodeValues, "norm"), isFilled: false, chosen: (nodes: readonly number[]) => nodes };
  const { cells } = colorBoxes(PLAIN, stack, given).boxes.get("g1")!;
  assert.deepEqual(cells, ["rgb(45,58,140)", "rgb(45,58,140)", "rgb(179,37,63)", "rgb(45,58,140)"]);
});

test("what leaps to the eye has a ring and a word", () => {
  const given = { ...coloring(values, fine), marks: new Map([[2, { text: "NaN starts here", about: "", how: "broken" as const }]]) };
  const { boxes } = colorBoxes(PLAIN, drawn(view.groups.parent.map((_, group) => group)), given);
  assert.deepEqual([boxes.get("n2")!.ring, boxes.get("n2")!.note], [ANOMALY_COLORS.nonfinite, "NaN starts here"]);
  assert.equal(boxes.get("n3")!.ring, undefined);
});

test("an input beyond the scale has no color and does not stretch it", () => {
  const nodeValues = coloring(values.with(0, 1e9), fine).nodeValues;
  const scale = scaleFor(nodeValues, "norm", (node) => view.nodes.kind[node] === "input");
  assert.equal(scale!.high, values.at(-1));
  const { boxes } = colorBoxes(PLAIN, drawn(view.groups.parent.map((_, group) => group)), { ...coloring(values, fine), nodeValues, scale });
  assert.equal(boxes.get("n0"), undefined);
});

test("NaN, zeros and gaps have signs of their own, not colors of the ramp", () => {
  const odd = fine.with(1, "nonfinite").with(2, "zero").with(4, "none");
  const given = coloring(values.with(1, NaN).with(2, 0).with(4, NaN), odd, true);
  const { boxes } = colorBoxes(PLAIN, drawn(view.groups.parent.map((_, group) => group)), given);
  assert.deepEqual([boxes.get("n1")!.strip, boxes.get("n1")!.badge, boxes.get("n1")!.fill], [ANOMALY_COLORS.nonfinite, "NaN", ANOMALY_COLORS.nonfinite]);
  assert.deepEqual([boxes.get("n2")!.strip, boxes.get("n2")!.badge], [ANOMALY_COLORS.zero, "all 0"]);
  assert.equal(boxes.get("n4"), undefined);
});

test("a folded module shows its largest number, and a NaN in it", () => {
  const closed = drawn([0]);
  const module = (given: ReturnType<typeof coloring>) => colorBoxes(PLAIN, closed, given).boxes.get("g1")!;
  const flat = coloring(values, fine);
  assert.equal(module(flat).strip, colorBoxes(PLAIN, drawn(view.groups.parent.map((_, group) => group)), flat).boxes.get("n5")!.strip);
  assert.equal(module(coloring(values.with(3, NaN), fine.with(3, "nonfinite"))).badge, "NaN");
});

test("too many edges are hidden, edges without a gradient are faint, and a highlight stays", () => {
  const all = drawn(view.groups.parent.map((_, group) => group));
  assert.equal(withEdges(PLAIN, all, new Set(), true).otherEdges, "hidden");
  assert.equal(withEdges({ ...PLAIN, otherEdges: "faint" }, all, new Set(), true).otherEdges, "faint");
  const { parent, child } = view.edges;
  const { edges } = withEdges(PLAIN, all, new Set([0]), false);
  assert.deepEqual([...edges], [[`n${parent[0]}>n${child[0]}`, "faint"]]);
});
