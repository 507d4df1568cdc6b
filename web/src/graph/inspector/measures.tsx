// Measures of the selection as cards, and buttons to highlight ancestors, descendants and paths.

import { aggregate } from "../../layout/box-of-node";
import { quantity } from "../../lib/formatting";
import { usePage } from "../context";
import type { Highlight } from "../state";

/** One card per measure: its value, and its share of the total for sums. A click colors the graph by it. */
export function Numbers({ nodes }: { nodes: readonly number[] }) {
  const { view, state, act } = usePage();
  const found = view.measures.flatMap((measure) => {
    const value = aggregate(measure, nodes);
    // The statistics of a single op are shown with its value.
    const isTold = nodes.length === 1 && measure.total === "max" && measure.name !== state.color && !measure.name.startsWith("grad");
    return value === null || isTold || (value === 0 && measure.total === "sum") ? [] : [{ measure, value }];
  });
  if (!found.length) return null;
  return (
    <div class="stats costs">
      {found.map(({ measure, value }) => {
        const whole = measure.total === "sum" ? aggregate(measure, measure.values.keys()) : null;
        const share = whole ? value / whole : null;
        return (
          <button type="button" key={measure.name} class={`stat${state.color === measure.name ? " on" : ""}`}
            title={`Color the graph by ${measure.title}`}
            onClick={() => act({ do: "color", measure: state.color === measure.name ? "" : measure.name })}>
            <span class="label">{measure.title}</span>
            <b>{quantity(value, measure.unit)}</b>
            {share !== null && (
              <small>{percent(share)} of total{share > 0.005 && <i style={{ width: `${100 * Math.min(1, share)}%` }} />}</small>
            )}
            {measure.total === "max" && nodes.length > 1 && <small>maximum over all ops</small>}
          </button>
        );
      })}
    </div>
  );
}

function percent(share: number): string {
  return share > 0 && share < 0.001 ? "< 0.1 %" : `${(100 * share).toFixed(share < 0.1 ? 1 : 0)} %`;
}

/** Buttons to highlight ancestors, descendants and paths of the selection. */
export function Highlights() {
  const { state, act } = usePage();
  const one = (highlight: Highlight, text: string, title: string) => (
    <button type="button" class={`button${state.highlight === highlight ? " on" : ""}`} title={title}
      onClick={() => act({ do: "highlight", highlight })}>
      {text}
    </button>
  );
  return (
    <div class="highlights">
      {one("ancestors", "ancestors", "Highlight all ancestors (a)")}
      {one("descendants", "descendants", "Highlight all descendants (d)")}
      <button type="button" class={`button${state.isPicking || state.highlight === "paths" ? " on" : ""}`}
        title="Highlight the paths to another box (p)" onClick={() => act({ do: "pick" })}>
        {state.isPicking ? "click the other end …" : "paths to …"}
      </button>
    </div>
  );
}
