// Runs the commands of keys, buttons and palette.

import { type Choice, optionsOf, rowsOfNode, stepBy } from "./choice";
import type { RunView } from "../lib/wire";
import type { Command } from "./keys";
import type { LeftByFilters } from "./filters/use-filter";
import type { CurveSpikes } from "./spike/use-curve-spikes";
import type { Action, State } from "./state";
import { TAB_IDS } from "./tabs";

export interface CommandContext {
  readonly run: RunView;
  readonly state: State;
  readonly choice: Choice;
  /** How many samples the step has kept; null until that is known. */
  readonly nKept: number | null;
  readonly act: (action: Action) => void;
  readonly turn: () => void;
  readonly help: () => void;
  readonly palette: () => void;
  readonly inspector: () => void;
  /** Open the bar of filters. */
  readonly filter: () => void;
  /** What the filters leave. */
  readonly left: LeftByFilters;
  /** The spikes of the timeline's curve; missing until they are known. */
  readonly spikes?: CurveSpikes;
  /** Show a short message. */
  readonly notify: (sentence: string) => void;
  /** Subscribe to the command that opens the step input. Returns a function that unsubscribes. */
  readonly onType: (call: () => void) => () => void;
  readonly type: () => void;
}

const PLAIN: Partial<Record<Command, "turn" | "help" | "palette" | "inspector" | "filter" | "type">> = {
  theme: "turn", help: "help", palette: "palette", inspector: "inspector", filter: "filter", "type step": "type",
};

/** Whether there was something to do. */
export function perform(command: Command, on: CommandContext): boolean {
  const plain = PLAIN[command];
  if (plain) {
    on[plain]();
    return true;
  }
  const action = actionOf(command, on);
  if (action) on.act(action);
  else {
    const why = whyNot(command, on);
    if (why) on.notify(why);
  }
  return action !== null;
}

/** Why a command has no effect; "" if that is obvious. */
export function whyNot(command: Command, { run, choice, nKept }: Pick<CommandContext, "run" | "choice" | "nKept">): string {
  switch (command) {
    case "next kind": return "All steps of this run are of the same kind.";
    case "next iteration": return "Steps of this run have no iterations.";
    case "next pass": return "No module of this run ran more than once per step.";
    case "next of": return choice.node === null ? "Only values were recorded in this run." : "Nothing else was recorded for the selected tensor.";
    case "next sample": return nKept === 0 || !run.has_values ? "No samples kept at this step. Record with samples=8 to keep eight." : "";
    case "next part": return choice.node === null ? "No node selected." : "The selected node has only one tensor.";
    case "next run": return "Only one run is shown. Click the dot of another run to overlay it.";
    default: return "";
  }
}

/** The actions of a command in the current view; null for none. */
export function actionOf(command: Command, { run, state, choice, nKept }: Pick<CommandContext, "run" | "state" | "choice" | "nKept">): Action | null {
  const tab = TAB_IDS.find((id) => id === command);
  if (tab) return { do: "tab", tab };
  const { ofs, iterations, passes } = optionsOf(run);
  const to = (place: number): Action | null => (place < 0 ? null : { do: "step", step: run.steps[place] });
  const own = choice.place < 0 ? null : run.kinds[run.kind_of[choice.place]] ?? null;
  switch (command) {
    case "earlier": return to(stepBy(run, choice.place, -1, choice.kind, choice.left));
    case "later": return to(stepBy(run, choice.place, 1, choice.kind, choice.left));
    case "earlier of kind": return to(stepBy(run, choice.place, -1, own, choice.left));
    case "later of kind": return to(stepBy(run, choice.place, 1, own, choice.left));
    case "first": return to(stepBy(run, choice.place, -Infinity, choice.kind, choice.left));
    case "last": return to(stepBy(run, choice.place, Infinity, choice.kind, choice.left));
    case "follow": return state.step === null ? to(choice.place) : { do: "follow" };
    case "next kind": {
      if (run.kinds.length < 2) return null;
      return { do: "kind", kind: nextInCycle<string | null>([null, ...run.kinds], choice.kind) };
    }
    case "next iteration": return iterations.length < 2 ? null : { do: "iteration", iteration: nextInCycle([0, ...iterations], state.iteration > 0 ? choice.iteration : 0) };
    case "next pass": return passes.length < 2 ? null : { do: "pass", pass: nextInCycle([0, ...passes], state.pass > 0 ? choice.pass : 0) };
    case "next of": {
      // With a selected tensor, step only through its recorded quantities.
      const rows = choice.node === null ? null : rowsOfNode(run, choice.node);
      const possible = rows ? ofs.filter((of) => rows.some((row) => row.of === of && row.part === choice.part)) : ofs;
      return possible.length < 2 ? null : { do: "of", of: nextInCycle(possible, choice.of) };
    }
    case "next sample": {
      // While the number of samples is unknown, select the next one; it is shown once it has loaded.
      if (nKept === null && run.has_values) return { do: "sample", sample: (choice.sample ?? -1) + 1 };
      return nKept ? { do: "sample", sample: ((choice.sample ?? -1) + 1) % nKept } : null;
    }
    case "batch": return choice.sample === null ? null : { do: "sample", sample: null };
    case "next part": {
      const parts = partsOf(run, choice.node);
      return parts.length < 2 ? null : { do: "part", part: nextInCycle(parts, choice.part) };
    }
    case "next run": {
      const { runs, active } = state;
      return runs.length < 2 ? null : { do: "run", id: nextInCycle(runs, active || runs[0]) };
    }
    default: return null;
  }
}

/** The parts that tensors play in a node. */
export function partsOf(run: RunView, node: string | null): string[] {
  return node === null ? [] : [...new Set(rowsOfNode(run, node).map((row) => row.part))];
}

function nextInCycle<T>(values: readonly T[], value: T): T {
  return values[(values.indexOf(value) + 1) % values.length];
}
