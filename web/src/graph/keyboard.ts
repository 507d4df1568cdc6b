// Keyboard shortcuts of the graph; the help sheet is generated from the same table.

export type Command =
  | "left" | "right" | "up" | "down" | "toggle" | "clear" | "ancestors" | "descendants" | "paths" | "zoom in" | "zoom out" | "fit"
  | "focus" | "shallower" | "deeper" | "rolled" | "color" | "search" | "next" | "previous" | "help" | "theme" | "panel" | "direction";

/** The keys as the help sheet shows them, their description, and the command of each key. */
type Row = readonly [shown: string, does: string, commands: Readonly<Record<string, Command>>];

/** All keys, in the order of the sheet. */
export const KEYS: readonly Row[] = [
  ["← ↑ ↓ →", "follow edges", { ArrowLeft: "left", ArrowUp: "up", ArrowDown: "down", ArrowRight: "right" }],
  ["Enter · Space", "open or fold the selected module", { Enter: "toggle", " ": "toggle" }],
  ["[ · ]", "fold or open one level", { "[": "shallower", "]": "deeper" }],
  ["a · d", "highlight ancestors · descendants of the selection", { a: "ancestors", d: "descendants" }],
  ["p, then click", "highlight paths from the selection to another box; also Shift + click", { p: "paths" }],
  ["/", "search", { "/": "search" }],
  ["n · N", "next · previous match", { n: "next", N: "previous" }],
  ["+ · −", "zoom", { "+": "zoom in", "=": "zoom in", "-": "zoom out", "_": "zoom out" }],
  ["0 · f", "fit to view · zoom to selection", { "0": "fit", f: "focus" }],
  ["r", "roll up or unroll loops", { r: "rolled" }],
  ["v", "top to bottom or left to right", { v: "direction" }],
  ["c", "choose what to color by", { c: "color" }],
  ["i · t", "inspector · dark mode", { i: "panel", t: "theme" }],
  ["Esc", "clear highlight, search, selection", { Escape: "clear" }],
  ["?", "this help", { "?": "help" }],
];

const COMMANDS = new Map(KEYS.flatMap(([, , commands]) => Object.entries(commands)));

/** The command of a key; null for none, while typing, and for browser shortcuts. */
export function commandOf(event: Pick<KeyboardEvent, "key" | "ctrlKey" | "metaKey" | "altKey">, isTyping: boolean): Command | null {
  if (isTyping || event.ctrlKey || event.metaKey || event.altKey) return null;
  return COMMANDS.get(event.key) ?? null;
}

/** Whether an element handles a key itself. */
export function takesKeys(element: Element | null, key: string): boolean {
  if (!element) return false;
  if (/^(INPUT|SELECT|TEXTAREA)$/.test(element.tagName)) return true;
  // Buttons react to these two keys only.
  return (element.tagName === "BUTTON" || element.tagName === "SUMMARY") && (key === "Enter" || key === " ");
}
