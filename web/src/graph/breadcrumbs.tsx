// Breadcrumbs: the modules around the selection, or around the center of the screen.

import type { GraphView } from "../lib/wire";
import { usePage } from "./context";
import { around } from "./state";

export function Breadcrumbs({ middle }: { middle: string | null }) {
  const { view, state, go, toggle, fit } = usePage();
  const key = state.selection ?? middle;
  const isOwn = key !== null && /^[ng]/.test(key);
  // The root has the name of the whole.
  const path = isOwn ? around(view, key).filter((group) => view.groups.label[group] !== ".") : [];
  const number = isOwn ? Number(key.slice(1)) : -1;
  const isGroup = isOwn && key.startsWith("g");
  const crumbText = (place: number, all = path): string => crumb(view, all, place, state.rolled);
  const leaf = !isOwn ? "" : isGroup ? crumbText(path.length, [...path, number]) : view.nodes.label[number];
  // The result of a module has the module's name, which is shown already.
  const isResult = isOwn && !isGroup && path.length > 0 && leaf === crumbText(path.length - 1);
  const last = isResult ? "" : leaf;
  return (
    <nav class="crumbs" aria-label="Breadcrumbs">
      <button type="button" class="crumb" onClick={fit} title="Fit to view">{view.title}</button>
      {path.map((group, place) => (
        <span key={group}>
          <i>›</i>
          <button type="button" class={`crumb ${isResult && state.selection && place === path.length - 1 ? "here" : ""}`} onClick={() => go(`g${group}`)}
            title={`${view.groups.label[group]} (${view.groups.class_name[group]})`}>
            {crumbText(place)}
          </button>
        </span>
      ))}
      {last && (
        <span>
          <i>›</i>
          <button type="button" class={`crumb ${state.selection ? "here" : ""}`} title={isGroup ? "Open or fold" : "Zoom to selection"}
            onClick={() => (isGroup && state.selection === key ? toggle(number) : go(key!))}>
            {last}
          </button>
        </span>
      )}
    </nav>
  );
}

/** What the address of a module adds to that of the one around it: `attn` in `h.2` for `h.2.attn`. */
export function crumb({ groups }: GraphView, path: readonly number[], place: number, isRolled = false): string {
  const label = (isRolled ? groups.rolled_label : groups.label)[path[place]];
  const outer = place > 0 ? groups.label[path[place - 1]].replace(/[ :].*$/, "") : "";
  return outer && label.startsWith(`${outer}.`) ? label.slice(outer.length + 1) : label;
}
