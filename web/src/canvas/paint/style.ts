/** The style of a box: derived from its kind, form, flags and decorations. */

import { CONDITION, FAILED, LIGHT, OUTPUT } from "../../lib/wire";
import type { Form, Kind, Mark } from "../../lib/wire";
import { contrast, inkOn, mix } from "../color";
import type { Theme } from "./theme";
import type { Box, Look } from "../types";

/** Boxes of one style are drawn in one go. */
export interface Style {
  readonly fill: string;
  readonly stroke: string;
  /** In CSS pixels. */
  readonly width: number;
  readonly dash: readonly number[];
  readonly isRound: boolean;
  /** A shape other than a rectangle, so that roles are distinguishable without color. */
  readonly shape: "plain" | "hexagon" | "octagon";
  readonly isItalic: boolean;
  readonly isDouble: boolean;
  readonly name: string;
  readonly more: string;
  readonly alpha: number;
  /** A sign at the corner, so that nothing depends on color alone. */
  readonly sign: string;
  readonly signColor: string;
  /** The one color that is left where boxes are too small for more. */
  readonly coarse: string;
}

type Draft = { -readonly [K in keyof Style]: Style[K] };

export const DIM = 0.26;
const SHADES = [0, 0.16, 0.32, 0.5, 0.7];
const NOTHING = "rgba(0,0,0,0)";

const KINDS: readonly Kind[] = ["input", "buffer", "constant", "plain", "parametric", "made", "standin", "failed", "target", "loss"];
const FORMS: readonly Form[] = ["function", "leaf", "folded", "small"];
const MARKS: readonly Mark[] = ["", "new", "removed", "changed"];

/** Gives out styles, the same object for the same look. */
export class Styles {
  private readonly plain = new Map<number, Style>();
  private readonly decorated = new Map<string, Style>();

  constructor(private readonly theme: Theme) {}

  of(box: Box, look: Look | undefined): Style {
    const code = codeOf(box);
    if (!look) return cached(this.plain, code, () => styleOf(box, undefined, this.theme));
    const key = `${code}|${look.fill ?? ""}|${look.dim ?? ""}|${look.strong ?? ""}|${look.holds === "zero"}`;
    return cached(this.decorated, key, () => styleOf(box, look, this.theme));
  }
}

/** Everything that determines the style of a box, as one number: building strings for 20,000 boxes is slow. */
function codeOf(box: Box): number {
  const form = FORMS.indexOf(box.form) * 4 + MARKS.indexOf(box.mark);
  return ((KINDS.indexOf(box.kind) * 16 + form) * 16 + (box.flags & 15)) * 8 + Math.min(box.shade, 4);
}

function cached<Key>(known: Map<Key, Style>, key: Key, make: () => Style): Style {
  let style = known.get(key);
  if (!style) known.set(key, (style = make()));
  return style;
}

/** How a box looks: kind first, then what is more urgent, each over what came before. */
export function styleOf(box: Box, look: Look | undefined, theme: Theme): Style {
  const style: Draft = {
    fill: theme.panel, stroke: theme.outline, width: 1, dash: [], name: theme.ink, more: theme.soft, alpha: 1,
    isRound: box.form !== "leaf" && box.form !== "folded", shape: "plain", isItalic: false, isDouble: false, sign: "", signColor: "",
    coarse: mix(theme.value, theme.paper, 0.6),
  };
  byKind(style, box, theme);
  byForm(style, box, theme);
  byFlags(style, box, theme);
  byComparison(style, box, theme);
  if (look) byLook(style, look, theme);
  readable(style, theme);
  return style;
}

function byKind(style: Draft, { kind }: Box, theme: Theme): void {
  const tint = theme.isDark ? 0.26 : 0.17;
  if (kind === "input") {
    style.fill = mix(theme.input, theme.panel, tint + 0.08);
    style.stroke = style.coarse = theme.input;
    style.width = 1.5;
  } else if (kind === "target" || kind === "loss") {
    const own = kind === "target" ? theme.target : theme.loss;
    style.fill = mix(own, theme.panel, tint + 0.04);
    style.stroke = style.coarse = own;
    style.width = kind === "target" ? 1.5 : 2;
    style.dash = kind === "target" ? [7, 2.5] : [];
    style.isDouble = kind === "loss";
    style.shape = kind === "loss" ? "hexagon" : "octagon";
  } else if (kind === "parametric") {
    style.fill = mix(theme.param, theme.panel, tint);
    style.stroke = mix(theme.param, theme.panel, 0.75);
    style.coarse = theme.param;
  } else if (kind === "buffer" || kind === "constant") {
    style.fill = theme.gray;
    style.stroke = style.coarse = mix(theme.soft, theme.panel, 0.6);
    if (kind === "constant") style.dash = [2, 2];
  } else if (kind === "made") {
    style.dash = [5, 3];
    style.stroke = theme.soft;
  } else if (kind === "standin") {
    style.fill = NOTHING;
    style.stroke = mix(theme.soft, theme.paper, 0.5);
    style.dash = [1.5, 2.5];
    style.name = theme.soft;
    style.isItalic = true;
    style.coarse = mix(theme.soft, theme.paper, 0.25);
  }
}

function byForm(style: Draft, { form, kind }: Box, theme: Theme): void {
  if (form === "small" && kind === "parametric") style.isRound = false;
  if (form !== "folded") return;
  style.width = 1.5;
  style.stroke = kind === "parametric" ? theme.param : mix(theme.soft, theme.panel, 0.8);
}

function byFlags(style: Draft, { flags, kind }: Box, theme: Theme): void {
  if (flags & LIGHT) style.alpha = 0.6;
  if (flags & CONDITION) {
    style.fill = theme.yellow;
    style.stroke = style.coarse = theme.gold;
    style.width = 1.5;
    style.name = style.more = theme.ink;
    sign(style, "?", theme.gold);
  }
  if (flags & OUTPUT) {
    // A double edge in the color of its kind: red rings are for what is unusual.
    style.width = 1.5;
    style.stroke = kind === "plain" ? theme.ink : style.stroke;
    style.isDouble = true;
  }
  if (flags & FAILED || kind === "failed") {
    style.fill = mix(theme.bad, theme.panel, theme.isDark ? 0.3 : 0.16);
    style.stroke = style.coarse = theme.bad;
    style.width = 2;
    style.name = style.more = theme.ink;
    sign(style, "×", theme.bad);
  }
}

function byComparison(style: Draft, { mark, shade }: Box, theme: Theme): void {
  if (shade > 0) {
    style.fill = mix(theme.amber, theme.panel, SHADES[Math.min(shade, 4)]!);
    style.coarse = mix(theme.amber, theme.paper, SHADES[Math.min(shade, 4)]! + 0.2);
  }
  if (mark) byMark(style, mark, theme);
}

function byMark(style: Draft, mark: Exclude<Mark, "">, theme: Theme): void {
  const color = { new: theme.ok, removed: theme.bad, changed: theme.plum }[mark];
  style.stroke = style.coarse = color;
  style.name = theme.ink;
  style.width = 2;
  style.dash = mark === "removed" ? [3, 3] : [];
  if (mark === "new") style.fill = mix(theme.ok, theme.panel, theme.isDark ? 0.24 : 0.14);
  if (mark === "removed") style.fill = mix(theme.bad, theme.paper, 0.06);
  sign(style, { new: "+", removed: "−", changed: "~" }[mark], color);
}

function byLook(style: Draft, look: Look, theme: Theme): void {
  if (look.holds === "zero") style.fill = theme.panel;
  if (look.fill !== undefined) {
    style.fill = style.coarse = look.fill;
  }
  if (look.strong) {
    style.stroke = theme.accent;
    style.width = 2.5;
    style.dash = [];
    style.coarse = look.fill ?? theme.accent;
  }
  if (look.dim) style.alpha = DIM;
}

function sign(style: Draft, text: string, color: string): void {
  style.sign = text;
  style.signColor = color;
}

/** Text color for any background: unchanged if readable, else shifted towards black or white. */
function readable(style: Draft, theme: Theme): void {
  const ground = style.fill === NOTHING ? theme.paper : style.fill;
  const ink = inkOn(ground);
  for (const part of ["name", "more"] as const) {
    for (let share = 1; share >= 0 && contrast(style[part], ground) < 4.5; share -= 0.25) style[part] = mix(style[part], ink, share);
  }
}
