// Tests of the numbers in the panel: bars, ratios, dots, names.

import assert from "node:assert/strict";
import { test } from "node:test";
import type { ChangedSample, RowView } from "../../lib/wire";
import { exampleRun } from "../example";
import { spacedApart } from "../charts/spike-marks";
import { dotScale, othersOf } from "./dots";
import { nameOf, titleOfSample } from "./names";
import { percent, usualRange } from "./samples";
import { ratioText, zWidth } from "./tensors";

test("bars of z-scores are logarithmic and end at the largest", () => {
  assert.deepEqual([0, 99, 500].map(zWidth), [0, 100, 100]);
  assert.ok(zWidth(5) > 30 && zWidth(5) < 45);
});

test("ratios have few figures", () => {
  assert.deepEqual([41.2, 3.24, 1, 0.07, 12345, 4e9, -2.4, null].map(ratioText), ["×41", "×3.2", "×1", "×0.07", "×12,345", "×4e9", "×−2.4", "–"]);
});

test("shares", () => {
  assert.deepEqual([0.853, 0.004, 0, 1].map(percent), ["85 %", "< 1 %", "0 %", "100 %"]);
});

test("dots are on a logarithmic scale where values span more than a factor of 20", () => {
  const wide = dotScale([9, 18, 662]);
  assert.ok(wide.isLog);
  assert.deepEqual(wide.ticks, [10, 100]);
  assert.ok(wide.x(9) < wide.x(18) && wide.x(18) < wide.x(662));
  const close = dotScale([1, 2, 3]);
  assert.ok(!close.isLog);
  assert.deepEqual(close.ticks, [1, 3]);
  assert.deepEqual(dotScale([2, 2]).ticks, [2]);
  assert.ok(!dotScale([-1, 50]).isLog);
});

test("the others are all but the sample itself, and only known ones", () => {
  const strip = { row: 0, statistic: "abs_max", values: [1, 255, null, 0.5] };
  assert.deepEqual(othersOf(strip, 1), [0.5, 1]);
  assert.equal(othersOf({ ...strip, values: [3, null] }, 0), null);
});

test("names of tensors and samples", () => {
  const row = exampleRun("a").rows[0];
  const named = (site: string, names: string[] = []): string => nameOf({ ...row, site, names } as RowView);
  assert.deepEqual([named(".@in.0"), named("$target"), named(".", ["head"]), named("."), named("h.0")], ["input 0", "target", "head", "output", "h.0"]);
  const sample = { number: null, position: 20, item: null } as ChangedSample;
  assert.equal(titleOfSample(sample), "20");
  assert.equal(titleOfSample({ ...sample, number: 3 }), "3");
});

test("pictures share the range of most of them", () => {
  const sample = (low: number, high: number): ChangedSample => ({ item: { image: { low, high } } }) as ChangedSample;
  assert.deepEqual(usualRange([sample(0, 255), sample(0, 1), sample(0.1, 1), sample(0, 1)]), [0, 1]);
  assert.equal(usualRange([{ item: null } as ChangedSample]), undefined);
});

test("marks too close together share one", () => {
  assert.deepEqual(spacedApart([0, 3, 12, 13, 30]), [0, 2, 4]);
  assert.deepEqual(spacedApart([]), []);
});
