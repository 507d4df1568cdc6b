// Tests of pages.ts.

import assert from "node:assert/strict";
import { test } from "node:test";
import type { PageItem, RunItem } from "../../lib/wire";
import { toHash } from "../address";
import { exampleItem } from "../example";
import { editionOf, leadsTo, onTab, sizeOf, typeName, whenOf } from "./pages";
import { firstTab, visibleTabs } from "../tabs";
import { INITIAL, reduce, type Action } from "../state";

function shelved(id: string, page: Partial<PageItem>, also: Partial<RunItem> = {}): RunItem {
  const whole: PageItem = { topic: "neurons", type: "Ranking", title: "", created: 0, n_rows: 0, n_units: 0, sites: [], edition: "1", ...page };
  return exampleItem(id, { name: id, kind: page.sites ? "activations" : "result", page: whole, ...also });
}

const SITES = [{ site: "h.0", width: 4, last: 3 }, { site: "h.1", width: 2, last: 9 }];
const ITEMS: readonly RunItem[] = [
  exampleItem("run"), shelved("best", {}), shelved("acts", { type: "Activations", sites: SITES, n_rows: 1, n_units: 6 }),
  shelved("lens", { topic: "language", type: "Lens" }), shelved("more", { type: "Activations", sites: SITES.slice(0, 1) }),
];
const broken = exampleItem("broken", { kind: "result", damage: ["it is damaged"] });
const stateAfter = (actions: readonly Action[] | null): string => toHash(actions!.reduce(reduce, INITIAL));

test("each tab has its own, collections first, and what cannot be opened is not left out", () => {
  assert.deepEqual(onTab([...ITEMS, broken], "neurons").map(({ id }) => id), ["acts", "more", "best", "broken"]);
  assert.deepEqual(onTab([...ITEMS, broken], "language").map(({ id }) => id), ["lens"]);
});

test("results stand as they were made", () => {
  const saved = [shelved("b", { created: 3 }), shelved("a", { created: 7 }), shelved("c", { created: 1 })];
  assert.deepEqual(onTab(saved, "neurons").map(({ id }) => id), ["c", "b", "a"]);
  assert.deepEqual(["LogitAttribution", "Lens", "TopWords"].map(typeName), ["Logit attribution", "Lens", "Top words"]);
});

test("a folder without a run is opened where something lies", () => {
  const rest = ITEMS.slice(1);
  assert.deepEqual([firstTab(ITEMS), firstTab(rest), firstTab(rest.slice(0, 2)), firstTab([])], [null, "language", "neurons", null]);
  assert.equal(firstTab([exampleItem("trace", { kind: "trace" })]), "ops");
});

test("a folder opens on its start page, also beside runs", () => {
  const start = shelved("hello", { topic: "start", type: "Page" });
  assert.equal(firstTab([...ITEMS, start]), "start");
  assert.ok(visibleTabs([start], "tensors").includes("start"));
  assert.ok(!visibleTabs(ITEMS, "tensors").includes("start"));
});

test("the tab of language is there when something is on it, or it is looked at", () => {
  const without = ITEMS.filter(({ id }) => id !== "lens");
  assert.ok(visibleTabs(ITEMS, "tensors").includes("language"));
  assert.ok(!visibleTabs(without, "tensors").includes("language"));
  assert.ok(visibleTabs(without, "language").includes("language"));
  assert.ok(visibleTabs([], "tensors").includes("neurons"));
});

test("the name of a unit leads to its page, if a collection has it", () => {
  assert.equal(stateAfter(leadsTo(ITEMS, "h.0#3", "unit")), "tab=neurons&~neurons=acts&~unit=h.0%233");
  assert.equal(stateAfter(leadsTo(ITEMS, "h.0#3", "unit", "more")), "tab=neurons&~neurons=more&~unit=h.0%233");
  assert.equal(stateAfter(leadsTo(ITEMS, "h.1#9", "representative", "more")), "tab=neurons&~neurons=acts&~unit=h.1%239");
  for (const text of ["h.0#4", "h.2#0", "#3", "word"]) assert.equal(leadsTo(ITEMS, text, "unit"), null, text);
});

test("what is saved under a name is led to, and a site to its first unit", () => {
  assert.equal(stateAfter(leadsTo(ITEMS, "lens", "saved as")), "tab=language&~language=lens");
  for (const text of ["gone", "broken"]) assert.equal(leadsTo([...ITEMS, broken], text, "saved as"), null);
  const saved = [exampleItem("run", { name: "base" }), exampleItem("trace", { name: "net.trace", kind: "trace" })];
  assert.equal(stateAfter(leadsTo(saved, "base", "saved as")), "runs=run");
  assert.equal(stateAfter(leadsTo(saved, "net.trace", "saved as")), "tab=ops&~trace=trace");
  assert.equal(stateAfter(leadsTo(ITEMS, "h.0", "site")), "tab=neurons&~neurons=acts&~unit=h.0%230");
  assert.equal(leadsTo(ITEMS, "h.0", "word"), null);
});

test("the list says what it is, how much, and whether it is whole", () => {
  assert.deepEqual(ITEMS.slice(1, 3).map(sizeOf), ["Ranking", "1 row × 6 units"]);
  assert.equal(sizeOf({ ...ITEMS[2], state: "live" }), "1 row × 6 units, being written");
  assert.equal(sizeOf({ ...ITEMS[2], state: "killed" }), "1 row × 6 units, incomplete");
  assert.equal(sizeOf(broken), "result, cannot be opened");
  assert.equal(whenOf(ITEMS[1]), "");
  assert.match(whenOf(shelved("x", { created: 1.7e9 })), /^2023-11-1\d \d\d:\d\d$/);
});

test("what is known of a unit may change with every ranking that is saved", () => {
  const before = editionOf(ITEMS[2], ITEMS);
  assert.notEqual(editionOf(ITEMS[2], [...ITEMS, shelved("new", {})]), before);
  assert.equal(editionOf(ITEMS[2], [...ITEMS, exampleItem("other run")]), before);
});
