// Keyboard shortcuts of the viewer; the help sheet is generated from the same table. Panels add their own.

import { KEYS as GRAPH_KEYS } from "../graph/keyboard";
import { UNIT_KEYS } from "./panels/unit-bar";
import { TAB_IDS, TABS, tabOf, type Tab } from "./tabs";

const VIEWER_COMMANDS = [
  "earlier", "later", "earlier of kind", "later of kind", "first", "last", "type step", "follow", "next kind", "next iteration", "next pass", "next of", "next sample",
  "batch", "next part", "next run", "inspector", "filter", "search", "help", "theme", "palette",
] as const;
/** The id of a tab is also the command that opens it. */
export type Command = (typeof VIEWER_COMMANDS)[number] | Tab;

export const COMMANDS: readonly Command[] = [...VIEWER_COMMANDS, ...TAB_IDS];

/** The keys as the help sheet shows them, their description, and the command of each key. */
type Row = readonly [shown: string, does: string, commands: Readonly<Record<string, Command>>];

export const PALETTE = "Ctrl + K";

export const KEYS: readonly Row[] = [
  [", · .", "previous · next recorded step; on the slider also ← →", { ",": "earlier", ".": "later" }],
  ["< · >", "previous · next step of the same kind; on the slider Shift + ← →", { "<": "earlier of kind", ">": "later of kind" }],
  ["Home · End", "first · last recorded step; on the slider Page ↑ ↓ move by a tenth", { Home: "first", End: "last" }],
  ["g", "go to a step by number; on the slider just type it", { g: "type step" }],
  ["l", "follow the newest step, or stop following", { l: "follow" }],
  ["k", "next kind of step", { k: "next kind" }],
  ["e · E", "next iteration · next pass", { e: "next iteration", E: "next pass" }],
  ["s", "value, gradient, gradient of one loss, update", { s: "next of" }],
  ["b · B", "next sample · whole batch", { b: "next sample", B: "batch" }],
  ["m", "next tensor of the same node", { m: "next part" }],
  ["x", "next shown run", { x: "next run" }],
  ["i", "open or close the inspector", { i: "inspector" }],
  ["F", "filter steps and samples", { F: "filter" }],
  ["n · p", "next · previous spike, while “What changed here” is open", {}],
  ["/", "search on this tab: nodes, tensors, notes, units", { "/": "search" }],
  [`${TABS[0].key} … ${TABS[TABS.length - 1].key}`, TABS.map(({ title }) => title).join(", "), Object.fromEntries(TABS.map(({ key, id }) => [key, id]))],
  [PALETTE, "search tensors, steps, runs and commands", {}],
  ["t", "toggle dark mode", { t: "theme" }],
  ["?", "this help", { "?": "help" }],
];

/** Keys on the Ops tab; its graph handles the others. */
export const ON_OPS: ReadonlySet<Command> = new Set<Command>([...TAB_IDS, "palette"]);
/** Keys on page tabs, which belong to no run. */
const ON_PAGES: ReadonlySet<Command> = new Set<Command>([...ON_OPS, "search", "help", "theme"]);

function isActive(command: Command, tab: Tab): boolean {
  const { needs } = tabOf(tab);
  return needs === "trace" ? ON_OPS.has(command) : needs !== "page" || ON_PAGES.has(command);
}

const COMMAND_OF_KEY = new Map(KEYS.flatMap(([, , commands]) => Object.entries(commands)));

export function commandOf(event: Pick<KeyboardEvent, "key" | "ctrlKey" | "metaKey" | "altKey">, isTyping: boolean, tab: Tab): Command | null {
  if ((event.ctrlKey || event.metaKey) && !event.altKey && event.key.toLowerCase() === "k") return "palette";
  if (isTyping || event.ctrlKey || event.metaKey || event.altKey) return null;
  const command = COMMAND_OF_KEY.get(event.key) ?? null;
  return command && isActive(command, tab) ? command : null;
}

/** Keys of the graph that the viewer overrides, with its own help text. */
const NOT_OF_GRAPH = new Set(["search", "panel", "theme", "help"]);

/** The content of the help sheet: global keys, and those of the tab. */
export function helpOf(tab: Tab): { everywhere: readonly Row[]; title: string; own: readonly (readonly [shown: string, does: string, commands: object])[] } {
  const everywhere = KEYS.filter(([, , commands]) => Object.values(commands).every((command) => isActive(command, tab)));
  const { needs } = tabOf(tab);
  if (needs === "page") return { everywhere, title: "Units and tables", own: UNIT_KEYS };
  return { everywhere, title: "In the graph", own: GRAPH_KEYS.filter(([, , commands]) => needs === "trace" || !Object.values(commands).some((command) => NOT_OF_GRAPH.has(command))) };
}
