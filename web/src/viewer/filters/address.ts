// Filters in the address: one per line.

import type { Action, State } from "../state";

/** Names of the panel states: the filters, and whether the bar is open without any. */
export const [FILTERS, BAR] = ["filter", "filter.bar"];

export function readFilters(kept: State["kept"]): string[] {
  return (kept[FILTERS] ?? "").split("\n").map((text) => text.trim()).filter(Boolean);
}

export function keepFilters(filters: readonly string[]): Action {
  return { do: "keep", name: FILTERS, text: [...new Set(filters)].join("\n") };
}
