// A synthetic transformer of n blocks as a view, for tests.

import type { BlockRun, Form, GraphView, Kind } from "../lib/wire";

interface Draft {
  label: string;
  function: string;
  site: string;
  kind: Kind;
  form: Form;
  group: number;
}

/** Input, n blocks of (attn: linear, softmax, matmul), add and relu, and a head; blocks are one run if n > 1. */
export function exampleView(n: number): GraphView {
  const nodes: Draft[] = [];
  const groups = { parent: [-1], label: ["Toy"], class_name: ["Toy"], first: [0], end: [0], run: [-1], place: [0] };
  const parent: number[] = [];
  const child: number[] = [];
  const run: BlockRun = { groups: [], label: `h.0 … h.${n - 1}` };
  const node = (label: string, site: string, group: number, from: number[], kind: Kind = "plain", form: Form = "function"): number => {
    nodes.push({ label: `${label}_${nodes.length}`, function: label, site, kind, form, group });
    for (const upper of from) parent.push(upper), child.push(nodes.length - 1);
    return nodes.length - 1;
  };
  const group = (label: string, class_name: string, around: number): number => {
    groups.parent.push(around);
    groups.label.push(label);
    groups.class_name.push(class_name);
    groups.first.push(nodes.length);
    groups.end.push(-1);
    groups.run.push(-1);
    groups.place.push(0);
    return groups.label.length - 1;
  };
  let x = node("input", "@in.0", 0, [], "input");
  for (let i = 0; i < n; i++) {
    const block = group(`h.${i}`, "Block", 0);
    if (n > 1) [groups.run[block], groups.place[block]] = [0, i];
    run.groups.push(block);
    const attn = group(`h.${i}.attn`, "Attention", block);
    const qkv = node("linear", `h.${i}.attn.qkv/linear`, attn, [x], "parametric", "leaf");
    const soft = node("softmax", `h.${i}.attn/softmax`, attn, [qkv]);
    const out = node("matmul", `h.${i}.attn/matmul`, attn, [soft, qkv]);
    groups.end[attn] = nodes.length;
    x = node("relu", `h.${i}/relu`, block, [node("add", `h.${i}/add`, block, [x, out])]);
    groups.end[block] = nodes.length;
  }
  node("linear", "head/linear", 0, [x], "parametric", "leaf");
  groups.end[0] = nodes.length;
  const every = <T>(value: T): T[] => nodes.map(() => value);
  const each = <T>(value: T): T[] => groups.label.map(() => value);
  return {
    title: "Toy",
    subtitle: "",
    facts: [["model", "Toy"], ["ops", `${nodes.length - 1}`]],
    error: "",
    nodes: {
      row: nodes.map((_, i) => i),
      label: nodes.map(({ label }) => label),
      lines: nodes.map(({ form, site }) => (form === "leaf" ? ["4×8", `${site.split("/")[0]} (Linear)`] : ["4×8"])),
      kind: nodes.map(({ kind }) => kind),
      form: nodes.map(({ form }) => form),
      flags: every(0),
      group: nodes.map(({ group }) => group),
      function: nodes.map((draft) => draft.function),
      site: nodes.map(({ site }) => site),
      rolled: nodes.map((_, i) => i),
      event: nodes.map((_, i) => i),
      pass_: every(1),
      rolled_lines: {},
      outputs: [["", nodes.length - 1]],
    },
    groups: {
      ...groups,
      rolled_label: groups.label,
      size: each("4×8"),
      parameters: each(""),
      kind: each<Kind>("plain"),
      flags: each(0),
      depth: groups.parent.map((above) => (above < 0 ? 0 : above === 0 ? 1 : 2)),
      n_ops: groups.first.map((first, i) => groups.end[i] - first),
      rolled: groups.label.map((_, i) => i),
      pass_: each(1),
      call: groups.label.map((_, i) => i),
    },
    runs: n > 1 ? [run] : [],
    edges: { parent, child, argument: parent.map(() => ""), branch_starts: [] },
    measures: [
      {
        name: "seconds", title: "Time", unit: "s", total: "sum", scale: "log",
        values: nodes.map((_, i) => (i % 7 === 6 ? null : 1e-4 * (i + 1))),
      },
    ],
    comparison: null,
    is_rolled: false,
    kind: "graph",
    noun: "ops",
  };
}
