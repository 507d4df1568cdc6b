// Tests of detail.ts.

import assert from "node:assert/strict";
import { test } from "node:test";
import { EM, detailAt, fittedName, shortenName } from "./detail";

test("nearer never shows less", () => {
  let before = detailAt(0.001);
  for (let scale = 0.001; scale < 4; scale *= 1.1) {
    const now = detailAt(scale);
    for (const part of ["lines", "names", "outlines", "tips", "curves"] as const) assert.ok(Number(now[part]) >= Number(before[part]), part);
    assert.ok(now.edgeAlpha >= before.edgeAlpha && now.edgeAlpha <= 1);
    before = now;
  }
});

test("a fitted name stays in its box and can be read", () => {
  for (const name of ["x", "relu_1", "transformer.h.11.attn.softmax", "a_rather_long_name_without_any_dots"]) {
    for (let width = 4; width < 300; width += 7) for (let height = 2; height < 40; height += 3) {
      const fitted = fittedName(name, width, height, 0.4);
      if (!fitted) continue;
      assert.ok(fitted.size >= 7 && fitted.size <= 12);
      assert.ok(fitted.text.length * fitted.size * EM <= width + 1e-9, `${fitted.text} in ${width}`);
      assert.ok(fitted.size < height);
    }
  }
});

test("a part that is read with ease is worth more than a whole that is not", () => {
  assert.deepEqual(fittedName("h.0.attn", 40, 20, 0.5), { text: "attn", size: 12 });
  assert.deepEqual(fittedName("h.0.attn", 80, 20, 0.5), { text: "h.0.attn", size: 12 });
});

test("of a long name the telling part is kept", () => {
  assert.equal(shortenName("h.11.attn.softmax", 20), "h.11.attn.softmax");
  assert.equal(shortenName("h.11 (Block)", 8), "h.11");
  assert.equal(shortenName("h.11.attn.softmax", 12), "attn.softmax");
  assert.equal(shortenName("h.11.attn.softmax", 8), "softmax");
  assert.equal(shortenName("model.h.11.heads.7 (Att)", 9), "heads.7");
  assert.equal(shortenName("model.h.11.heads.7 (Att)", 3), "7");
  assert.equal(shortenName("down_blocks.0", 7), "…ocks.0", "a number alone does not say which list it counts");
  assert.equal(shortenName("h.11.attn.softmax", 6), "softm…");
  assert.equal(shortenName("h.11.attn.softmax", 5), "");
});
