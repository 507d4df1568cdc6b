// Hook for the runs of the folder and those shown, updated live.

import { useEffect, useMemo, useReducer, useRef, useState } from "preact/hooks";
import type { RunItem, RunView } from "../../lib/wire";
import { baseOf, RANK, runQuery, runsQuery } from "./api";
import type { Client } from "./client";
import { runLooks, type RunLook } from "../../lib/run-colors";
import { shortNames } from "../../lib/run-names";
import { listen, type Growth } from "./live";
import type { ShownRun } from "../panels/props";
import type { State } from "../state";
import { useQuery, useQueries } from "./use-query";

export interface Runs {
  /** Null until they are known. */
  readonly items: readonly RunItem[] | null;
  /** Runs, and those on the page that are gone from the folder. */
  readonly chips: readonly RunItem[];
  /** Ids of those on the page. */
  readonly shown: readonly string[];
  readonly active: string;
  /** The selected run, or the previous one while it loads; null for none. */
  readonly run: RunView | null;
  readonly runs: readonly ShownRun[];
  /** Color, letter and short name of those on the page, by id. */
  readonly looks: ReadonlyMap<string, RunLook & { readonly shortName: string }>;
  /** Id → why it cannot be shown. */
  readonly errors: ReadonlyMap<string, string>;
  /** Why nothing at all can be shown. */
  readonly error: string | null;
  /** Whether the event stream is connected. */
  readonly isConnected: boolean;
}

export function useRuns(client: Client, state: State): Runs {
  const { value: items, error } = useQuery(client, runsQuery());
  const names = useRef(new Map<string, RunItem>());
  items?.forEach((item) => names.current.set(item.id, item));
  // The first run shown stays selected when other runs appear or disappear.
  const first = useRef<readonly string[]>([]);
  if (!first.current.length) first.current = firstOf(items ?? []);
  const wanted = state.runs.length ? state.runs : first.current;
  const active = wanted.includes(state.active) ? state.active : wanted[0] ?? "";
  const asked = useQueries(client, wanted.map(runQuery));
  const editions = useRef(new Map<string, string>());
  forgetOld(client, editions.current, asked.map(({ value }) => value));
  const isThere = useLiveEvents(client, wanted, asked.map(({ value }) => value));
  const last = useRef<RunView | null>(null);
  const place = wanted.indexOf(active);
  const own = asked[place]?.value ?? null;
  if (own) last.current = own;
  else if (asked[place]?.error || !wanted.length) last.current = null;
  const chips = useMemo(() => {
    if (!items) return [];
    const all = items.filter(({ kind }) => kind === "run").flatMap((item) => byRank(item, wanted));
    const gone = wanted.filter((id) => !all.some((item) => item.id === id));
    return [...all, ...gone.map((id) => names.current.get(id) ?? unknown(id))];
  }, [items, wanted.join()]);
  // By name, also before a run has loaded or if it cannot be: colors must not change when it comes.
  const looks = useMemo(() => {
    const own = wanted.map((id) => chips.find((item) => item.id === id)?.name ?? id);
    const [found, short] = [runLooks(own), shortNames(own)];
    return new Map(wanted.map((id, i) => [id, { ...found[i], shortName: short[i] }]));
  }, [chips, wanted.join()]);
  const views = asked.map(({ value }) => value);
  const runs = useMemo(() => wanted.flatMap((id, i): ShownRun[] => {
    const view = views[i];
    return view ? [{ view, ...looks.get(id)! }] : [];
  }), [looks, wanted.join(), ...views]);
  const errors = new Map(wanted.flatMap((id, i) => (asked[i].error ? [[id, asked[i].error!]] : [])));
  // The view of a run is newer than its entry in the list, which is fetched rarely.
  const current = chips.map((item) => runs.find(({ view }) => view.item.id === item.id)?.view.item ?? item);
  return { items: items ?? null, chips: current, shown: wanted, looks, active, run: last.current, runs, errors, error: items ? null : error, isConnected: isThere };
}

/** A run that several ranks wrote has a chip for each of them that is on the page. */
function byRank(item: RunItem, wanted: readonly string[]): RunItem[] {
  const ranks = wanted.filter((id) => id !== item.id && baseOf(id) === item.id).map((id) => ({ ...item, id, name: `${item.name} · rank ${id.split(RANK)[1]}` }));
  return wanted.includes(item.id) || !ranks.length ? [item, ...ranks] : ranks;
}

/** Drop cached data of runs that were resumed or rewritten, before it is rendered. */
function forgetOld(client: Client, editions: Map<string, string>, views: readonly (RunView | undefined)[]): void {
  for (const view of views) {
    if (!view) continue;
    const { item: { id }, edition } = view;
    const before = editions.get(id);
    editions.set(id, edition);
    if (before !== undefined && before !== edition) client.forget(id, runQuery(id));
  }
}

/** The default run: one that is recording, else the first. */
function firstOf(items: readonly RunItem[]): string[] {
  const runs = items.filter(({ kind }) => kind === "run");
  const first = runs.find(({ state }) => state === "live") ?? runs.find(({ n_steps }) => n_steps > 0) ?? runs[0];
  return first ? [first.id] : [];
}

function unknown(id: string): RunItem {
  return { id, name: id, path: "not in this folder", kind: "run", state: "unknown", n_steps: 0, last_step: null, n_tensors: 0, kinds: [], damage: [], ranks: [], page: null, trace: null, archive: "" };
}

/** Listen to growth events and refetch what is shown. */
function useLiveEvents(client: Client, wanted: readonly string[], views: readonly (RunView | undefined)[]): boolean {
  const [isThere, setThere] = useState(true);
  const [, redraw] = useReducer((n: number) => n + 1, 0);
  const heard = useRef(new Map<string, Growth>());
  const answered = useRef(new WeakSet<Growth>());
  const newest = useRef({ wanted, views });
  newest.current = { wanted, views };
  useEffect(() => wanted.forEach((run, i) => {
    // An event that arrived while a view was loading may be newer than the view.
    const [view, growth] = [views[i], heard.current.get(run)];
    if (view && growth && growth.n_steps > view.steps.length && !answered.current.has(growth)) {
      answered.current.add(growth); // once: a run that was resumed may have fewer steps than were ever written
      client.grew(run);
      redraw(0);
    }
  }), views);
  useEffect(() => listen({
    onGrowth(growth) {
      const before = heard.current.get(growth.run);
      heard.current.set(growth.run, growth);
      const view = newest.current.views[newest.current.wanted.indexOf(growth.run)];
      // The first event of a run usually repeats what is loaded already.
      if (!before && (!view || isSame(view, growth))) return;
      if (JSON.stringify(before) === JSON.stringify(growth)) return;
      client.grew(growth.run);
      redraw(0);
    },
    onRuns() {
      client.grew("");
      redraw(0);
    },
    onThere(isBack) {
      setThere(isBack);
      if (!isBack) return;
      // Events may have been missed, so everything on the page is asked again.
      heard.current.clear();
      for (const run of ["", ...newest.current.wanted]) client.grew(run);
      redraw(0);
    },
  }), [client]);
  return isThere;
}

function isSame({ item, edition }: RunView, growth: Growth): boolean {
  return edition === growth.edition && item.n_steps === growth.n_steps && item.last_step === growth.last_step && item.state === growth.state;
}
