// What the user selected, and how actions change it. A selection stays when a run cannot show it; `choice.ts` decides what is shown instead.

import type { Tab } from "./tabs";

/** Selectors of a tensor that can conflict: the one changed last wins. */
export type Selector = "part" | "of" | "iteration" | "pass";

export interface State {
  /** Ids of the runs on the page; empty for the first there is. */
  readonly runs: readonly string[];
  /** Id of the selected run; "" for the first. */
  readonly active: string;
  readonly tab: Tab;
  /** Null for steps of any kind. */
  readonly kind: string | null;
  /** The nearest recorded step is shown. Null follows the newest. */
  readonly step: number | null;
  /** From 1; 0 for all of them, of which views of one step show the first. */
  readonly iteration: number;
  /** Within an iteration, from 1; 0 for all of them, of which views of one step show the first. */
  readonly pass: number;
  /** "value", "grad", "grad/<loss>", "grad@2", "update", "inner_grad"… */
  readonly of: string;
  /** Number of a kept sample; null for the whole batch. */
  readonly sample: number | null;
  /** The selected node of the dependency graph, by its name; null for none. */
  readonly node: string | null;
  /** The role of the tensor in that node; "" for the first. */
  readonly part: string;
  /** The statistic that colors nodes and sorts tables; "" for the panel's own choice. */
  readonly statistic: string;
  /** The step to compare colors with; null for the statistic itself. */
  readonly since: number | null;
  /** From the selector changed last to the one changed first. */
  readonly order: readonly Selector[];
  /** Panel states in the URL, by name: folds, camera, sorting, axes. */
  readonly kept: Readonly<Record<string, string>>;
}

export type Action =
  | { do: "run"; id: string } // look at it; if it is not on the page, it takes the place of the one that was looked at
  | { do: "toggle run"; id: string }
  | { do: "stay"; runs: readonly string[]; active: string } // with these, which nobody asked for but are shown
  | { do: "tab"; tab: Tab }
  | { do: "kind"; kind: string | null }
  | { do: "step"; step: number; ofAnyKind?: boolean } // a recorded step of another kind than the one asked for clears that filter
  | { do: "follow" } // the newest step, as it comes
  | { do: "iteration"; iteration: number }
  | { do: "pass"; pass: number }
  | { do: "of"; of: string }
  | { do: "sample"; sample: number | null }
  | { do: "node"; node: string | null }
  | { do: "part"; part: string }
  | { do: "tensor"; node: string; part: string; of: string; iteration: number; pass: number } // one row, as from a table
  | { do: "statistic"; statistic: string }
  | { do: "since"; step: number | null }
  | { do: "keep"; name: string; text: string } // "" forgets it
  | { do: "restore"; state: State };

export const ORDER: readonly Selector[] = ["part", "of", "iteration", "pass"];

export const INITIAL: State = {
  runs: [], active: "", tab: "tensors", kind: null, step: null, iteration: 0, pass: 0, of: "value", sample: null,
  node: null, part: "", statistic: "", since: null, order: ORDER, kept: {},
};

export function reduce(state: State, action: Action): State {
  switch (action.do) {
    case "run":
      return { ...state, active: action.id, runs: withRun(state, action.id) };
    case "toggle run":
      return toggleRun(state, action.id);
    case "stay":
      return state.runs.length ? state : { ...state, runs: action.runs, active: action.active };
    case "tab":
      return { ...state, tab: action.tab };
    case "kind":
      return { ...state, kind: action.kind };
    case "step":
      return { ...state, step: action.step, kind: action.ofAnyKind ? null : state.kind };
    case "follow":
      return { ...state, step: null };
    case "iteration":
      return { ...state, iteration: action.iteration, order: moveToFront(state.order, "iteration") };
    case "pass":
      return { ...state, pass: action.pass, order: moveToFront(state.order, "pass") };
    case "of":
      return { ...state, of: action.of, order: moveToFront(state.order, "of") };
    case "sample":
      return { ...state, sample: action.sample };
    case "node":
      return { ...state, node: action.node };
    case "part":
      return { ...state, part: action.part, order: moveToFront(state.order, "part") };
    case "tensor": {
      const { node, part, of, iteration, pass } = action;
      return { ...state, node, part, of, iteration, pass };
    }
    case "statistic":
      return { ...state, statistic: action.statistic };
    case "since":
      return { ...state, since: action.step };
    case "keep": {
      const { [action.name]: _, ...kept } = state.kept;
      return { ...state, kept: action.text ? { ...kept, [action.name]: action.text } : kept };
    }
    case "restore":
      return action.state;
  }
}

function moveToFront(order: readonly Selector[], selector: Selector): readonly Selector[] {
  return order[0] === selector ? order : [selector, ...order.filter((other) => other !== selector)];
}

function withRun({ runs, active }: State, id: string): readonly string[] {
  if (runs.includes(id)) return runs;
  const before = runs.includes(active) ? active : runs[0];
  return runs.length ? runs.map((other) => (other === before ? id : other)) : [id];
}

/** The last run on the page stays. */
function toggleRun(state: State, id: string): State {
  if (!state.runs.includes(id)) return { ...state, runs: [...state.runs, id], active: state.active || id };
  const runs = state.runs.filter((other) => other !== id);
  if (!runs.length) return state;
  return { ...state, runs, active: state.active === id ? runs[0] : state.active };
}
