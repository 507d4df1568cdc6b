// The open spike in the address: its step, and the curve that it is on.

import type { RowView, RunView } from "../../lib/wire";
import type { PanelProps } from "../panels/props";
import type { Action } from "../state";

/** The curve that was clicked: a logged scalar, or one statistic of a recorded tensor. */
export type CurveSource =
  | { readonly scalar: string }
  | { readonly statistic: string; readonly of: string; readonly iteration: number; readonly pass: number; readonly site: string };

export interface OpenSpike {
  readonly step: number;
  readonly source: CurveSource;
}

/** Names of the panel states: the open spike, and whether the inspector shows the tensor instead of the panel. */
export const [SPIKE, SHOWN] = ["spike", "spike.shows"];

/** The parts are separated by commas; the last is a name, which may have commas of its own. */
export function writeSpike({ step, source }: OpenSpike): string {
  if ("scalar" in source) return `${step},logged,${source.scalar}`;
  const { statistic, of, iteration, pass, site } = source;
  return [step, "tensor", statistic, encodeURIComponent(of), iteration, pass, site].join(",");
}

/** Null for a text that is not one. */
export function readSpike(text: string | undefined): OpenSpike | null {
  const logged = /^(\d+),logged,(.+)$/s.exec(text ?? "");
  if (logged) return { step: Number(logged[1]), source: { scalar: logged[2] } };
  const tensor = /^(\d+),tensor,([^,]+),([^,]+),(\d+),(\d+),(.+)$/s.exec(text ?? "");
  if (!tensor) return null;
  const [, step, statistic, of, iteration, pass, site] = tensor;
  return { step: Number(step), source: { statistic, of: decodeURIComponent(of), iteration: Number(iteration), pass: Number(pass), site } };
}

export function sourceOfRow(row: RowView, statistic: string): CurveSource {
  return { statistic, of: row.of, iteration: row.iteration, pass: row.pass_, site: row.site };
}

/** The row of a run that a curve belongs to; null for a logged scalar, and if the run has no such row. */
export function rowOfSource(run: RunView, source: CurveSource): RowView | null {
  if ("scalar" in source) return null;
  return run.rows.find((row) => row.site === source.site && row.of === source.of && row.iteration === source.iteration && row.pass_ === source.pass) ?? null;
}

/** Tabs whose inspector can show the panel. */
const WITH_INSPECTOR: readonly string[] = ["tensors", "overview"];

/** The actions that open "What changed here" at a step. */
export function openSpike({ state }: Pick<PanelProps, "state">, spike: OpenSpike): Action[] {
  const isLogged = "scalar" in spike.source;
  return [
    { do: "step", step: spike.step },
    { do: "keep", name: SPIKE, text: writeSpike(spike) },
    { do: "keep", name: SHOWN, text: "" },
    { do: "keep", name: "inspector", text: "" }, // opens by itself, also if it was shut
    { do: "sample", sample: null },
    // What was selected before belongs to another question; the curve of a tensor is about that tensor.
    ...(isLogged && readSpike(state.kept[SPIKE]) === null ? [{ do: "node", node: null } as const] : []),
    ...(WITH_INSPECTOR.includes(state.tab) ? [] : [{ do: "tab", tab: "tensors" } as const]),
  ];
}

export function closeSpike(): Action[] {
  return [SPIKE, SHOWN].map((name) => ({ do: "keep", name, text: "" }));
}
