// Collections and saved results: which tab lists them, how they are described, and where links in their tables lead.

import { unitOf } from "../../lib/unit-names";
import { counted } from "../../lib/formatting";
import type { RunItem, Topic } from "../../lib/wire";
import type { Action } from "../state";
import { showTrace } from "./traces";

/** Name in the URL of the selected unit of a collection. */
export const UNIT = "unit";
/** The column of a table that names what lies in the folder. */
const SAVED_AS = "saved as";

/** A class name as words: `LogitAttribution` is `logit attribution`. */
export function typeName(type: string): string {
  const words = type.replace(/([a-z])([A-Z])/g, "$1 $2").toLowerCase();
  return words.charAt(0).toUpperCase() + words.slice(1);
}

/** The items of a tab: collections first, then results by time. Items that cannot be opened have no topic and are listed under Neurons. */
export function onTab(items: readonly RunItem[], topic: Topic): RunItem[] {
  const own = items.filter(({ kind, page }) => (kind === "activations" || kind === "result") && (page?.topic ?? "neurons") === topic);
  const when = ({ page }: RunItem): number => page?.created ?? Number.MAX_VALUE;
  const made = own.filter(({ kind }) => kind === "result").sort((a, b) => when(a) - when(b));
  return [...own.filter(({ kind }) => kind === "activations"), ...made];
}

/** What it is and how much. */
export function sizeOf({ kind, page, state }: RunItem): string {
  if (!page) return kind === "activations" ? "collection, cannot be opened" : "result, cannot be opened";
  const size = kind === "activations" ? `${counted(page.n_rows, "row")} × ${counted(page.n_units, "unit")}` : typeName(page.type);
  return state === "live" ? `${size}, being written` : state === "killed" ? `${size}, incomplete` : size;
}

/** Local time to the minute; "" if unknown. */
export function whenOf({ page }: RunItem): string {
  return page?.created ? new Date(page.created * 1000).toLocaleString("sv").slice(0, 16) : "";
}

/** Cache version of a unit's page: it depends on the collection and on all rankings in the folder. */
export function editionOf(item: RunItem, items: readonly RunItem[]): string {
  const rankings = items.filter(({ page }) => page?.type === "Ranking").map(({ id, page }) => id + page!.edition);
  return [item.page?.edition ?? "", ...rankings].join("-");
}

/** The link of a table cell: the page of a unit, if a collection here has it, or a saved result; null for none. */
export function leadsTo(items: readonly RunItem[], text: string, column: string, current = ""): readonly Action[] | null {
  if (column === SAVED_AS) {
    const saved = items.find(({ name }) => name === text);
    return saved ? showsArchive(saved) : null;
  }
  const unit = unitOf(text);
  const site = unit?.site ?? (column === "site" ? text : null);
  if (site === null) return null;
  const known = (item: RunItem) => item.page?.sites.find((each) => each.site === site && (!unit || unit.number <= each.last));
  const collection = items.find((item) => item.id === current && known(item)) ?? items.find(known);
  if (!collection) return null;
  const { last, width } = known(collection)!;
  return opens("neurons", collection.id, unit ? text : `${site}#${last === width - 1 ? 0 : last}`);
}

/** The actions that open an archive on the tab that shows it; null for a result that cannot be opened. */
function showsArchive({ id, kind, page }: RunItem): readonly Action[] | null {
  if (page) return opens(page.topic, id, "");
  if (kind === "run") return [{ do: "tab", tab: "tensors" }, { do: "run", id }];
  return kind === "trace" ? showTrace(id) : null;
}

/** The actions that open an entry, and one of its units; "" for none. */
export function opens(topic: Topic, id: string, unit: string): readonly Action[] {
  return [{ do: "tab", tab: topic }, { do: "keep", name: topic, text: id }, { do: "keep", name: UNIT, text: unit }];
}
