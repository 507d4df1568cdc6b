// Tests of address.ts and use-spikes.ts.

import assert from "node:assert/strict";
import { test } from "node:test";
import type { SpikesView } from "../../lib/wire";
import { exampleRun } from "../example";
import { INITIAL, reduce, type State } from "../state";
import { closeSpike, openSpike, readSpike, rowOfSource, sourceOfRow, SPIKE, writeSpike, type OpenSpike } from "./address";
import { describeSpike, spikeAt, spikeBeside } from "./use-spikes";

const run = exampleRun("a");

test("a spike is read as it was written", () => {
  const all: OpenSpike[] = [
    { step: 156, source: { scalar: "loss" } },
    { step: 0, source: { scalar: "val/loss, smoothed" } },
    { step: 7, source: { statistic: "std", of: "grad/a,b", iteration: 2, pass: 1, site: "h.0/softmax,2" } },
    { step: 8, source: sourceOfRow(run.rows[0], "abs_mean") },
  ];
  for (const spike of all) assert.deepEqual(readSpike(writeSpike(spike)), spike);
  for (const text of [undefined, "", "x", "12", "-1,logged,loss", "12,logged,", "12,tensor,std,value,0,x,a"]) assert.equal(readSpike(text), null);
});

test("the row of a curve is found in the run, and not guessed in another", () => {
  assert.equal(rowOfSource(run, sourceOfRow(run.rows[1], "std")), run.rows[1]);
  assert.equal(rowOfSource(run, { scalar: "loss" }), null);
  assert.equal(rowOfSource(run, { statistic: "std", of: "value", iteration: 0, pass: 1, site: "nowhere" }), null);
});

test("a spike on a logged curve opens the panel on the tensors tab, with nothing else selected", () => {
  const before: State = { ...INITIAL, tab: "curves", node: "h.0", sample: 3, step: 4 };
  const spike: OpenSpike = { step: 156, source: { scalar: "loss" } };
  const after = openSpike({ state: before }, spike).reduce(reduce, before);
  assert.deepEqual([after.tab, after.node, after.sample, after.step], ["tensors", null, null, 156]);
  assert.deepEqual(readSpike(after.kept[SPIKE]), spike);
  // From one spike to the next, the tensor stays.
  const chosen = { ...after, node: "h.0" };
  assert.equal(openSpike({ state: chosen }, { ...spike, step: 181 }).reduce(reduce, chosen).node, "h.0");
  assert.equal(closeSpike().reduce(reduce, after).kept[SPIKE], undefined);
});

test("the curve of a tensor keeps that tensor selected", () => {
  const before: State = { ...INITIAL, node: "h.0" };
  const after = openSpike({ state: before }, { step: 3, source: sourceOfRow(run.rows[0], "std") }).reduce(reduce, before);
  assert.equal(after.node, "h.0");
});

const spikes: SpikesView = {
  name: "loss", n_values: 300,
  spikes: [
    { step: 156, until: 158, value: 5.83, ratio: 14.2, is_recorded: true }, { step: 181, until: 181, value: null, ratio: null, is_recorded: false },
    { step: 207, until: 207, value: -4, ratio: null, is_recorded: true },
  ],
};

test("the next and the previous spike, also from between them", () => {
  assert.deepEqual([100, 156, 157, 181, 207].map((step) => spikeBeside(spikes, step, 1)?.step), [156, 181, 181, 207, undefined]);
  assert.deepEqual([100, 156, 170, 181, 300].map((step) => spikeBeside(spikes, step, -1)?.step), [undefined, undefined, 156, 156, 207]);
  assert.equal(spikeAt(spikes, 158)?.step, 156);
  assert.equal(spikeAt(spikes, 159), undefined);
  assert.equal(spikeBeside(undefined, 3, 1), undefined);
});

test("marks say what they mark", () => {
  assert.match(describeSpike(spikes.spikes[0]), /steps 156 to 158: 14 times the median before/);
  assert.match(describeSpike(spikes.spikes[1]), /step 181: NaN or Inf/);
  assert.match(describeSpike(spikes.spikes[2]), /far from the values before/);
});
