// Keyboard movement in a grid.

export type Place = readonly [row: number, column: number];

const STEPS: Readonly<Record<string, Place>> = {
  ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0], Home: [0, -Infinity], End: [0, Infinity],
};

/** The position after a key; the first if there was none; null if the key does not move. */
export function cellAfterKey(key: string, at: Place | null, rows: number, columns: number): Place | null {
  const step = STEPS[key];
  if (!step || rows < 1 || columns < 1) return null;
  if (rows === 1 && step[0] !== 0) return null;
  if (columns === 1 && step[1] !== 0 && Number.isFinite(step[1])) return null;
  if (!at) return key === "End" ? [rows - 1, columns - 1] : [0, 0];
  // In a list, Home and End go to its ends.
  const by: Place = columns === 1 && step[0] === 0 ? [step[1], 0] : step;
  return [clamp(at[0] + by[0], rows), clamp(at[1] + by[1], columns)];
}

function clamp(place: number, n: number): number {
  return Math.max(0, Math.min(n - 1, place));
}
