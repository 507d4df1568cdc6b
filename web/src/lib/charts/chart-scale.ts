// Chooses the y axis of a chart: logarithmic where values span decades, and not so tall that one run flattens the others.

import type { Numbers } from "./decimate";

/** What the choice needs to know of a curve. */
export interface ScaledLine {
  readonly key: string;
  /** Curves of the same run are judged together; its key by default. */
  readonly run?: string;
  readonly y: Numbers;
}

export interface ChartScale {
  readonly isLog: boolean;
  /** Keys of the lines that do not count for the limits of the axis: they leave it at the top or at the bottom. */
  readonly above: ReadonlySet<string>;
  readonly below: ReadonlySet<string>;
}

/** What the user chose; null leaves it to the data. */
export interface ScaleChoice {
  readonly isLog: boolean | null;
  /** Whether the axis holds all values, also those of runs far from the others. */
  readonly isWhole: boolean;
}

export const AUTOMATIC: ScaleChoice = { isLog: null, isWhole: false };

/** Values of one sign are logarithmic if the largest is this many times the smallest (the 2nd percentile). */
const DECADES = 100;
/** Values of both signs, if the largest is this many times the median. */
const SIGNED_DECADES = 1000;
/** A run is far from the others if its largest value is this many times that of most runs, or this small a part of their smallest. */
const FAR = 100;
/** At most this many points of a line are read. */
const MOST = 4000;

/** Sizes of the finite numbers of one run. */
interface Sizes {
  readonly keys: readonly string[];
  readonly smallest: number;
  readonly median: number;
  readonly largest: number;
  readonly hasBothSigns: boolean;
}

export function chartScale(lines: readonly ScaledLine[], { isLog, isWhole }: ScaleChoice = AUTOMATIC): ChartScale {
  const runs = sizesByRun(lines);
  const { above, below } = isWhole ? { above: [], below: [] } : farRuns(runs, isLog !== false);
  const ordinary = runs.filter((run) => !above.includes(run) && !below.includes(run));
  return { isLog: isLog ?? spansDecades(ordinary), above: keysOf(above), below: keysOf(below) };
}

function keysOf(runs: readonly Sizes[]): ReadonlySet<string> {
  return new Set(runs.flatMap(({ keys }) => keys));
}

/** Whether a linear axis would show little but the largest of these values. */
function spansDecades(runs: readonly Sizes[]): boolean {
  const largest = Math.max(...runs.map((run) => run.largest));
  if (!(largest > 0)) return false;
  if (runs.some(({ hasBothSigns }) => hasBothSigns)) return largest >= SIGNED_DECADES * Math.max(...runs.map(({ median }) => median));
  return largest >= DECADES * Math.min(...runs.map(({ smallest }) => smallest));
}

/** The runs that leave a chart of the others. Of two runs, one must share values with the other: otherwise neither is the odd one. */
function farRuns(runs: readonly Sizes[], canBeLog: boolean): { above: Sizes[]; below: Sizes[] } {
  const none = { above: [], below: [] };
  if (runs.length < 2) return none;
  const highs = runs.map(({ largest }) => largest).sort((a, b) => a - b);
  const lows = runs.map(({ smallest }) => smallest).sort((a, b) => a - b);
  const [high, low] = [highs[Math.floor((highs.length - 1) / 2)], lows[Math.ceil((lows.length - 1) / 2)]];
  if (!(high > 0)) return none;
  const isClear = runs.length > 2;
  const above = runs.filter(({ largest, smallest }) => largest >= FAR * high && (isClear || smallest <= high));
  // Only a logarithmic axis has room for much smaller values at the expense of others.
  const below = canBeLog && isClear && low > 0 ? runs.filter(({ largest }) => largest > 0 && FAR * largest <= low) : [];
  return !isClear || above.length + below.length < runs.length / 2 ? { above, below } : none;
}

function sizesByRun(lines: readonly ScaledLine[]): Sizes[] {
  const byRun = new Map<string, ScaledLine[]>();
  for (const line of lines) {
    const run = line.run ?? line.key;
    byRun.set(run, [...(byRun.get(run) ?? []), line]);
  }
  return [...byRun.values()].flatMap((own) => sizesOf(own) ?? []);
}

function sizesOf(lines: readonly ScaledLine[]): Sizes | null {
  const sizes: number[] = [];
  let [largest, isUp, isDown] = [0, false, false];
  for (const { y } of lines) {
    const stride = Math.max(1, Math.floor(y.length / MOST));
    for (let i = 0; i < y.length; i++) {
      const size = Math.abs(y[i]);
      if (!(size > 0) || size === Infinity) continue;
      if (size > largest) largest = size;
      if (y[i] > 0) isUp = true;
      else isDown = true;
      if (i % stride === 0) sizes.push(size);
    }
  }
  if (!largest) return null;
  const sorted = Float64Array.from(sizes.length ? sizes : [largest]).sort();
  const at = (share: number): number => sorted[Math.floor(share * (sorted.length - 1))];
  return { keys: lines.map(({ key }) => key), smallest: at(0.02), median: at(0.5), largest, hasBothSigns: isUp && isDown };
}
