/** A spatial index: finds the items in a rectangle without scanning all of them. */

import type { Rect } from "./types";

/** Width of the smallest cells, in units. */
const FINEST = 128;
/** Factor between the cell widths of consecutive levels. */
const STEP = 4;
/** Cells per item, at most. */
const SPARSE = 4;

/** The items of one size: cell after cell, row after row. */
interface Level {
  readonly cell: number;
  readonly left: number;
  readonly top: number;
  readonly columns: number;
  readonly rows: number;
  /** Where the items of each cell begin. */
  readonly starts: Int32Array;
  readonly items: Int32Array;
}

/**
 * Grids of ever wider cells. An item is in one cell only: that of its corner, in the grid whose cells are larger than
 * the item. So a line across the whole picture costs no more than a small box, and nothing is found twice.
 */
export class Grid {
  private readonly levels: readonly Level[];

  constructor(private readonly rects: readonly Rect[]) {
    const bySize: number[][] = [];
    for (let i = 0; i < rects.length; i++) {
      const size = Math.max(rects[i]!.width, rects[i]!.height);
      let rank = 0;
      for (let cell = FINEST; cell < size; cell *= STEP) rank++;
      (bySize[rank] ??= []).push(i);
    }
    this.levels = bySize.map((items, rank) => level(rects, items, FINEST * STEP ** rank)).filter(Boolean);
  }

  /** All items that intersect the rectangle, in the order in which they were given. */
  within(area: Rect): number[] {
    const found: number[] = [];
    const [right, bottom] = [area.x + area.width, area.y + area.height];
    for (const { cell, left, top, columns, rows, starts, items } of this.levels) {
      const from = clamp(Math.floor((area.x - left) / cell) - 1, columns);
      const to = clamp(Math.floor((right - left) / cell), columns);
      const last = clamp(Math.floor((bottom - top) / cell), rows);
      for (let row = clamp(Math.floor((area.y - top) / cell) - 1, rows); row <= last; row++) {
        const end = starts[row * columns + to + 1]!;
        for (let i = starts[row * columns + from]!; i < end; i++) {
          const rect = this.rects[items[i]!]!;
          if (rect.x < right && rect.x + rect.width > area.x && rect.y < bottom && rect.y + rect.height > area.y) found.push(items[i]!);
        }
      }
    }
    return found.sort((a, b) => a - b);
  }
}

function level(rects: readonly Rect[], items: readonly number[], finest: number): Level {
  let [left, top, right, bottom] = [Infinity, Infinity, -Infinity, -Infinity];
  for (const i of items) {
    const { x, y } = rects[i]!;
    if (x < left) left = x;
    if (y < top) top = y;
    if (x > right) right = x;
    if (y > bottom) bottom = y;
  }
  let cell = finest;
  const across = (length: number): number => Math.floor(length / cell) + 1;
  while (across(right - left) * across(bottom - top) > SPARSE * items.length + 64) cell *= 2;
  const [columns, rows] = [across(right - left), across(bottom - top)];
  const cellOf = (i: number): number => Math.floor((rects[i]!.y - top) / cell) * columns + Math.floor((rects[i]!.x - left) / cell);
  const starts = new Int32Array(columns * rows + 1);
  for (const i of items) starts[cellOf(i) + 1]!++;
  for (let i = 1; i < starts.length; i++) starts[i]! += starts[i - 1]!;
  const next = starts.slice();
  const sorted = new Int32Array(items.length);
  for (const i of items) sorted[next[cellOf(i)]!++] = i;
  return { cell, left, top, columns, rows, starts, items: sorted };
}

function clamp(index: number, n: number): number {
  return Math.min(Math.max(index, 0), n - 1);
}
