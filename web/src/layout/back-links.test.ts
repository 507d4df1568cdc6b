// Tests of back-links.ts.

import assert from "node:assert/strict";
import { test } from "node:test";
import { exampleView } from "./example";
import { folded } from "./fold";
import { FEEDBACK_SIGN, iterationLabel, withFeedbackEdges } from "./back-links";
import { place } from "./place";

const view = exampleView(2);
const open = view.groups.parent.map((_, group) => group);

test("a link that leads back is drawn, once between two boxes, and arrives as one", () => {
  const last = view.nodes.row.length - 1;
  const all = withFeedbackEdges(folded(view, { open, rolled: false, apart: [0] }), [[last, 0], [last, 0]]);
  const [edge] = all.picture.edges.filter(({ label }) => label === FEEDBACK_SIGN);
  assert.deepEqual([edge.parent, edge.child], [all.box[last], all.box[0]]);
  const lines = place(all.picture, "right").lines.filter(({ is_feedback }) => is_feedback);
  assert.equal(lines.length, 1);
});

test("a loop within one folded module is drawn around its box", () => {
  const own = withFeedbackEdges(folded(view, { open: [0], rolled: false, apart: [0] }), [[3, 2]]);
  const edge = own.picture.edges.at(-1)!;
  assert.equal(edge.parent, edge.child);
  assert.ok(place(own.picture, "down").lines.some(({ is_feedback }) => is_feedback));
});

test("iterations are told by their numbers", () => {
  assert.equal(iterationLabel("Out 1 In 2"), "1 → 2");
  assert.equal(iterationLabel("Out 1–3 In 2–4"), "1–3 → 2–4");
  assert.equal(iterationLabel("Out 2"), "of 2");
  assert.equal(iterationLabel("In 1"), "in 1");
  assert.equal(iterationLabel(""), "");
  assert.equal(iterationLabel("input"), "input");
});
