// Virtual scrolling for long tables: visible rows, sort order, keyboard movement.

import { asciiNumbers } from "./formatting";

/** Browsers limit the height of elements: for longer tables, one pixel of scrolling stands for several pixels of rows. */
const TALLEST = 8_000_000;
/** Extra rows rendered above and below the view, so that fast scrolling shows no gaps. */
const BEYOND = 6;

/** The rows to be drawn: from `first` to before `end`, the first of them `top` pixels below the upper end. */
export interface Window {
  readonly first: number;
  readonly end: number;
  readonly top: number;
}

/** Height of the element that holds `n` rows. */
export function heightOf(n: number, rowHeight: number): number {
  return Math.min(n * rowHeight, TALLEST);
}

/** What of a table is to be drawn, scrolled so far. */
export function windowAt(scrolled: number, height: number, rowHeight: number, n: number): Window {
  const whole = heightOf(n, rowHeight);
  const room = whole - height;
  const top = Math.max(0, Math.min(scrolled, Math.max(0, room)));
  // For squeezed tables, the scroll position is a fraction, and rows are placed relative to the view.
  const exact = whole < n * rowHeight && room > 0 ? (top / room) * (n * rowHeight - height) : top;
  const first = Math.max(0, Math.floor(exact / rowHeight) - BEYOND);
  const end = Math.min(n, Math.ceil((exact + height) / rowHeight) + BEYOND);
  return { first, end, top: top - exact + first * rowHeight };
}

/** Where to scroll so that a row is in view; as it is, if it is already. */
export function scrollTo(row: number, scrolled: number, height: number, rowHeight: number, n: number): number {
  const whole = heightOf(n, rowHeight);
  const room = Math.max(0, whole - height);
  const full = n * rowHeight - height;
  const isSqueezed = whole < n * rowHeight && room > 0;
  const exact = isSqueezed ? (scrolled / room) * full : scrolled;
  const [above, below] = [row * rowHeight, (row + 1) * rowHeight - height];
  const to = exact > above ? above : exact < below ? below : exact;
  if (to === exact) return scrolled;
  return Math.max(0, Math.min(room, isSqueezed ? (to / full) * room : to));
}

/** The row that a key moves to, of `n`; null if the key does not move. */
export function rowAfter(key: string, row: number, n: number, onScreen: number): number | null {
  const page = Math.max(1, onScreen - 1);
  const by: Record<string, number> = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -n, End: n };
  if (!(key in by) || n === 0) return null;
  if (row < 0) return key === "End" ? n - 1 : 0;
  return Math.max(0, Math.min(n - 1, row + by[key]));
}

/** What rows are sorted by. */
export type Sorted = (row: number) => number | string;

/** The rows in order: numbers by size, texts by the alphabet; rows without a number last, whichever way it goes. */
export function sortRows(rows: Int32Array, by: Sorted, isDown: boolean): Int32Array {
  if (!rows.length) return rows;
  const first = by(rows[0]);
  return typeof first === "string" ? byText(rows, by as (row: number) => string, isDown) : byNumber(rows, by as (row: number) => number, isDown);
}

/** A 32-bit number and an index below this fit into one 53-bit number, which sorts without a comparator. */
const PLACES = 2 ** 21;

function byNumber(rows: Int32Array, by: (row: number) => number, isDown: boolean): Int32Array {
  const values = Float64Array.from(rows, (row) => by(row) + 0); // -0 is 0
  const isSingle = rows.length <= PLACES && values.every((value) => Number.isNaN(value) || value === Math.fround(value));
  const places = isSingle ? sortedSingles(values, isDown) : sortedDoubles(values, isDown);
  return places.map((place) => rows[place]);
}

/** Statistics are float32: their bits, mapped so that they sort like the numbers, above the index. */
function sortedSingles(values: Float64Array, isDown: boolean): Int32Array {
  const bits = new Int32Array(Float32Array.from(values).buffer);
  const keys = Float64Array.from(values, (value, place) => {
    // Flipping the bits of negative numbers, and the sign of others, makes unsigned order the order of the floats.
    const up = bits[place] < 0 ? ~bits[place] >>> 0 : (bits[place] | 0x80000000) >>> 0;
    const key = Number.isNaN(value) ? 0xffffffff : isDown ? ~up >>> 0 : up;
    return key * PLACES + place;
  }).sort();
  return Int32Array.from(keys, (key) => key % PLACES);
}

function sortedDoubles(values: Float64Array, isDown: boolean): Int32Array {
  const sign = isDown ? -1 : 1;
  return Int32Array.from(values, (_, place) => place).sort((a, b) => {
    const [x, y] = [values[a], values[b]];
    if (x < y) return -sign;
    if (x > y) return sign;
    // Equal rows keep their order in both directions.
    if (x === y) return a - b;
    return (Number.isNaN(x) ? 1 : 0) - (Number.isNaN(y) ? 1 : 0) || a - b;
  });
}

// One collator for all comparisons is much faster than localeCompare. Numeric, so that h.2 comes before h.10.
const ALPHABET = new Intl.Collator("en", { numeric: true });

function byText(rows: Int32Array, by: (row: number) => string, isDown: boolean): Int32Array {
  const texts = Array.from(rows, by);
  const sign = isDown ? -1 : 1;
  const places = Int32Array.from(texts, (_, i) => i).sort((a, b) => sign * ALPHABET.compare(texts[a], texts[b]) || a - b);
  return places.map((place) => rows[place]);
}

/** The numbers from 0 to before n. */
export function upTo(n: number): Int32Array {
  return Int32Array.from({ length: n }, (_, i) => i);
}

/** Rows as text with tabs between the cells, as spreadsheets take it; signs of numbers in ASCII. */
export function toTsv(titles: readonly string[], rows: Iterable<number>, cell: (row: number, column: number) => string): string {
  const clean = (text: string): string => asciiNumbers(text.replace(/[\t\r\n]+/g, " "));
  const lines = [titles.map(clean).join("\t")];
  for (const row of rows) lines.push(titles.map((_, column) => clean(cell(row, column))).join("\t"));
  return lines.join("\n");
}
