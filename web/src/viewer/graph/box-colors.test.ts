// Tests of box-colors.ts.

import assert from "node:assert/strict";
import { test } from "node:test";
import { PLAIN } from "../../canvas/types";
import { exampleView } from "../../layout/example";
import { folded } from "../../layout/fold";
import { nodeBoxes } from "../../layout/box-of-node";
import { Representatives } from "../../layout/representatives";
import { scaleBetween, type Anomaly } from "../../lib/values/node-colors";
import type { TrainingMark } from "../../lib/wire";
import { colorBoxes, withEdges } from "./box-colors";

const view = exampleView(1);
const n = view.nodes.row.length;

function drawn(open: number[]) {
  const fold = { open, rolled: false, apart: [] };
  const { picture, box } = folded(view, fold);
  return { view, fold, picture, nodeBoxes: nodeBoxes(picture, box), representatives: new Representatives(view, fold) };
}

function coloring(values: number[], anomalies: Anomaly[], isFilled = false) {
  const nodeValues = { title: "", isChange: false, values: Float64Array.from(values), anomalies, counts: new Float64Array(n) };
  return { nodeValues, scale: scaleBetween({ low: 1, high: 10 ** (n - 1), scale: "log", knee: 0 }, false), isFilled, chosen: (nodes: readonly number[]) => nodes };
}

const values = Array.from({ length: n }, (_, node) => 10 ** node);
const fine = values.map((): Anomaly => "");

test("every box has a color, from the palest for the smallest to the darkest for the largest", () => {
  const { boxes } = colorBoxes(PLAIN, drawn(view.groups.parent.map((_, group) => group)), coloring(values, fine));
  assert.equal(boxes.size, n);
  assert.equal(boxes.get("n0")!.strip, "rgb(238,233,218)");
  assert.equal(boxes.get(`n${n - 1}`)!.strip, "rgb(88,24,92)");
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
  const given = { nodeValues, scale: scaleBetween({ low: 1, high: 1e6, scale: "log", knee: 0 }, false), isFilled: false, chosen: (nodes: readonly number[]) => nodes };
  const { cells } = colorBoxes(PLAIN, stack, given).boxes.get("g1")!;
  assert.deepEqual(cells, ["rgb(238,233,218)", "rgb(238,233,218)", "rgb(88,24,92)", "rgb(238,233,218)"]);
});

test("what leaps to the eye has a ring and a word", () => {
  const given = { ...coloring(values, fine), marks: new Map([[2, { text: "NaN starts here", about: "", how: "broken" as const }]]) };
  const { boxes } = colorBoxes(PLAIN, drawn(view.groups.parent.map((_, group) => group)), given);
  assert.deepEqual([boxes.get("n2")!.ring, boxes.get("n2")!.note], ["#d000d0", "NaN starts here"]);
  assert.equal(boxes.get("n3")!.ring, undefined);
});

test("NaN, Inf, zeros and masks have signs of their own, what is apart or missing has none", () => {
  const odd = fine.with(0, "apart").with(1, "nan").with(2, "zero").with(3, "inf").with(4, "none").with(5, "mask");
  const { boxes } = colorBoxes(PLAIN, drawn(view.groups.parent.map((_, group) => group)), coloring(values.with(1, NaN).with(2, 0), odd, true));
  assert.deepEqual([1, 2, 3, 5].map((node) => [boxes.get(`n${node}`)!.holds, boxes.get(`n${node}`)!.strip, boxes.get(`n${node}`)!.fill]), [["nan", undefined, undefined], ["zero", undefined, undefined], ["inf", undefined, undefined], ["mask", undefined, undefined]]);
  assert.equal(boxes.get("n2")!.words, "all zero");
  assert.deepEqual([boxes.get("n0"), boxes.get("n4")], [undefined, undefined]);
});

test("what training does not reach has a badge and words, also without a color", () => {
  const mark: TrainingMark = { row: 0, state: "no gradient", since: 40, is_first: false, text: "no gradient since step 40", about: "why" };
  const given = { ...coloring(values, fine.with(2, "none")), training: new Map([[2, mark]]) };
  const look = colorBoxes(PLAIN, drawn(view.groups.parent.map((_, group) => group)), given).boxes.get("n2")!;
  assert.deepEqual([look.corner, look.words, look.about, look.strip, look.ring], ["no gradient", "no gradient since step 40", "why", undefined, undefined]);
});

test("a folded module shows its largest number, and a NaN in it", () => {
  const closed = drawn([0]);
  const module = (given: ReturnType<typeof coloring>) => colorBoxes(PLAIN, closed, given).boxes.get("g1")!;
  const flat = coloring(values, fine);
  assert.equal(module(flat).strip, colorBoxes(PLAIN, drawn(view.groups.parent.map((_, group) => group)), flat).boxes.get("n5")!.strip);
  assert.equal(module(coloring(values.with(3, NaN), fine.with(3, "nan"))).holds, "nan");
});

test("too many edges are hidden, edges without a gradient are faint, and a highlight stays", () => {
  const all = drawn(view.groups.parent.map((_, group) => group));
  assert.equal(withEdges(PLAIN, all, new Set(), true).otherEdges, "hidden");
  assert.equal(withEdges({ ...PLAIN, otherEdges: "faint" }, all, new Set(), true).otherEdges, "faint");
  const { parent, child } = view.edges;
  const { edges } = withEdges(PLAIN, all, new Set([0]), false);
  assert.deepEqual([...edges], [[`n${parent[0]}>n${child[0]}`, "faint"]]);
});
