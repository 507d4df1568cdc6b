import assert from "node:assert/strict";
import { test } from "node:test";

import { cardsOf, ranked, remark, titleOf } from "./statistics";
import type { StatisticView } from "./wire";

const one = (name: string, value: number | null, also: Partial<StatisticView> = {}): StatisticView => ({
  name, value, word: "", z_history: null, z_step: null, n_history: 20, n_step: 12, ...also,
});

test("the usual statistics come first, quantiles last and in order, pieces of the histogram not at all", () => {
  assert.deepEqual(ranked(["p99", "h0", "p5", "kurtosis", "std", "low", "mean"]), ["mean", "std", "kurtosis", "p5", "p99"]);
  assert.equal(titleOf("abs_mean"), "abs mean");
});

test("a number that is far from its siblings or its past is marked, and named in a sentence", () => {
  const statistics = [one("mean", 1, { z_step: 2 }), one("std", 3e-6, { z_step: -6.24, z_history: 5.5 })];
  const cards = cardsOf(statistics);
  assert.deepEqual(cards.map(({ isOut }) => isOut), [false, true]);
  assert.deepEqual(cards[1].marks, ["z −6.2 vs. step", "z 5.5 vs. past"]);
  assert.equal(remark(statistics), "std far below the other tensors of its role (12)");
  assert.equal(remark([one("mean", 1)]), "");
});

test("zeros are told as a share, and what is not finite in one card", () => {
  const cards = cardsOf([one("count", 200), one("zeros", 50), one("nans", 3), one("infs", 0), one("nonfinite", 1)]);
  assert.deepEqual(cards.map(({ title, text, isOut }) => [title, text, isOut]), [["zeros", "25 %", false], ["NaN · Inf", "3 · 0", true]]);
  assert.equal(cards[0].exact, "50 of 200");
});

test("a mean that is not finite is told as such, and stands out", () => {
  const [card] = cardsOf([one("mean", null, { word: "-inf" })]);
  assert.deepEqual([card.text, card.isOut], ["−∞", true]);
  assert.equal(cardsOf([one("mean", null)])[0].text, "–");
});

test("what is broken is said before what is far off", () => {
  assert.equal(remark([one("std", 1, { z_step: 99 }), one("nans", 2)]), "holds NaN");
});
