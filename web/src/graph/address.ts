// The state as the part of the address behind `#`, so that a reload or a sent link shows the same.

import type { GraphView } from "../lib/wire";
import { depthOf, initial, toDepth, type Highlight, type State } from "./state";

/** The point of the picture at the corner of the canvas, and pixels per unit. */
export interface Camera {
  readonly x: number;
  readonly y: number;
  readonly scale: number;
}

/** `1-3,7` for 1, 2, 3 and 7. */
export function ranges(numbers: Iterable<number>): string {
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

/** The numbers below `limit` behind such a text. */
export function unranged(text: string, limit: number): Set<number> {
  const out = new Set<number>();
  for (const part of text.split(",")) {
    const [, begin, end = begin] = /^(\d+)(?:-(\d+))?$/.exec(part) ?? [];
    for (let number = Number(begin); number <= Number(end) && number < limit; number++) out.add(number);
  }
  return out;
}

const firsts = new WeakMap<GraphView, State>();

/** The address is written at every step, and how a view is shown at first is always the same. */
function firstOf(view: GraphView): State {
  let first = firsts.get(view);
  if (!first) firsts.set(view, (first = initial(view)));
  return first;
}

/** What differs from how the view is shown at first, as text; "" if nothing does. */
export function toHash(view: GraphView, state: State, camera: Camera | null = null): string {
  const first = firstOf(view);
  const said: [string, string][] = [];
  const say = (name: string, value: string, usual = ""): void => void (value !== usual && said.push([name, value]));
  const { depth, isExact } = depthOf(view, state.open);
  const usual = depthOf(view, first.open).depth;
  if (isExact) say("depth", `${depth}`, `${usual}`);
  else say("open", ranges(state.open), "none");
  say("loops", state.rolled ? "rolled" : "unrolled", first.rolled ? "rolled" : "unrolled");
  say("apart", ranges(state.apart));
  say("direction", state.direction, first.direction);
  say("at", state.selection ?? "");
  say("to", state.second ?? "");
  say("show", state.highlight);
  say("color", state.color);
  say("size", state.size);
  say("find", state.query);
  if (camera) say("view", [camera.x.toFixed(0), camera.y.toFixed(0), camera.scale.toFixed(3)].join(","));
  return said.map(([name, value]) => `${name}=${encodeURIComponent(value).replaceAll("%2C", ",")}`).join("&");
}

/** The state and the camera behind such a text; what it does not say, or what this view does not have, is as at first. */
export function fromHash(view: GraphView, hash: string): { state: State; camera: Camera | null } {
  const said = new URLSearchParams(hash.replace(/^#/, ""));
  const first = firstOf(view);
  const key = (name: string): string | null => {
    const [, letter, number] = /^([ng])(\d+)$/.exec(said.get(name) ?? "") ?? [];
    const count = letter === "g" ? view.groups.parent.length : view.nodes.row.length;
    return letter && Number(number) < count ? said.get(name) : null;
  };
  const measure = (name: string): string => view.measures.find((known) => known.name === said.get(name))?.name ?? "";
  const depth = Number(said.get("depth"));
  const open = said.has("open") ? unranged(`0,${said.get("open")}`, view.groups.parent.length)
    : depth >= 1 ? toDepth(view, depth) : first.open;
  const loops = said.get("loops");
  const selection = key("at");
  const second = key("to");
  const asked = said.get("show") as Highlight;
  const isShown = selection && (asked === "ancestors" || asked === "descendants" || (asked === "paths" && second));
  const [x, y, scale] = (said.get("view") ?? "").split(",").map(Number);
  return {
    state: {
      ...first, open, selection,
      rolled: loops === "rolled" || (loops === null && first.rolled),
      apart: unranged(said.get("apart") ?? "", view.runs.length),
      direction: said.get("direction") === "right" ? "right" : "down",
      second: isShown && asked === "paths" ? second : null,
      highlight: isShown ? asked : "",
      color: measure("color"), size: measure("size"), query: said.get("find") ?? "",
    },
    camera: scale > 0 && Number.isFinite(x + y + scale) ? { x, y, scale } : null,
  };
}
