// Recorded curves as lines: one per run, and one per kind of step where kinds are separate.

import { nearest } from "./decimate";
import type { Line } from "./chart-data";
import type { RunView } from "../wire";

/** Numbers over steps, as they come from the server. */
export interface RecordedCurve {
  readonly steps: Float64Array;
  readonly values: Float32Array;
  /** Seconds since the session began; a resumed session starts at zero again. */
  readonly seconds: Float32Array | null;
  /** The smallest and the largest of all passes of a step. */
  readonly band?: { readonly low: Float32Array; readonly high: Float32Array };
}

export interface StepLine extends Line {
  /** The id of its run. */
  readonly run: string;
  /** The step of each point. */
  readonly steps: Float64Array;
}

export interface LineOptions {
  readonly color: string;
  /** Letter of the run; "" for none. */
  readonly letter?: string;
  /** Whether there are other runs beside it. */
  readonly isOneOfMany: boolean;
  /** Only steps of this kind; null for all. */
  readonly kind: string | null;
  /** Whether each kind has a line of its own. */
  readonly isByKind: boolean;
  readonly xName: "step" | "seconds";
  /** The kinds of all runs on the page, so that a kind has the same dash pattern in every run. */
  readonly kinds?: readonly string[];
}

/** The kinds of several runs, in the order in which they first come. */
export function allKinds(runs: readonly Pick<RunView, "kinds">[]): string[] {
  return [...new Set(runs.flatMap((run) => run.kinds))];
}

/** How lines of the kind at this place are dashed. Dashes mean kinds of steps in every chart; runs differ by color and letter. */
export function dashOf(place: number): readonly number[] | undefined {
  return DASHES[Math.max(0, place) % DASHES.length];
}

const DASHES: readonly (readonly number[] | undefined)[] = [undefined, [7, 3], [2, 3], [9, 3, 2, 3], [4, 2]];
const kinds = new WeakMap<RunView, ReadonlyMap<number, number>>();

/** By step, the number of its kind. */
function kindsOf(run: RunView): ReadonlyMap<number, number> {
  let found = kinds.get(run);
  if (!found) kinds.set(run, (found = new Map(run.steps.map((step, place) => [step, run.kind_of[place]]))));
  return found;
}

export function linesOf(run: RunView, recorded: RecordedCurve, options: LineOptions): StepLine[] {
  const { kind, isByKind, isOneOfMany } = options;
  const kindAt = kindsOf(run);
  const wanted = kind !== null ? [run.kinds.indexOf(kind)] : isByKind && run.kinds.length > 1 ? [...run.kinds.keys()] : [-1];
  const parts = wanted.map((number) => ({ number, places: placesOf(recorded, (step) => number < 0 || kindAt.get(step) === number) }));
  return parts.filter(({ places }) => places.length).map(({ number, places }) => {
    const steps = Float64Array.from(places, (place) => recorded.steps[place]);
    const words = [isOneOfMany || number < 0 ? run.item.name : "", number >= 0 && kind === null ? run.kinds[number] || "no kind" : ""];
    return {
      key: `${run.item.id} ${number}`, run: run.item.id, name: words.filter(Boolean).join(" · ") || run.item.name, color: options.color,
      letter: options.letter, dash: number >= 0 ? dashOf((options.kinds ?? run.kinds).indexOf(run.kinds[number])) : undefined, steps,
      x: options.xName === "seconds" ? monotonicSeconds(recorded.seconds, places) ?? steps : steps,
      y: Float32Array.from(places, (place) => recorded.values[place]),
      band: recorded.band && {
        low: Float32Array.from(places, (place) => recorded.band!.low[place]), high: Float32Array.from(places, (place) => recorded.band!.high[place]),
      },
    };
  });
}

function placesOf({ steps }: RecordedCurve, isWanted: (step: number) => boolean): number[] {
  const found: number[] = [];
  steps.forEach((step, place) => isWanted(step) && found.push(place));
  return found;
}

/** Seconds made monotonic: a resumed session starts again at zero. */
function monotonicSeconds(seconds: Float32Array | null, places: readonly number[]): Float64Array | null {
  if (!seconds || seconds.length === 0) return null;
  let [before, last] = [0, -Infinity];
  return Float64Array.from(places, (place) => {
    if (before + seconds[place] < last) before = last - seconds[place];
    return (last = before + seconds[place]);
  });
}

/** The step of the point that is nearest to an x, over all lines; null if there is none. */
export function stepAt(lines: readonly StepLine[], x: number): number | null {
  let best: { step: number; far: number } | null = null;
  for (const line of lines) {
    const place = nearest(line.x, x);
    if (place < 0) continue;
    const far = Math.abs(line.x[place] - x);
    if (!best || far < best.far) best = { step: line.steps[place], far };
  }
  return best?.step ?? null;
}

/** Where a step is on the x axis; null if no line is near it. */
export function xOf(lines: readonly StepLine[], step: number): number | null {
  let best: { x: number; far: number } | null = null;
  for (const line of lines) {
    const place = nearest(line.steps, step);
    if (place < 0) continue;
    const far = Math.abs(line.steps[place] - step);
    if (!best || far < best.far) best = { x: line.x[place], far };
  }
  return best?.x ?? null;
}

/** The value of a line at a step, or at the last one before it; else the first. */
export function valueAtStep(line: StepLine, step: number): number | null {
  const place = nearest(line.steps, step);
  if (place < 0) return null;
  return line.y[line.steps[place] > step && place > 0 ? place - 1 : place];
}
