// Saved traces and the runs that they belong to: a trace made inside a step of a recording knows its run and step.

import type { RunItem, RunView } from "../../lib/wire";
import { nearest } from "../choice";
import type { Action } from "../state";

/** Names in the URL of the selected trace, and of what is shown of its graph. */
export const [TRACE, PICTURE] = ["trace", "ops"];

/** The traces that were made in steps of a run, by step. */
export function ownTraces(items: readonly RunItem[], run: RunView): RunItem[] {
  const { archive } = run.item;
  const own = items.filter(({ trace }) => archive !== "" && trace?.run === archive && trace.step !== null);
  return own.sort((a, b) => a.trace!.step! - b.trace!.step!);
}

/** The run in whose step a trace was made; undefined if it is unknown or not in the folder. */
export function runOfTrace(items: readonly RunItem[], { trace }: RunItem): RunItem | undefined {
  return trace?.run ? items.find(({ kind, archive }) => kind === "run" && archive === trace.run) : undefined;
}

/** The trace of a step: made in it, or in a step of the same structure; null if the run has none. */
export function traceOfStep(items: readonly RunItem[], run: RunView, step: number): { readonly item: RunItem; readonly isSameStep: boolean } | null {
  const own = ownTraces(items, run);
  const exact = own.find(({ trace }) => trace!.step === step);
  if (exact) return { item: exact, isSameStep: true };
  const structure = structureAt(run, step);
  const alike = own.filter(({ trace }) => structure >= 0 && structureAt(run, trace!.step!) === structure);
  return alike.length ? { item: alike[nearest(alike, ({ trace }) => trace!.step!, step)], isSameStep: false } : null;
}

/** The number of the structure of a step; -1 if the step was not recorded, or its structure is unknown. */
export function structureAt({ steps, structure_of }: RunView, step: number): number {
  const place = steps.indexOf(step);
  return place < 0 ? -1 : structure_of[place] ?? -1;
}

/** The actions that show a trace. What is kept of the graph belongs to the trace that was open before. */
export function showTrace(id: string): readonly Action[] {
  return [{ do: "tab", tab: "ops" }, { do: "keep", name: PICTURE, text: "" }, { do: "keep", name: TRACE, text: id }];
}

/** How a trace relates to the selected run, in a sentence; and the step to which a link may lead. */
export function describeOrigin(items: readonly RunItem[], item: RunItem, run: RunView | null): { readonly text: string; readonly to: { readonly run: RunItem; readonly step: number } | null } {
  const { trace } = item;
  if (!trace || !trace.run || trace.step === null) return { text: "not made in a step of a run, so it belongs to none", to: null };
  const owner = runOfTrace(items, item);
  const step = `step ${trace.step.toLocaleString("en")}`;
  if (!owner) return { text: `made in ${step} of a run that is not in this folder`, to: null };
  const isOther = run !== null && run.item.archive !== trace.run;
  return { text: `made in ${step} of ${owner.name}${isOther ? `, not of ${run.item.name}` : ""}${run && !isOther ? structureText(run, trace.step) : ""}`, to: { run: owner, step: trace.step } };
}

function structureText(run: RunView, step: number): string {
  const number = structureAt(run, step);
  if (number < 0) return run.steps.includes(step) ? "" : ", of which no tensors were recorded";
  const { n_steps } = run.structures[number];
  return run.structures.length > 1 ? `, structure ${number + 1} of ${run.structures.length} (${n_steps.toLocaleString("en")} recorded steps)` : "";
}
