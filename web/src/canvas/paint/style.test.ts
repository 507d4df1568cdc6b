// Tests of style.ts.

import assert from "node:assert/strict";
import { test } from "node:test";
import type { Form, Kind, Mark } from "../../lib/wire";
import { contrast, parse } from "../color";
import { Styles, styleOf } from "./style";
import { DARK_THEME, LIGHT_THEME } from "./theme";
import type { Box } from "../types";

const KINDS: Kind[] = ["input", "buffer", "constant", "plain", "parametric", "made", "standin", "failed", "target", "loss"];
const FORMS: Form[] = ["function", "leaf", "folded", "small"];
const MARKS: Mark[] = ["", "new", "removed", "changed"];

function box(given: Partial<Box> = {}): Box {
  return { key: "n1", lines: ["relu"], kind: "plain", form: "function", flags: 0, frame: 0, stack: 1, mark: "", shade: 0, ...given };
}

test("text is readable in every box, light and dark", () => {
  for (const theme of [LIGHT_THEME, DARK_THEME]) {
    for (const kind of KINDS) for (const form of FORMS) for (const mark of MARKS) {
      for (const flags of [0, 1, 4, 8]) for (const shade of [0, 1, 2, 3, 4]) {
        const style = styleOf(box({ kind, form, mark, flags, shade }), undefined, theme);
        const ground = parse(style.fill)!.a < 0.5 ? theme.paper : style.fill;
        const where = `${kind} ${form} ${mark} ${flags} ${shade} ${theme.isDark ? "dark" : "light"}`;
        assert.ok(contrast(style.name, ground) >= 4.4, `${where}: ${contrast(style.name, ground)}`);
        assert.ok(contrast(style.more, ground) >= 4.4, `${where}, lines: ${contrast(style.more, ground)}`);
      }
    }
  }
});

test("text is readable on any color that is given", () => {
  for (let i = 0; i < 64; i++) {
    const fill = `rgb(${(i & 3) * 85},${((i >> 2) & 3) * 85},${(i >> 4) * 85})`;
    assert.ok(contrast(styleOf(box(), { fill }, LIGHT_THEME).name, fill) >= 4.4, fill);
  }
});

test("what color tells, a sign, a dash or a second outline tells too", () => {
  const look = (given: Partial<Box>): unknown[] => {
    const { sign, dash, isDouble, isRound, isItalic } = styleOf(box(given), undefined, LIGHT_THEME);
    return [sign, dash.join(), isDouble, isRound, isItalic];
  };
  const urgent = [look({}), look({ mark: "new" }), look({ mark: "removed" }), look({ mark: "changed" }), look({ kind: "failed" }),
    look({ flags: 4 }), look({ flags: 1 }), look({ kind: "made" }), look({ kind: "standin" }), look({ form: "leaf" })];
  assert.equal(new Set(urgent.map(String)).size, urgent.length);
});

test("a style is made once", () => {
  const styles = new Styles(LIGHT_THEME);
  assert.equal(styles.of(box(), undefined), styles.of(box({ key: "n2", lines: ["other"] }), undefined));
  assert.notEqual(styles.of(box(), undefined), styles.of(box(), { dim: true }));
});
