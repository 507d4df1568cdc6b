// Estimates the size of text in a monospaced font by counting characters.
// The same numbers as in Python, `layout/text_size.py`; `tests/layout` compares the two.

import type { Box } from "../lib/wire";

/** Width of a character in units of the font size; a little more than common monospaced fonts need. */
export const EM = 0.62;
export const NAME = 12, LINE = 11, SMALL = 9;
export const PAD = 10;
/** Line height. */
export const LEAD = 15;
const IF = "IF";

/** Number of code points, as Python's `len` counts: a surrogate pair is one. */
export function characters(text: string): number {
  let n = text.length;
  // Without an allocation, unlike [...text].length: this runs for every line of every box.
  for (let i = 0; i < text.length; i++) if ((text.charCodeAt(i) & 0xfc00) === 0xdc00) n--;
  return n;
}

/** Width and height of the text of a box. */
export function boxSize(box: Pick<Box, "lines" | "form">): [number, number] {
  const { lines, form } = box;
  if (form === "small") {
    let longest = 0;
    for (const line of lines) longest = Math.max(longest, characters(line));
    return [longest * LINE * EM + 12, LEAD * lines.length + 5];
  }
  let widest = 0;
  for (let i = 0; i < lines.length; i++) widest = Math.max(widest, characters(lines[i]) * (i ? LINE : NAME) * EM);
  return [widest + 2 * PAD + (form === "function" || form === "folded" ? 8 : 0), LEAD * lines.length + PAD];
}

/** Width of the label of an edge. */
export function labelWidth(label: string): number {
  return label ? characters(label) * SMALL * EM + (label.startsWith(IF) ? 8 : 0) : 0;
}

/** Width of the title of a frame. */
export function titleWidth(title: string): number {
  return characters(title) * LINE * EM;
}
