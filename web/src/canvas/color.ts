/** Color arithmetic: mix tones for the theme, and pick a readable text color. */

import { luminance as luminanceOf } from "../lib/colors";

export interface Rgba {
  readonly r: number;
  readonly g: number;
  readonly b: number;
  readonly a: number;
}

/** Parse #rgb, #rrggbb, #rrggbbaa, rgb() and rgba(); a canvas normalizes every other color to one of these. */
export function parse(color: string): Rgba | null {
  const hex = /^#([0-9a-f]{3,8})$/i.exec(color.trim())?.[1];
  if (hex) {
    const digits = hex.length <= 4 ? [...hex].map((c) => c + c).join("") : hex;
    const at = (i: number): number => parseInt(digits.slice(i, i + 2), 16);
    return { r: at(0), g: at(2), b: at(4), a: digits.length === 8 ? at(6) / 255 : 1 };
  }
  const parts = /^rgba?\(([^)]+)\)$/i.exec(color.trim())?.[1]?.split(/[\s,/]+/).filter(Boolean).map(Number);
  if (!parts || parts.length < 3 || parts.some(Number.isNaN)) return null;
  return { r: parts[0]!, g: parts[1]!, b: parts[2]!, a: parts[3] ?? 1 };
}

export function css({ r, g, b, a }: Rgba): string {
  const [red, green, blue] = [r, g, b].map(Math.round);
  return a === 1 ? `rgb(${red},${green},${blue})` : `rgba(${red},${green},${blue},${Math.round(a * 1000) / 1000})`;
}

/** `share` of the first color, the rest of the second. */
export function mix(one: string, other: string, share: number): string {
  const [p, q] = [parse(one), parse(other)];
  if (!p || !q) return one;
  const part = (x: number, y: number): number => x * share + y * (1 - share);
  return css({ r: part(p.r, q.r), g: part(p.g, q.g), b: part(p.b, q.b), a: part(p.a, q.a) });
}

export function withAlpha(color: string, a: number): string {
  const parsed = parse(color);
  return parsed ? css({ ...parsed, a }) : color;
}

/** Relative luminance (WCAG 2) of a CSS color. */
export function luminance(color: string): number {
  const parsed = parse(color);
  if (!parsed) return 0.5;
  return luminanceOf([parsed.r, parsed.g, parsed.b]);
}

/** WCAG 2 contrast ratio, from 1 (the same) to 21 (black on white). */
export function contrast(one: string, other: string): number {
  const [low, high] = [luminance(one), luminance(other)].sort((a, b) => a - b) as [number, number];
  return (high + 0.05) / (low + 0.05);
}

/** The text color with more contrast on this background. */
export function inkOn(ground: string, dark = "#16181c", light = "#ffffff"): string {
  return contrast(ground, dark) >= contrast(ground, light) ? dark : light;
}
