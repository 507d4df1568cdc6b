// Items of the command palette and how they rank for a query.

import { quantityName } from "../lib/values/quantity";
import type { RunItem, RunView } from "../lib/wire";
import { nearest, optionsOf } from "./choice";
import type { Command } from "./keys";
import type { Action } from "./state";
import { TAB_IDS, tabOf, type Tab } from "./tabs";

export interface PaletteItem {
  readonly group: "Tabs" | "Tensors" | "Steps" | "Runs" | "Commands";
  readonly title: string;
  readonly about: string;
  /** What to do: a change of state, or a command. */
  readonly actions: readonly (Action | Command)[];
}

const COMMAND_ITEMS: readonly (readonly [string, string, Command])[] = [
  ["Follow the newest step", "l", "follow"],
  ["Go to the first step", "Home", "first"],
  ["Go to the last step", "End", "last"],
  ["Next kind of step", "k", "next kind"],
  ["Next iteration", "e", "next iteration"],
  ["Next pass", "E", "next pass"],
  ["Show next: value, gradient, update", "s", "next of"],
  ["Next sample", "b", "next sample"],
  ["Statistics of the whole batch", "B", "batch"],
  ["Next tensor of the node", "m", "next part"],
  ["Next shown run", "x", "next run"],
  ["Go to a step by number", "g", "type step"],
  ["Open or close the inspector", "i", "inspector"],
  ["Filter steps and samples", "F", "filter"],
  ["Toggle dark mode", "t", "theme"],
  ["Help and keyboard shortcuts", "?", "help"],
];

/** All items of the palette, in page order. */
export function paletteItems(run: RunView | null, items: readonly RunItem[], tabs: readonly Tab[] = TAB_IDS): PaletteItem[] {
  const out: PaletteItem[] = tabs.map((tab) => ({ group: "Tabs", title: tabOf(tab).title, about: tabOf(tab).key, actions: [{ do: "tab", tab }] }));
  for (const item of items) out.push({ group: "Runs", title: item.name, about: item.path === item.name ? `${item.n_steps} steps` : item.path, actions: [{ do: "run", id: item.id }] });
  for (const [title, about, command] of COMMAND_ITEMS) out.push({ group: "Commands", title, about, actions: [command] });
  if (!run) return out;
  for (const [node, rows] of optionsOf(run).nodes) {
    const names = [...new Set(rows.flatMap((row) => [row.site, ...row.names]))].filter((name) => name !== node);
    const ofs = [...new Set(rows.map((row) => quantityName(row.of)))];
    const about = [names.slice(0, 3).join(", "), ofs.length > 1 ? ofs.join(", ") : "", rows[0].role].filter(Boolean).join(" · ");
    out.push({ group: "Tensors", title: node, about, actions: [{ do: "node", node }, { do: "tab", tab: "tensors" }] });
  }
  for (const { step, text } of run.notes) {
    if (step !== null) out.push({ group: "Steps", title: `step ${step}`, about: text.slice(0, 120), actions: [{ do: "step", step }] });
  }
  return out;
}

/** Key under which an item is remembered as recent. */
export function nameOf({ group, title }: PaletteItem): string {
  return `${group} ${title}`;
}

/** The best matches of a query; recent items win ties. A number is a step. */
export function searchPalette(all: readonly PaletteItem[], query: string, run: RunView | null, { most = 60, recent = [] }: { most?: number; recent?: readonly string[] } = {}): PaletteItem[] {
  const asked = query.trim().toLowerCase();
  const [, digits] = /^(?:step\s*)?([\d,._]+)$/.exec(asked) ?? [];
  const out: { offered: PaletteItem; cost: number }[] = [];
  if (digits && run?.steps.length) {
    const step = Number(digits.replace(/\D/g, ""));
    const to = run.steps[nearest(run.steps, (own) => own, step)];
    const about = to === step ? run.kinds[run.kind_of[run.steps.indexOf(to)]] ?? "" : `${step} was not recorded; nearest recorded step`;
    out.push({ offered: { group: "Steps", title: `step ${to.toLocaleString("en")}`, about, actions: [{ do: "step", step: to }] }, cost: -1 });
  }
  for (const offered of all) {
    const cost = asked ? costOf(offered, asked) : 0;
    const lately = recent.indexOf(nameOf(offered));
    if (cost !== null) out.push({ offered, cost: lately < 0 ? cost : asked ? cost - 0.5 : lately - recent.length });
  }
  out.sort((a, b) => a.cost - b.cost); // stable: equal ones stay in the order of the page
  return out.slice(0, most).map(({ offered }) => offered);
}

/** Cost of an item for a query; null if a word is missing. Matches at the start of a part cost least, then short titles. */
function costOf({ title, about }: PaletteItem, asked: string): number | null {
  const [name, whole] = [title.toLowerCase(), `${title} ${about}`.toLowerCase()];
  let cost = 0;
  for (const word of asked.split(/\s+/)) {
    const at = name.indexOf(word);
    if (at >= 0) cost += at === 0 || /[^a-z0-9]/.test(name[at - 1]) ? 0 : 2;
    else if (whole.includes(word)) cost += 4;
    else if (isInOrder(name, word)) cost += 8;
    else return null;
  }
  return cost + title.length / 1000;
}

/** Whether the letters occur in this order: `h0attn` in `h.0.attn`. */
function isInOrder(text: string, letters: string): boolean {
  let at = -1;
  for (const letter of letters) if ((at = text.indexOf(letter, at + 1)) < 0) return false;
  return true;
}

