// Inspector without a selection: the model, how to read the graph, and the most expensive boxes.

import { useCallback } from "preact/hooks";
import { aggregate } from "../../layout/box-of-node";
import type { Measure } from "../../lib/wire";
import { KindLegend } from "../legend";
import { usePage } from "../context";
import { Costs, type CostRow } from "./costs";
import { Card, Facts } from "./parts";

export function Guide() {
  const { view } = usePage();
  return (
    <article class="panel">
      <h2>{view.title}</h2>
      {view.subtitle && <p class="quiet lead">{view.subtitle}</p>}
      <Card title="Model"><Facts facts={view.facts} /></Card>
      <CostlyBoxes />
      <Card title="Reading the graph">
        <KindLegend />
        <ul class="hints">
          <li>Edges are tensors. Labels on edges are argument names.</li>
          <li>Double-click a module to open it and its title to fold it. <kbd>[</kbd> <kbd>]</kbd> fold and open one level.</li>
          {view.runs.length > 0 && <li>A stack of cards stands for identical blocks. Open it to see one of them.</li>}
          <li>Click an op to see its values, arguments and source line.</li>
          <li>
            <kbd>←</kbd> <kbd>↑</kbd> <kbd>↓</kbd> <kbd>→</kbd> follow edges. <kbd>a</kbd> <kbd>d</kbd> <kbd>p</kbd> highlight ancestors, descendants, paths.{" "}
            <kbd>/</kbd> searches. <kbd>?</kbd> lists all shortcuts.
          </li>
        </ul>
      </Card>
    </article>
  );
}

/** What costs most among the boxes that are shown. */
function CostlyBoxes() {
  const { drawn } = usePage();
  const rowsOf = useCallback((measure: Measure): CostRow[] => drawn.picture.boxes.map(({ key, lines, stands_for }, box) => (
    { key, name: lines[0], about: lines.join(" · "), value: stands_for.length ? 0 : aggregate(measure, drawn.nodeBoxes.nodes[box]) ?? 0 }
  )), [drawn]);
  return <Costs title="Most expensive visible boxes" n={7} rowsOf={rowsOf} />;
}
