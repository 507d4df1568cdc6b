// Tests of statistics.ts.

import assert from "node:assert/strict";
import { test } from "node:test";

import { aboutOf, allMissing, cardsOf, isHistogramPart, isQuantile, isLogScaled, selectableStatistics, remark, compareWithSibling, statisticOf, titleOf, defaultStatistic, plainContents, zText } from "./statistics";
import { HOLDS_INF, HOLDS_MASK, HOLDS_NAN, HOLDS_NUMBERS, HOLDS_ZEROS, STATISTICS, type StatisticView, type Unusual } from "../wire";

const one = (name: string, value: number | null, also: Partial<StatisticView> = {}): StatisticView => ({
  name, value, non_finite: "", z_past: null, z_peers: null, n_past: 20, n_peers: 12, usual: null, unusual: null, ...also,
});
const unusual = (text: string, z: number): Unusual => ({ row: 0, statistic: "std", z_past: z, z_peers: null, ratio: null, is_above: z > 0, text, about: `${text}, since when` });
const said = (statistics: StatisticView[], contents = HOLDS_NUMBERS): string => remark({ statistics, contents }).text;

test("the usual statistics come first, quantiles last and in order, pieces of the histogram not at all", () => {
  assert.deepEqual(selectableStatistics(["p99", "h0", "p5", "kurtosis", "std", "low", "mean"]), ["mean", "std", "kurtosis", "p5", "p99"]);
  assert.equal(titleOf("abs_mean"), "abs mean");
});

test("everything about a statistic is read off the table, and one that is not in it is called by its name", () => {
  assert.deepEqual(selectableStatistics(STATISTICS.map(({ name }) => name).reverse()), STATISTICS.filter(({ part }) => part !== "histogram").map(({ name }) => name));
  for (const { name, title, part, scale } of STATISTICS) {
    assert.deepEqual([titleOf(name), isHistogramPart(name), isQuantile(name), isLogScaled(name)], [title, part === "histogram", part === "quantile", scale === "log"]);
  }
  assert.deepEqual([statisticOf("kurtosis_4").title, aboutOf("kurtosis_4"), isLogScaled("kurtosis_4")], ["kurtosis 4", "", false]);
  assert.match(aboutOf("batch_std"), /^Standard deviation over the samples of the batch/);
});

test("a statistic of the table has a card wherever it was recorded, faults one for all", () => {
  const names = STATISTICS.filter(({ part, name }) => part === "number" && name !== "count").map(({ name }) => name);
  const faults = STATISTICS.filter(({ is_fault }) => is_fault).map(({ name }) => name);
  const shown = cardsOf([one("count", 100), ...names.map((name) => one(name, 1))]).map(({ name }) => name);
  assert.deepEqual(shown, names.filter((name) => !faults.includes(name) || name === "nans"));
});

test("at first the size of the values is shown, else what comes first", () => {
  assert.deepEqual([defaultStatistic(["norm", "std", "mean"]), defaultStatistic(["max", "mean"]), defaultStatistic(["h0"]), defaultStatistic(["own"])], ["std", "mean", "", "own"]);
});

test("what the server calls unusual is marked with its words, the strongest in a sentence; z-scores alone mark nothing", () => {
  const statistics = [one("mean", 1, { z_past: 7 }), one("std", 3, { unusual: unusual("×3 of usual", 6) }), one("norm", 9, { unusual: unusual("×9 of usual", -30) })];
  assert.deepEqual(cardsOf(statistics).map(({ marks, isOut }) => [marks, isOut]), [[[], false], [["×3 of usual"], true], [["×9 of usual"], true]]);
  assert.deepEqual(remark({ statistics, contents: HOLDS_NUMBERS }), { text: "norm ×9 of usual", about: "×9 of usual, since when" });
  assert.equal(said([one("mean", 1)]), "");
});

test("NaN and Inf are told apart, and zeros and masks are no fault", () => {
  assert.deepEqual([said([], HOLDS_NAN), said([], HOLDS_INF), said([], HOLDS_ZEROS), said([], HOLDS_MASK)], ["holds NaN", "holds Inf", "", ""]);
  assert.deepEqual([HOLDS_ZEROS, HOLDS_MASK, HOLDS_NUMBERS, HOLDS_NAN].map(plainContents), ["all zero", "holds −Inf, as a mask does", "", ""]);
  const [card] = cardsOf([one("mean", null, { non_finite: "-inf" })], { dead: null, units: 0, isMask: true });
  assert.deepEqual([card.text, card.isOut], ["−∞", false]);
});

test("zeros are told as a share, and what is not finite in one card", () => {
  const cards = cardsOf([one("count", 200), one("zeros", 50), one("nans", 3), one("infs", 0), one("nonfinite", 1)]);
  assert.deepEqual(cards.map(({ title, text, isOut }) => [title, text, isOut]), [["zeros", "25 %", false], ["NaN · Inf", "3 · 0", true]]);
  assert.equal(cards[0].exact, "50 of 200");
});

test("a mean that is not finite is told as such, and stands out", () => {
  const [card] = cardsOf([one("mean", null, { non_finite: "-inf" })]);
  assert.deepEqual([card.text, card.isOut], ["−∞", true]);
  assert.equal(cardsOf([one("mean", null)])[0].text, "–");
});

test("what a tensor cannot have is a dash that says why, and no fault", () => {
  const [card] = cardsOf([one("batch_std", null)]);
  assert.deepEqual([card.text, card.exact, card.isOut], ["–", "none for a tensor without samples, or with one", false]);
  assert.deepEqual([allMissing("batch_std"), allMissing("std")], ["NaN at every step, as for a tensor without samples, or with one.", undefined]);
  assert.equal(cardsOf([one("batch_std", null, { non_finite: "nan" })])[0].isOut, true);
});

test("what is broken is said before what is far off", () => {
  assert.equal(said([one("std", 1, { unusual: unusual("×3 of usual", 6) }), one("nans", 2)], HOLDS_NAN), "holds NaN");
});

test("many dead units are marked, a few are only told", () => {
  const statistics = [one("count", 200), one("zeros", 50), one("mean", 1)];
  const zeros = (dead: number) => cardsOf(statistics, { dead, units: 128 }).find(({ name }) => name === "zeros")!;
  assert.deepEqual([zeros(122).marks, zeros(122).isOut], [["dead units 122"], true]);
  assert.deepEqual([zeros(2).marks, zeros(2).notes, zeros(2).isOut], [[], ["dead units 2"], false]);
  assert.deepEqual(zeros(0), cardsOf(statistics)[1]);
});

test("of a tensor without elements nothing is said, and nothing stands out", () => {
  const statistics = [one("count", 0), one("mean", null, { non_finite: "nan" }), one("nans", null, { non_finite: "nan" }), one("infs", null, { non_finite: "nan" })];
  assert.deepEqual(cardsOf(statistics).map(({ title, text, isOut }) => [title, text, isOut]), [["mean", "–", false], ["NaN · Inf", "–", false]]);
  assert.equal(said(statistics), "");
  assert.equal(said([one("count", 8), one("nans", 8)], HOLDS_NAN), "holds only NaN");
});

test("a sibling of another size is named with the power of ten between them", () => {
  const sibling = { site: "output/out", n: 1, ratio: 1.3e-4 };
  assert.equal(compareWithSibling(sibling, "gradient"), "gradient 10⁴ × smaller than its sibling output/out");
  assert.equal(compareWithSibling({ ...sibling, ratio: 150 }, "value"), "value 150 × larger than its sibling output/out");
  assert.equal(compareWithSibling({ ...sibling, n: 3, ratio: 2e12 }, "update"), "update 10¹² × larger than in most of its 3 siblings, such as output/out");
  assert.equal(compareWithSibling({ ...sibling, ratio: 0 }, "gradient"), "gradient is zero, unlike its sibling output/out");
  assert.equal(compareWithSibling(null, "gradient"), "");
});

test("z-scores that were cut off say so", () => {
  assert.deepEqual([zText(99), zText(-99), zText(-6.24)], ["> 99", "< −99", "−6.2"]);
});
