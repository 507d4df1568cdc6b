// The state of the viewer as the URL fragment, so that a reload or a shared link shows the same view.

import { useEffect, useMemo, useRef } from "preact/hooks";
import { INITIAL, ORDER, type State, type Selector } from "./state";
import { TAB_IDS } from "./tabs";

const KEPT = "~";
/** Stands for the kind "", because an empty parameter means all kinds. */
const WITHOUT_KIND = "\0";
/** Changes of these panel states get their own history entry: collection or result, spike, and unit. */
const [PAGES, UNIT] = [["start", "neurons", "language", "spike", "spike.shows"], "unit"];

/** The differences from the initial state, as text; "" for none. */
export function toHash(state: State): string {
  const params: [string, string][] = [];
  const add = (name: string, value: string, usual = ""): void => void (value !== usual && params.push([name, value]));
  add("tab", state.tab, INITIAL.tab);
  add("runs", state.runs.join(","));
  add("run", state.active, state.runs[0] ?? "");
  add("node", state.node ?? "");
  add("part", state.part);
  add("of", state.of, INITIAL.of);
  add("iteration", `${state.iteration}`, `${INITIAL.iteration}`);
  add("pass", `${state.pass}`, `${INITIAL.pass}`);
  add("kind", state.kind === "" ? WITHOUT_KIND : state.kind ?? "");
  add("step", `${state.step ?? ""}`);
  add("sample", `${state.sample ?? ""}`);
  add("statistic", state.statistic);
  add("since", `${state.since ?? ""}`);
  add("order", state.order.join(","), ORDER.join(","));
  for (const name of Object.keys(state.kept).sort()) add(KEPT + name, state.kept[name]);
  return params.map(([name, value]) => `${name}=${encodeURIComponent(value).replaceAll("%2C", ",").replaceAll("%2F", "/")}`).join("&");
}

/** Parse such a text; missing and invalid parts keep their initial state. */
export function fromHash(hash: string): State {
  const params = new URLSearchParams(hash.replace(/^#/, ""));
  const number = (name: string): number | null => (/^\d+$/.test(params.get(name) ?? "") ? Number(params.get(name)) : null);
  const runs = (params.get("runs") ?? "").split(",").filter(Boolean);
  const active = params.get("run") ?? runs[0] ?? "";
  const order = (params.get("order") ?? "").split(",") as Selector[];
  const kept = [...params].filter(([name]) => name.startsWith(KEPT)).map(([name, text]) => [name.slice(KEPT.length), text]);
  return {
    ...INITIAL,
    tab: TAB_IDS.find((tab) => tab === params.get("tab")) ?? INITIAL.tab,
    runs: active && !runs.includes(active) ? [...runs, active] : runs,
    active,
    node: params.get("node") || null,
    part: params.get("part") ?? "",
    of: params.get("of") || INITIAL.of,
    iteration: number("iteration") ?? INITIAL.iteration,
    pass: number("pass") ?? INITIAL.pass,
    kind: params.get("kind") === WITHOUT_KIND ? "" : params.get("kind") || null,
    step: number("step"),
    sample: number("sample"),
    statistic: params.get("statistic") ?? "",
    since: number("since"),
    order: [...order].sort().join() === [...ORDER].sort().join() ? order : ORDER,
    kept: Object.fromEntries(kept),
  };
}

/** Whether a change gets its own entry in the browser's history. */
function isNewPlace(before: State, now: State): boolean {
  const place = ({ tab, active, node, kept }: State): (string | null | undefined)[] => [tab, active, node, ...PAGES.map((name) => kept[name]), kept[UNIT]];
  // An address without a run means the first: naming it is no new place.
  return place(before.active ? before : { ...before, active: now.active }).join("\n") !== place(now).join("\n");
}

/** Rate limit for URL changes, as browsers enforce one: burst, then changes per second. */
const [MOST, A_SECOND] = [20, 2];
/** Selections within this many milliseconds share one history entry. */
const WALK = 700;

/** Token bucket: returns how many milliseconds a change must wait; 0 consumes a token. */
export function makeBudget(now: () => number): () => number {
  let [left, at] = [MOST, now()];
  return () => {
    const time = now();
    left = Math.min(MOST, left + ((time - at) / 1000) * A_SECOND);
    at = time;
    if (left < 1) return ((1 - left) / A_SECOND) * 1000;
    left -= 1;
    return 0;
  };
}

/** Write the state to the URL, and follow URLs that the user enters or goes back to. */
export function useAddress(state: State, onGo: (state: State) => void): void {
  const written = useRef(state);
  const pushed = useRef(-Infinity);
  const budget = useMemo(() => makeBudget(() => performance.now()), []);
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    // Immediately, so that even an instant reload restores it; only a long drag of the slider is throttled.
    const write = (): void => {
      const hash = toHash(state);
      if (`#${hash}` === (location.hash || "#")) return;
      const wait = budget();
      if (wait > 0) {
        timer = setTimeout(write, wait);
        return;
      }
      const to = hash ? `#${hash}` : location.pathname + location.search;
      const isNew = isNewPlace(written.current, state);
      // Stepping through nodes or units is one history entry, not thirty.
      const isWalk = !isNewPlace({ ...written.current, node: state.node, kept: { ...written.current.kept, [UNIT]: state.kept[UNIT] } }, state) && performance.now() - pushed.current < WALK;
      if (isNew) pushed.current = performance.now();
      if (isNew && !isWalk) history.pushState(null, "", to);
      else history.replaceState(null, "", to);
      written.current = state;
    };
    write();
    return () => clearTimeout(timer);
  }, [state]);
  useEffect(() => {
    const go = (): void => {
      written.current = fromHash(location.hash);
      onGo(written.current);
    };
    addEventListener("popstate", go);
    return () => removeEventListener("popstate", go);
  }, []);
}
