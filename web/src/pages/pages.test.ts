// Tests of the files in this folder.

import assert from "node:assert/strict";
import { test } from "node:test";

import { asText, type Block } from "./as-text";
import type { Frame } from "./charts/chart";
import { strongestChannel, STRONGEST, strongestAt } from "./strongest-channel";
import { sidesOf } from "./scroll-edges";
import { roomOf } from "./facts";
import { outline } from "./charts/histogram";
import { band, path } from "./charts/lines";
import { LinkedChannels } from "./linked-channels";
import { largest, percent, raw, shortNumber, exactNumber } from "./numbers";
import { nearest, paddedScale, scaleOf } from "./charts/scale";
import { cellShare, cellStyle, rampOf, seriesColor, tokenStyle } from "./colors";
import { tipPlace } from "./tooltip";
import { initialTextCount, visibleToken } from "./tokens";
import { cellAfterKey } from "./grid-keys";
import { colorAt, contrast } from "../lib/colors";

const frame: Frame = { width: 100, height: 100, x: (value) => value * 10, y: (value) => 100 - value };

test("a number is short where it stands, four figures where it is pointed at, whole where it is copied", () => {
  assert.deepEqual([shortNumber(-0.123456789), exactNumber(-0.123456789), raw(-0.123456789)], ["−0.123", "−0.1235", "-0.123456789"]);
  assert.deepEqual([shortNumber(null), exactNumber(null), raw(null), percent(null)], ["–", "no number", "", "–"]);
  assert.deepEqual([exactNumber(1234567), exactNumber(12345.678), exactNumber(1.23456e-9), exactNumber(1e20), exactNumber(0)], ["1,234,567", "12,346", "1.235e−9", "1e20", "0"]);
  assert.deepEqual([exactNumber(0.123456, true), exactNumber(1, true), exactNumber(0.000012345, true), exactNumber(null, true)], ["12.3 %", "100 %", "0.00123 %", "no number"]);
  assert.deepEqual([percent(0.1234), percent(-0.5), percent(1e-5), percent(0), shortNumber(0.1234, true)], ["12.3 %", "−50.0 %", "< 0.1 %", "0.0 %", "12.3 %"]);
  assert.deepEqual([largest([1, -7, null, undefined]), largest([])], [7, 0]);
});

test("a tip stands below what is pointed at, above it where the window ends, and to the left of the right side", () => {
  const around = { left: 100, right: 600, top: 200, bottom: 1000 };
  assert.deepEqual(tipPlace({ left: 150, right: 170, top: 300, bottom: 320 }, around, 900), { left: "50px", top: "125px" });
  assert.deepEqual(tipPlace({ left: 550, right: 570, top: 860, bottom: 880 }, around, 900), { right: "30px", bottom: "145px" });
});

test("it is told at which sides of what is scrolled there is more", () => {
  const box = { scrollLeft: 0, scrollTop: 0, scrollWidth: 100, scrollHeight: 300, clientWidth: 100, clientHeight: 100 };
  assert.deepEqual([0, 50, 200].map((scrollTop) => sidesOf({ ...box, scrollTop })), ["below", "above below", "above"]);
  assert.equal(sidesOf({ ...box, clientHeight: 300, scrollWidth: 200 }), "right");
});

test("texts of one link hear of each other, and of no other link", () => {
  const linked = new LinkedChannels();
  const heard: string[] = [];
  const stop = linked.listen("a", ({ kept }) => heard.push(kept));
  linked.listen("b", () => assert.fail("another link"));
  linked.tell("a", { kept: "2", preview: null });
  stop();
  linked.tell("a", { kept: "3", preview: null });
  assert.deepEqual([heard, linked.of("a")?.kept, linked.of("c")], [["2"], "3", undefined]);
});

test("a fact takes so much room that its longest word is not broken", () => {
  assert.deepEqual(["2,304", "greedy: max_length 12", "TokenizersBackend", "/home/ada/lib/python3.11/site-packages", ""].map(roomOf), ["", "", "long", "longest", ""]);
});

test("keys walk through a line, a list and a grid, and stop at the ends", () => {
  assert.deepEqual(cellAfterKey("ArrowRight", null, 1, 3), [0, 0]);
  assert.deepEqual(cellAfterKey("ArrowRight", [0, 2], 1, 3), [0, 2]);
  assert.deepEqual(cellAfterKey("End", [0, 0], 1, 3), [0, 2]);
  assert.deepEqual(cellAfterKey("Home", [0, 2], 1, 3), [0, 0]);
  assert.equal(cellAfterKey("ArrowDown", [0, 0], 1, 3), null, "the page scrolls");
  assert.deepEqual(cellAfterKey("ArrowDown", [0, 0], 4, 1), [1, 0]);
  assert.deepEqual(cellAfterKey("End", [0, 0], 4, 1), [3, 0]);
  assert.equal(cellAfterKey("ArrowRight", [0, 0], 4, 1), null);
  assert.deepEqual(cellAfterKey("ArrowDown", [1, 1], 3, 3), [2, 1]);
  assert.equal(cellAfterKey("a", [0, 0], 3, 3), null);
  assert.equal(cellAfterKey("ArrowDown", null, 0, 0), null);
});

test("tokens without a number, or where all are zero, have no color", () => {
  for (const isSigned of [true, false]) {
    for (const [value, most] of [[null, 1], [0, 1], [0, 0], [1, 0], [1, NaN]] as const) assert.equal(tokenStyle(value, most, isSigned, false), null);
  }
  assert.equal(tokenStyle(-1, 1, false, false), null, "what has no sign shows nothing below zero");
});

test("signs have colors of their own, and more than the most is the most", () => {
  const [above, below] = [tokenStyle(1, 1, true, false), tokenStyle(-1, 1, true, false)];
  assert.notDeepEqual(above, below);
  assert.deepEqual(tokenStyle(9, 1, true, false), above);
  assert.deepEqual(tokenStyle(-9, 1, true, false), below);
});

test("letters can be read on every color, by day and by night", () => {
  for (const isDark of [false, true]) {
    for (const isSigned of [false, true]) {
      for (let step = -50; step <= 50; step++) {
        const style = tokenStyle(step / 50, 1, isSigned, isDark) ?? cellStyle(step / 50, cells(-1, 1, isSigned), isDark)!;
        assert.ok(contrast(rgb(style.background), rgb(style.color)) >= 4.5, JSON.stringify([style, isDark, isSigned, step]));
      }
    }
  }
});

test("the middle of signed colors is the ground, and both ends are far from it", () => {
  for (const isDark of [false, true]) {
    const ramp = rampOf(true, isDark);
    const ground = colorAt(ramp, 0.5);
    assert.ok(contrast(colorAt(ramp, 0), ground) > 4.5 && contrast(colorAt(ramp, 1), ground) > 4.5);
  }
});

const cells = (low: number, high: number, isSigned = false, isLog = false) => ({ low, high, is_diverging: isSigned, is_log: isLog });

test("a rank of one has the full color, and colors go by its logarithm", () => {
  const ranks = cells(10000, 1, false, true);
  assert.deepEqual([1, 100, 10000, 1e6].map((rank) => Math.round(100 * cellShare(rank, ranks)) / 100), [1, 0.5, 0, 0]);
});

test("a cell between equal ends is in the middle, and one without a number has no color", () => {
  assert.ok(cellStyle(3, cells(3, 3), false));
  assert.equal(cellStyle(null, cells(0, 1, true), true), null);
});

test("a token has the color of the channel that is largest there, and none where all are zero", () => {
  const text = { tokens: ["a", "b", "c", "d"], values: [[1, -3, 0, null], [2, 1, 0, 4]], title: "", marks: [], chooses: [] };
  const block = { kind: "text" as const, title: "", channels: ["u", "v"], texts: [text], is_signed: true, shows_strongest: true, is_share: false, missing: "", link: "", most: [3, 4] };
  assert.deepEqual(text.tokens.map((_, token) => strongestAt(text, token)), [1, 0, -1, 1]);
  const { values, styles } = strongestChannel(block, text, STRONGEST);
  assert.deepEqual(values, [2, -3, null, 4]);
  assert.deepEqual(styles.map((style) => style?.background.includes(seriesColor(0))), [false, true, undefined, false]);
  assert.deepEqual(strongestChannel(block, text, "0").values, [1, -3, 0, null]);
  assert.deepEqual(strongestChannel(block, text, "0").styles.map(Boolean), [true, true, false, false]);
});

test("colors of series begin anew after the last", () => {
  assert.equal(seriesColor(0), seriesColor(8));
  assert.notEqual(seriesColor(0), seriesColor(1));
});

test("what cannot be seen in a token is written as a sign", () => {
  assert.deepEqual(["", " the", "a b", "\n", "x\t", "  "].map(visibleToken), ["∅", "·the", "a b", "↵", "x→", "··"]);
});

test("so many texts are drawn at first as stay within the limit, one at least", () => {
  assert.deepEqual([initialTextCount([10, 10, 10], 25), initialTextCount([90], 25), initialTextCount([90, 1], 25), initialTextCount([], 25)], [2, 1, 1, 0]);
});

test("scales lead from numbers to shares and back, also where all numbers are one", () => {
  for (const scale of [scaleOf(1, 200, true, 5), scaleOf(-3, 8, false, 5), scaleOf(4, 4, false, 5), scaleOf(0, 0, true, 5)]) {
    assert.ok(scale.high > scale.low);
    assert.ok(Math.abs(scale.share(scale.low)) < 1e-12 && Math.abs(scale.share(scale.high) - 1) < 1e-12);
    assert.ok(scale.ticks.every((tick) => scale.share(tick) > -1e-9 && scale.share(tick) < 1 + 1e-9));
    assert.ok(Math.abs(scale.share(scale.value(0.3)) - 0.3) < 1e-12);
  }
});

test("a roomy scale reaches zero where numbers are near it, and holds them all", () => {
  assert.equal(paddedScale([0.1, 1], 4).low, 0);
  assert.ok(paddedScale([90, 91, null], 4).low > 80);
  assert.equal(paddedScale([-1, -0.1], 4).high, 0);
  assert.ok(paddedScale([], 4).high > 0);
});

test("the nearest number is nearest on the scale", () => {
  assert.equal(nearest([1, 10, 100], 30, scaleOf(1, 100, true, 3)), 1);
  assert.equal(nearest([1, 10, 100], 60, scaleOf(1, 100, false, 3)), 2);
  assert.equal(nearest([null], 1, scaleOf(0, 1, false, 3)), -1);
});

test("a line is broken where a number is missing, and so is the band around it", () => {
  assert.equal(path([0, 1, 2, 3], [1, 2, null, 4], frame), "M0.0 99.0L10.0 98.0M30.0 96.0");
  assert.equal(band([0, 1, 2, 3], [0, 0, null, 0], [1, 1, 1, 1], frame), "M0.0 99.0L10.0 99.0L10.0 100.0L0.0 100.0ZM30.0 99.0L30.0 100.0Z");
});

test("the outline of a histogram begins and ends on the ground", () => {
  assert.equal(outline([0, 1, 2], [5, 0], frame), "M0.0 100.0L0.0 95.0L10.0 95.0L10.0 100.0L20.0 100.0L20.0 100.0Z");
});

test("every block is copied as text with whole numbers", () => {
  const said: [Block, string][] = [
    [{ kind: "prose", title: "", text: "a\n\nb" }, "a\n\nb"],
    [{ kind: "facts", title: "", items: [{ name: "n", value: "3", remark: "" }, { name: "m", value: "4", remark: "few" }] }, "n\t3\nm\t4\tfew"],
    [{ kind: "table", title: "", columns: [{ name: "a", kind: "text", about: "" }, { name: "b", kind: "share", about: "" }], rows: [["x\ty\nz", 1 / 3], ["", null]] }, "a\tb\nx y z\t0.3333333333333333\n\t"],
    [{ kind: "lines", title: "", x_name: "n", y_name: "acc", x: [1, 2], x_names: [], is_log_x: false, lines: [{ name: "l", y: [0.5, null], low: [0.4, null], high: [], is_dashed: false }] }, "n\tl\tl low\n1\t0.5\t0.4\n2\t\t"],
    [{ kind: "lines", title: "", x_name: "n", y_name: "p", x: [0, 1], x_names: ["a", "b"], is_log_x: false, lines: [{ name: "l", y: [0.5, 1], low: [], high: [], is_dashed: false }] }, "n\t\tl\n0\ta\t0.5\n1\tb\t1"],
    [{ kind: "bars", title: "", names: ["a"], values: [-1], low: [-2], high: [0], is_signed: true }, "a\t-1\t-2\t0"],
    [{ kind: "histogram", title: "", edges: [0, 1, 2], series: [{ name: "s", counts: [3, 4] }] }, "from\tto\ts\n0\t1\t3\n1\t2\t4"],
    [{ kind: "heatmap", title: "", row_names: ["r"], column_names: ["c", "d"], values: [[1, null]], low: 0, high: 1, is_diverging: false, is_log: false, shows_numbers: true, is_share: false, texts: [], notes: [] }, "\tc\td\nr\t1\t"],
    [{ kind: "heatmap", title: "", row_names: ["r"], column_names: ["c", "d"], values: [[1, 20]], low: 100, high: 1, is_diverging: false, is_log: true, shows_numbers: true, is_share: false, texts: [["a", "b"]], notes: [] }, "\tc\t\td\t\nr\t1\ta\t20\tb"],
    [{ kind: "text", title: "", channels: ["u", "v"], texts: [{ tokens: ["a", "b"], values: [[1, 2], [3, null]], title: "", marks: [], chooses: [] }], is_signed: true, shows_strongest: false, is_share: false, missing: "", link: "", most: [2, 3] }, "text\ttoken\tu\tv\n1\ta\t1\t3\n1\tb\t2\t"],
  ];
  for (const [block, text] of said) assert.equal(asText(block), text);
});

function rgb(color: string): [number, number, number] {
  return color.match(/\d+/g)!.map(Number) as [number, number, number];
}
