// The root component: one view fills the page; several get a tab each and keep their state.

import { useState } from "preact/hooks";
import { App } from "./graph/app";
import type { Host } from "./lib/host";
import { tabNames } from "./lib/tab-titles";
import type { GraphView } from "./lib/wire";
import { BlocksPage } from "./pages/page";
import type { Page } from "./pages/wire";
import "./shell.css";

/** A view: an interactive graph or a page. */
export type View = GraphView | Page;

export function Shell({ views, hosts }: { views: View[]; hosts: Host[] }) {
  const [current, select] = useState(0);
  const [seen, see] = useState<readonly number[]>([0]);
  if (views.length === 1) return <SingleView view={views[0]} host={hosts[0]} />;
  const names = tabNames(views.map((view) => view.title));
  const choose = (index: number) => {
    select(index);
    if (!seen.includes(index)) see([...seen, index]);
  };
  const step = (event: KeyboardEvent) => {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!by) return;
    const next = (current + by + views.length) % views.length;
    choose(next);
    const tabs = (event.currentTarget as HTMLElement).querySelectorAll<HTMLElement>("[role=tab]");
    tabs[next].focus();
    event.stopPropagation();
  };
  return (
    <div class="cutaway-tabs">
      <div role="tablist" onKeyDown={step}>
        {views.map((view, index) => (
          <button role="tab" aria-selected={index === current} tabIndex={index === current ? 0 : -1}
            title={isPage(view) ? view.about : view.subtitle} onClick={() => choose(index)}>
            {names[index]}
          </button>
        ))}
      </div>
      {views.map((view, index) => seen.includes(index) && (
        <div role="tabpanel" hidden={index !== current} key={index}>
          <SingleView view={view} host={hosts[index]} />
        </div>
      ))}
    </div>
  );
}

function SingleView({ view, host }: { view: View; host: Host }) {
  return isPage(view) ? <BlocksPage page={view} /> : <App view={view} host={host} />;
}

function isPage(view: View): view is Page {
  return view.kind === "page";
}
