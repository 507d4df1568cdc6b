// The state of a graph as the URL fragment, so that a reload or a shared link shows the same view.

import type { GraphView } from "../lib/wire";
import { depthOf, initial, toDepth, type Highlight, type State } from "./state";

/** The point of the picture at the corner of the canvas, and pixels per unit. */
export interface Camera {
  readonly x: number;
  readonly y: number;
  readonly scale: number;
}

/** `1-3,7` for 1, 2, 3 and 7. */
export function formatRanges(numbers: Iterable<number>): string {
  const out: string[] = [];
  let begin = NaN;
  let last = NaN;
  const close = (): void => void (last >= begin && out.push(begin === last ? `${begin}` : `${begin}-${last}`));
  for (const number of [...numbers].sort((a, b) => a - b)) {
    if (number !== last + 1) {
      close();
      begin = number;
    }
    last = number;
  }
  close();
  return out.join(",");
}

/** Parse such a text; numbers from `limit` on are dropped. */
export function parseRanges(text: string, limit: number): Set<number> {
  const out = new Set<number>();
  for (const part of text.split(",")) {
    const [, begin, end = begin] = /^(\d+)(?:-(\d+))?$/.exec(part) ?? [];
    for (let number = Number(begin); number <= Number(end) && number < limit; number++) out.add(number);
  }
  return out;
}

const firsts = new WeakMap<GraphView, State>();

/** Cached: the URL is written at every step, and the initial state of a view never changes. */
function firstOf(view: GraphView): State {
  let first = firsts.get(view);
  if (!first) firsts.set(view, (first = initial(view)));
  return first;
}

/** The differences from the initial state, as text; "" for none. */
export function toHash(view: GraphView, state: State, camera: Camera | null = null): string {
  const first = firstOf(view);
  const params: [string, string][] = [];
  const add = (name: string, value: string, usual = ""): void => void (value !== usual && params.push([name, value]));
  const { depth, isExact } = depthOf(view, state.open);
  const usual = depthOf(view, first.open).depth;
  if (isExact) add("depth", `${depth}`, `${usual}`);
  else add("open", formatRanges(state.open), "none");
  add("loops", state.rolled ? "rolled" : "unrolled", first.rolled ? "rolled" : "unrolled");
  add("apart", formatRanges(state.apart));
  add("direction", state.direction, first.direction);
  add("at", state.selection ?? "");
  add("to", state.second ?? "");
  add("show", state.highlight);
  add("color", state.color);
  add("size", state.size);
  add("find", state.query);
  if (camera) add("view", [camera.x.toFixed(0), camera.y.toFixed(0), camera.scale.toFixed(3)].join(","));
  return params.map(([name, value]) => `${name}=${encodeURIComponent(value).replaceAll("%2C", ",")}`).join("&");
}

/** Parse such a text. Missing parts, and parts that this view does not have, keep their initial state. */
export function fromHash(view: GraphView, hash: string): { state: State; camera: Camera | null } {
  const params = new URLSearchParams(hash.replace(/^#/, ""));
  const first = firstOf(view);
  const key = (name: string): string | null => {
    const [, letter, number] = /^([ng])(\d+)$/.exec(params.get(name) ?? "") ?? [];
    const count = letter === "g" ? view.groups.parent.length : view.nodes.row.length;
    return letter && Number(number) < count ? params.get(name) : null;
  };
  const measure = (name: string): string => view.measures.find((known) => known.name === params.get(name))?.name ?? "";
  const depth = Number(params.get("depth"));
  const open = params.has("open") ? parseRanges(`0,${params.get("open")}`, view.groups.parent.length)
    : depth >= 1 ? toDepth(view, depth) : first.open;
  const loops = params.get("loops");
  const selection = key("at");
  const second = key("to");
  const asked = params.get("show") as Highlight;
  const isShown = selection && (asked === "ancestors" || asked === "descendants" || (asked === "paths" && second));
  const [x, y, scale] = (params.get("view") ?? "").split(",").map(Number);
  return {
    state: {
      ...first, open, selection,
      rolled: loops === "rolled" || (loops === null && first.rolled),
      apart: parseRanges(params.get("apart") ?? "", view.runs.length),
      direction: params.get("direction") === "right" ? "right" : "down",
      second: isShown && asked === "paths" ? second : null,
      highlight: isShown ? asked : "",
      color: measure("color"), size: measure("size"), query: params.get("find") ?? "",
    },
    camera: scale > 0 && Number.isFinite(x + y + scale) ? { x, y, scale } : null,
  };
}
