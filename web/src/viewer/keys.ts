// Which key does what in the viewer; the help sheet is made from the same list. Panels have further keys of their own.

import type { Tab } from "./state";

export type Command =
  | "earlier" | "later" | "earlier of kind" | "later of kind" | "first" | "last" | "follow" | "next kind" | "next iteration" | "next of" | "next sample"
  | "batch" | "next part" | "next run" | "help" | "theme" | "palette" | Tab;

/** How the sheet shows some keys, what they do, and the command of each. */
type Row = readonly [shown: string, does: string, commands: Readonly<Record<string, Command>>];

export const KEYS: readonly Row[] = [
  [", · .", "the recorded step before · after; on the slider also ← →", { ",": "earlier", ".": "later" }],
  ["< · >", "the same among steps of the same kind; on the slider Shift + ← →", { "<": "earlier of kind", ">": "later of kind" }],
  ["Home · End", "the first and the last recorded step", { Home: "first", End: "last" }],
  ["l", "follow the newest step", { l: "follow" }],
  ["k", "the next kind of step", { k: "next kind" }],
  ["e", "the next iteration", { e: "next iteration" }],
  ["s", "value, gradient, gradient of one loss, update", { s: "next of" }],
  ["b · B", "the next sample · the whole batch again", { b: "next sample", B: "batch" }],
  ["m", "the next tensor of the same node", { m: "next part" }],
  ["x", "the next run", { x: "next run" }],
  ["1 … 6", "Tensors, Ops, Curves, Overview, Network, Notes", { 1: "tensors", 2: "ops", 3: "curves", 4: "overview", 5: "network", 6: "notes" }],
  ["Ctrl + K", "find a tensor, a step, a run, whatever can be done", {}],
  ["t", "light or dark", { t: "theme" }],
  ["?", "this sheet", { "?": "help" }],
];

/** What the keys mean on the Ops tab, whose picture has its own for the rest. */
const ON_OPS = new Set<Command>(["tensors", "ops", "curves", "overview", "network", "notes", "palette", "next run"]);

const COMMANDS = new Map(KEYS.flatMap(([, , commands]) => Object.entries(commands)));

export function commandOf(event: Pick<KeyboardEvent, "key" | "ctrlKey" | "metaKey" | "altKey">, isTyping: boolean, tab: Tab): Command | null {
  if ((event.ctrlKey || event.metaKey) && !event.altKey && event.key.toLowerCase() === "k") return "palette";
  if (isTyping || event.ctrlKey || event.metaKey || event.altKey) return null;
  const command = COMMANDS.get(event.key) ?? null;
  return command && tab === "ops" && !ON_OPS.has(command) ? null : command;
}
