// Tests of color.ts.

import assert from "node:assert/strict";
import { test } from "node:test";
import { contrast, inkOn, luminance, mix, parse, withAlpha } from "./color";

test("reads all the ways in which a canvas writes colors", () => {
  for (const text of ["#f80", "#ff8800", "#ff8800ff", "rgb(255,136,0)", "rgb(255 136 0)", "rgba(255, 136, 0, 1)"]) {
    assert.deepEqual(parse(text), { r: 255, g: 136, b: 0, a: 1 }, text);
  }
  assert.equal(parse("#00000080")!.a.toFixed(2), "0.50");
  assert.equal(parse("chartreuse"), null);
});

test("mixing goes from one color to the other", () => {
  assert.equal(mix("#ffffff", "#000000", 1), "rgb(255,255,255)");
  assert.equal(mix("#ffffff", "#000000", 0), "rgb(0,0,0)");
  assert.equal(mix("#ff0000", "#0000ff", 0.5), "rgb(128,0,128)");
  assert.equal(withAlpha("#ff0000", 0.25), "rgba(255,0,0,0.25)");
});

test("luminance and contrast meet the numbers of the guidelines", () => {
  assert.equal(luminance("#ffffff"), 1);
  assert.equal(contrast("#000", "#fff"), 21);
  assert.equal(contrast("#777777", "#ffffff").toFixed(2), "4.48");
});

test("ink is readable on every gray", () => {
  for (let gray = 0; gray < 256; gray += 5) {
    const ground = `rgb(${gray},${gray},${gray})`;
    assert.ok(contrast(ground, inkOn(ground)) >= 4.2, ground);
  }
});
