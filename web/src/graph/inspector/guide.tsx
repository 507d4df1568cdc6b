// What the panel says while nothing is selected: what the model is, how to read the picture, where the cost lies.

import { useCallback } from "preact/hooks";
import { together } from "../../layout/box-of-node";
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
      <Card title="The model"><Facts facts={view.facts} /></Card>
      <CostlyBoxes />
      <Card title="How to read it">
        <KindLegend />
        <ul class="hints">
          <li>Edges carry tensors. Names on them are arguments, where it matters which is which.</li>
          <li>Double-click a module to open it, its title to fold it; <kbd>[</kbd> <kbd>]</kbd> fold and open a level.</li>
          {view.runs.length > 0 && <li>A stack of cards stands for identical blocks. Open one to see what is in each.</li>}
          <li>Click an op to see its values, its arguments and the line of code that ran it.</li>
          <li>
            <kbd>←</kbd> <kbd>↑</kbd> <kbd>↓</kbd> <kbd>→</kbd> walk, <kbd>a</kbd> <kbd>d</kbd> <kbd>p</kbd> highlight,{" "}
            <kbd>/</kbd> searches, <kbd>?</kbd> tells all keys.
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
    { key, name: lines[0], about: lines.join(" · "), value: stands_for.length ? 0 : together(measure, drawn.shown.nodes[box]) ?? 0 }
  )), [drawn]);
  return <Costs title="Most expensive of what is shown" n={7} rowsOf={rowsOf} />;
}
