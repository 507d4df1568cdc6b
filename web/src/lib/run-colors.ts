// Colors and letters of the runs on the page.

/** How a run is marked wherever it is drawn. */
export interface RunLook {
  /** A CSS color. No two runs on the page share one. */
  readonly color: string;
  /** Its letter, by its place on the page: color never carries meaning alone. */
  readonly letter: string;
}

/** The colors `--run-0` to `--run-11` of `style/viewer/index.css`. */
export const N_COLORS = 12;
/** What to mix into the colors of the 13th run and of those after it: toward the text, then toward the paper. */
const MIXES = ["", "var(--ink) 42%", "var(--bg) 42%"];
/** To the next color if one is taken. Shares no factor with `N_COLORS`, so that all are tried, and neighbors differ. */
const STRIDE = 5;

/** The looks of the runs on the page, in their order. A run has the color of its name, or the next free one if an earlier run has that. */
export function runLooks(names: readonly string[]): RunLook[] {
  const taken = new Set<number>();
  return names.map((name, place) => {
    const color = freeColor(hashOf(name) % N_COLORS, taken);
    taken.add(color);
    return { color: cssColor(color), letter: letterOf(place) };
  });
}

function freeColor(own: number, taken: ReadonlySet<number>): number {
  for (let round = 0; round < MIXES.length; round++) {
    for (let i = 0; i < N_COLORS; i++) {
      const color = round * N_COLORS + ((own + STRIDE * i) % N_COLORS);
      if (!taken.has(color)) return color;
    }
  }
  // More runs than colors: letters tell them apart.
  return own;
}

function cssColor(number: number): string {
  const mix = MIXES[Math.floor(number / N_COLORS)];
  const color = `var(--run-${number % N_COLORS})`;
  return mix ? `color-mix(in oklab, ${color}, ${mix})` : color;
}

/** A to Z, then A2 to Z2 and so on. */
export function letterOf(place: number): string {
  const round = Math.floor(place / 26);
  return String.fromCharCode(65 + (place % 26)) + (round ? `${round + 1}` : "");
}

/** FNV-1a. */
function hashOf(text: string): number {
  let hash = 0x811c9dc5;
  for (const byte of new TextEncoder().encode(text)) hash = Math.imul(hash ^ byte, 0x01000193) >>> 0;
  // The lowest bits of FNV-1a vary least.
  return (hash ^ (hash >>> 15)) >>> 0;
}
