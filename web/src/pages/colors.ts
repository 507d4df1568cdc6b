// Colors of page items: tokens and cells by value, lines and series by index.

import { colorAt, contrast, css, type Ramp, type Rgb } from "../lib/colors";

/** In their order; the same as in views/pages/html.py. */
const SERIES = ["--a", "--b", "--target", "--plum", "--param", "--bad", "--soft", "--input"];

export function seriesColor(place: number): string {
  return `var(${SERIES[place % SERIES.length]})`;
}

/** CSS class of a bar; signed bars have the colors of tokens and cells. */
export function sideOf(value: number, isSigned: boolean): string {
  return isSigned ? (value < 0 ? "below" : "above") : "";
}

// Zero has the color of the background: blue is below, orange to red above. In dark mode, large values are bright.
const SIGNED: Ramp = [[45, 58, 140], [111, 155, 209], [255, 255, 255], [236, 158, 104], [179, 37, 63]];
const SIGNED_DARK: Ramp = [[150, 196, 255], [58, 96, 170], [27, 30, 36], [158, 78, 44], [255, 164, 108]];
const RISING: Ramp = [[255, 255, 255], [249, 212, 140], [233, 140, 84], [184, 52, 84], [88, 24, 92]];
const RISING_DARK: Ramp = [[27, 30, 36], [92, 42, 106], [190, 62, 90], [238, 142, 82], [252, 232, 164]];

export function rampOf(isSigned: boolean, isDark: boolean): Ramp {
  if (isSigned) return isDark ? SIGNED_DARK : SIGNED;
  return isDark ? RISING_DARK : RISING;
}

export type CellStyle = Readonly<Record<"background" | "color", string>>;

/** The colors of a token; null if it has no value or none that shows. */
export function tokenStyle(value: number | null, most: number, isSigned: boolean, isDark: boolean): CellStyle | null {
  if (value === null || !(most > 0) || value === 0 || (!isSigned && value < 0)) return null;
  const share = Math.max(-1, Math.min(1, value / most));
  return styleFor(colorAt(rampOf(isSigned, isDark), isSigned ? 0.5 + share / 2 : share));
}

/** The colors of a cell between two ends; null where it has no number. */
export function cellStyle(value: number | null, scale: CellScale, isDark: boolean): CellStyle | null {
  const color = cellColor(value, scale, isDark);
  return color && styleFor(color);
}

/** The color scale of cells, such as a heatmap. `low`, the palest end, may be greater than `high`. */
export interface CellScale {
  readonly low: number | null;
  readonly high: number | null;
  readonly is_diverging: boolean;
  readonly is_log: boolean;
}

export function cellColor(value: number | null, scale: CellScale, isDark: boolean): Rgb | null {
  if (value === null) return null;
  const share = cellShare(value, scale);
  // Even the palest color is distinguishable from the background.
  return colorAt(rampOf(scale.is_diverging, isDark), scale.is_diverging ? share : 0.06 + 0.94 * share);
}

/** From 0 (palest) to 1. */
export function cellShare(value: number, { low, high, is_log: isLog }: CellScale): number {
  const [from, to, own] = [low ?? 0, high ?? 0, value].map((each) => (isLog ? Math.log(Math.max(each, Number.MIN_VALUE)) : each));
  return to === from ? 0.5 : Math.max(0, Math.min(1, (own - from) / (to - from)));
}

function styleFor(color: Rgb): CellStyle {
  return { background: css(color), color: contrast(color, DARK) >= contrast(color, PALE) ? css(DARK) : css(PALE) };
}

const DARK: Rgb = [0, 0, 0]; // a dark gray would be read less well on the colors in the middle
const PALE: Rgb = [255, 255, 255];
