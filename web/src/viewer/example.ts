// A synthetic run for tests: recurrent, three kinds of steps, two losses.

import type { RowView, RunItem, RunView } from "../lib/wire";

export function exampleItem(id: string, also: Partial<RunItem> = {}): RunItem {
  return {
    id, name: `demo/${id}`, path: `demo/${id}`, kind: "run", state: "ended", n_steps: 0, last_step: null, n_tensors: 0, kinds: [], damage: [], ranks: [0], page: null, trace: null, archive: "",
    ...also,
  };
}

/** Steps 0, 10, 20…; every third is "long", every tenth "rare", the others are "short". */
export function exampleRun(id: string, { nSteps = 40, nModules = 4 } = {}): RunView {
  const kinds = ["short", "long", "rare"];
  const steps = Array.from({ length: nSteps }, (_, i) => i * 10);
  const kindOf = steps.map((_, i) => (i % 10 === 9 ? 2 : i % 3 === 2 ? 1 : 0));
  const rows: RowView[] = [];
  const add = (site: string, of: string, iteration: number, role = "value", also: Partial<RowView> = {}): void =>
    void rows.push({ row: rows.length, site, of, iteration, pass_: 1, n_passes: iteration ? 3 : 1, role, node: "", part: "", names: [], title: "", ...also });
  add("input", "value", 0, "input");
  for (let module = 0; module < nModules; module++) {
    for (const iteration of [1, 2, 3]) {
      add(`blocks.${module}`, "value", iteration, "value", { names: [`blocks.${module}.out`] });
      add(`blocks.${module}`, "grad", iteration);
      add(`blocks.${module}`, "grad/aux", iteration);
    }
    for (const of of ["value", "grad", "grad/aux", "update"]) add(`blocks.${module}.weight`, of, 0, "parameter");
  }
  add("head", "value", 0);
  add("$margin", "value", 0, "value", { node: "head", part: "margin" });
  add("head", "grad", 0);
  add("$loss", "value", 0, "loss");
  return {
    item: exampleItem(id, { n_steps: nSteps, last_step: steps.at(-1) ?? null, n_tensors: rows.length, kinds }),
    steps, kinds, kind_of: kindOf, structures: [], structure_of: steps.map(() => -1), sessions: [0], rows,
    statistics: ["mean", "abs_mean", "std", "min", "max", "norm"], digest: "1", edition: "1", iterations: [1, 2, 3], losses: ["aux"], scalars: ["loss", "lr"], logged: steps.length ? [0, steps.at(-1)!] : [],
    n_notes: 1,
    notes: [{ step: 30, time: 1.7e9, level: "warning", text: "the loss jumped", about: {} }],
    sample_fields: ["text"], has_values: true, config: {}, environment: {}, damage: [], lost: [],
  };
}
