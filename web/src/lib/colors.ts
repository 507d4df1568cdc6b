// Color scales for numbers, with ramps that are safe for red-green color blindness.

import { symlog } from "./charts/symlog";
import type { Measure } from "./wire";

export type Rgb = readonly [number, number, number];
export type Ramp = readonly Rgb[];

/** Both ends matter: blue is low, red is high, the middle is pale. */
export const DIVERGING: Ramp = [[45, 58, 140], [111, 155, 209], [233, 228, 212], [229, 144, 91], [179, 37, 63]];
/** Only the high end matters: it is the darker on light ground … */
export const RISING: Ramp = [[238, 233, 218], [246, 204, 132], [233, 140, 84], [184, 52, 84], [88, 24, 92]];
/** … and the brighter on dark ground. */
export const RISING_DARK: Ramp = [[52, 50, 66], [106, 44, 112], [190, 62, 90], [238, 142, 82], [252, 232, 164]];

/** Range and scale of the colors of a measure. */
export interface ColorScale {
  readonly low: number;
  readonly high: number;
  readonly scale: Measure["scale"] | "symlog";
  readonly ramp: Ramp;
  /** For "symlog": the magnitude below which the scale is linear. */
  readonly knee?: number;
}

/** The color at `t` of a ramp, from 0 to 1. */
export function colorAt(ramp: Ramp, t: number): Rgb {
  const x = Math.max(0, Math.min(1, t)) * (ramp.length - 1);
  const i = Math.min(Math.floor(x), ramp.length - 2);
  const [a, b] = [ramp[i], ramp[i + 1]];
  const mix = (k: 0 | 1 | 2): number => Math.round(a[k] + (b[k] - a[k]) * (x - i));
  return [mix(0), mix(1), mix(2)];
}

/** A color as CSS text. */
export function css([red, green, blue]: Rgb): string {
  return `rgb(${red},${green},${blue})`;
}

/** The ramp as a CSS gradient. */
export function gradient(ramp: Ramp): string {
  return `linear-gradient(90deg,${ramp.map(css).join(",")})`;
}

/** The ramp of a measure: of sums (time, bytes) only high values matter, of statistics both ends do. */
export function rampOf(measure: Measure, isDark: boolean): Ramp {
  if (measure.scale === "diverging" || measure.total === "max") return DIVERGING;
  return isDark ? RISING_DARK : RISING;
}

/** The color scale of these values; null if none is finite. */
export function scaleOf(measure: Measure, values: Iterable<number | null>, isDark: boolean): ColorScale | null {
  const finite = [...values].filter((value): value is number => value !== null && Number.isFinite(value));
  if (!finite.length) return null;
  const ramp = rampOf(measure, isDark);
  if (measure.scale === "diverging") {
    const most = finite.reduce((largest, value) => Math.max(largest, Math.abs(value)), 0) || 1;
    return { low: -most, high: most, scale: "diverging", ramp };
  }
  const positive = finite.filter((value) => value > 0);
  const isLog = measure.scale === "log" && positive.length > 0;
  const shown = isLog ? positive : finite;
  let [low, high] = [Infinity, -Infinity];
  for (const value of shown) [low, high] = [Math.min(low, value), Math.max(high, value)];
  return { low, high, scale: isLog ? "log" : "linear", ramp };
}

/** Position of a value on a scale, from 0 to 1; 0.5 if all values are equal. */
export function position({ low, high, scale, knee = 1 }: ColorScale, value: number): number {
  if (Number.isNaN(value)) return 1;
  if (!(high > low)) return 0.5;
  if (scale === "symlog") return clamp(0.5 + symlog(value, knee) / (2 * symlog(high, knee)));
  if (scale !== "log") return clamp((value - low) / (high - low));
  return value <= 0 ? 0 : clamp(Math.log(value / low) / Math.log(high / low));
}

/** Whether a scale can show a value: a logarithmic one cannot show zero. */
export function isOnScale({ scale }: ColorScale, value: number | null | undefined): value is number {
  return value !== null && value !== undefined && (scale !== "log" || !(value <= 0));
}

/** The value in the middle of a scale. */
export function middle({ low, high, scale }: ColorScale): number {
  return scale === "log" ? Math.sqrt(low) * Math.sqrt(high) : (low + high) / 2;
}

/** How well one color is read on another, from 1 to 21 (WCAG 2 contrast ratio). */
export function contrast(one: Rgb, other: Rgb): number {
  const [a, b] = [luminance(one), luminance(other)];
  return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
}

/** Relative luminance (WCAG 2), from 0 to 1. */
export function luminance(color: Rgb): number {
  const [red, green, blue] = color.map((part) => (part <= 10 ? part / 255 / 12.92 : ((part / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

function clamp(t: number): number {
  return Math.max(0, Math.min(1, t));
}

/** 256 colors for the pixels of an image: 0 is low, 254 high, 255 not finite. */
export function palette(low: number, high: number, isDark: boolean): { colors: Uint8ClampedArray; isDiverging: boolean } {
  const isDiverging = low < 0 && high > 0;
  const most = Math.max(-low, high);
  const colors = new Uint8ClampedArray(256 * 4);
  for (let i = 0; i < 255; i++) {
    const value = low + ((high - low) * i) / 254;
    const t = isDiverging ? 0.5 + value / (2 * most) : high > low ? i / 254 : 0.5;
    // If all values are negative, the lowest has the strongest color.
    const rising = high <= 0 && low < 0 ? 1 - t : t;
    const [red, green, blue] = isDiverging ? colorAt(DIVERGING, t) : colorAt(isDark ? RISING_DARK : RISING, rising);
    colors.set([red, green, blue, 255], i * 4);
  }
  colors.set([232, 0, 232, 255], 255 * 4);
  return { colors, isDiverging };
}
