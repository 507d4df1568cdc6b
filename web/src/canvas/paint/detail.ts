/** Level of detail: how much is painted at which zoom, so that all painted text is readable. */

import { EM, NAME } from "../../layout/text-size";

export { EM, LEAD, LINE, NAME, SMALL } from "../../layout/text-size";

export interface Detail {
  /** All lines of a box, and the labels of edges. */
  readonly lines: boolean;
  /** Names of boxes that are large enough. */
  readonly names: boolean;
  /** Outlines, strips, badges; otherwise boxes are plain rectangles. */
  readonly outlines: boolean;
  readonly tips: boolean;
  /** Edges bend; otherwise they are straight. */
  readonly curves: boolean;
  /** Opacity of edges: many thin lines would merge into one dark area. */
  readonly edgeAlpha: number;
}

/** What to draw, by the CSS pixels of a unit. */
export function detailAt(scale: number): Detail {
  return {
    lines: scale >= 0.75,
    names: scale >= 0.16,
    outlines: scale >= 0.16,
    tips: scale >= 0.3,
    curves: scale >= 0.1,
    edgeAlpha: Math.min(1, Math.max(0.3, 0.3 + (scale - 0.05) * 1.4)),
  };
}

export interface FittedText {
  readonly text: string;
  readonly size: number;
}

const LEAST = 7;
/** Font size in pixels from which text is comfortable to read. */
const EASY = 9.5;
const MOST = 12;

/**
 * A name in a box too small for all its lines: at one size for all boxes if it fits, else the last part of the name if that
 * is readable.
 */
export function fittedName(name: string, width: number, height: number, scale: number): FittedText | null {
  if (height < LEAST + 1) return null;
  const most = Math.min(Math.max(LEAST, NAME * scale * 2), MOST, Math.max(LEAST, height * 0.8));
  const sized = (text: string): FittedText => ({ text, size: Math.max(LEAST, halves(Math.min(most, width / (text.length * EM)))) });
  const fits = width / (name.length * EM);
  if (fits >= Math.min(EASY, most)) return sized(name);
  const part = shortenName(name, Math.floor(width / (Math.min(EASY, most) * EM)));
  if (part && !part.endsWith("…")) return sized(part);
  if (fits >= LEAST) return sized(name);
  const text = shortenName(name, Math.floor(width / (LEAST * EM)));
  return text ? { text, size: LEAST } : null;
}

/**
 * Shorten a name: drop what is in brackets, keep the last part of a dotted name, or cut it with an ellipsis; "" if nothing
 * useful is left.
 */
export function shortenName(name: string, room: number): string {
  if (name.length <= room) return name;
  const [address = name] = name.split(/ [(·]/, 1);
  if (address.length <= room) return address;
  const parts = address.split(".");
  const ends = parts.map((_, i) => parts.slice(i).join("."));
  const fitting = ends.filter((end) => end && end.length <= room);
  // `layer.3` says more than `3`.
  const best = fitting.find((end) => !/^\d/.test(end));
  if (best) return best;
  // A number alone does not say which list it counts.
  if (fitting[0]) return room >= fitting[0].length + 4 ? `…${address.slice(1 - room)}` : fitting[0];
  return room >= 6 ? `${ends.at(-1)!.slice(0, room - 1)}…` : "";
}

// Rounded: setting a font is slow, and text would jitter while zooming.
function halves(size: number): number {
  return Math.floor(size * 2) / 2;
}
