// The tensor inspector: everything about the selected tensor at the selected step.

import { defaultStatistic } from "../../lib/values/statistics";
import type { RunView } from "../../lib/wire";
import { tensorQuery } from "../data/api";
import { rowsOfNode } from "../choice";
import { Cards } from "../inspector/cards";
import { Head, ExportBar } from "../inspector/head";
import { OverSteps } from "../inspector/over-steps";
import { paintOf } from "../inspector/paint";
import { Picture } from "../inspector/picture";
import { Sample } from "../inspector/sample";
import { Distribution } from "../inspector/spread";
import { Tables } from "../inspector/tables";
import { readSpike, SHOWN, SPIKE } from "../spike/address";
import { WhatChangedPanel } from "../spike/panel";
import { Trail } from "../spike/trail";
import type { PanelProps } from "./props";
import { useQuery } from "../data/use-query";
import "../../style/viewer/tensor.css";

export function InspectorPanel(props: PanelProps) {
  const { run, choice, client, state } = props;
  const { row, step, sample } = choice;
  const query = row && step >= 0 ? tensorQuery(run.item.id, row.row, step, sample, paintOf(state.kept)) : null;
  const { value, isOld, error } = useQuery(client, query);
  const spike = readSpike(state.kept[SPIKE]);
  if (spike && state.kept[SHOWN] !== "tensor") return <WhatChangedPanel {...props} spike={spike} />;
  if (step < 0) return <Empty title="No steps recorded yet">Tensors appear here after the first recorded step.</Empty>;
  if (!row && state.node !== null) return <NotInRun {...props} node={state.node} />;
  if (!row) return <Hints />;
  // Stale data of another tensor must not be shown as that of this one.
  const tensor = value && value.row === row.row ? value : undefined;
  const statistic = chosenStatistic(run, state.statistic);
  return (
    <article class={`panel tensor-panel${isOld ? " old" : ""}`}>
      {spike && <Trail {...props} spike={spike} />}
      <Head {...props} row={row} tensor={tensor} />
      {error !== null && <p class="note">{error}</p>}
      {tensor && <ExportBar {...props} row={row} tensor={tensor} />}
      {tensor && <Cards {...props} tensor={tensor} statistic={statistic} />}
      {statistic && <OverSteps {...props} row={row} tensor={tensor} statistic={statistic} />}
      {tensor && <Sample {...props} tensor={tensor} />}
      {tensor && <Distribution {...props} tensor={tensor} />}
      {tensor && <Picture {...props} tensor={tensor} />}
      {tensor && <Tables {...props} tensor={tensor} />}
    </article>
  );
}

/** The statistic to plot: that of the graph's colors, else the magnitude. */
function chosenStatistic(run: RunView, selected: string): string {
  return run.statistics.includes(selected) ? selected : defaultStatistic(run.statistics);
}

function Empty({ title, children }: { title: string; children: string }) {
  return <article class="panel"><h2>{title}</h2><p class="note">{children}</p></article>;
}

/** The tensor selected in another run, or in the URL, is not in this one. */
function NotInRun({ run, runs, node, act }: PanelProps & { node: string }) {
  const having = runs.filter(({ view }) => rowsOfNode(view, node).length);
  return (
    <article class="panel" aria-live="polite">
      <h2>Not in this run</h2>
      <p class="note">{run.item.name} has no tensor <code>{node}</code>. Switch to a run that has it to see it again.</p>
      <div class="highlights">
        {having.map(({ view }) => <button type="button" class="button" key={view.item.id} onClick={() => act({ do: "run", id: view.item.id })}>Show it in {view.item.name}</button>)}
        <button type="button" class="button" onClick={() => act({ do: "node", node: null })}>Clear selection</button>
      </div>
    </article>
  );
}

function Hints() {
  return (
    <article class="panel">
      <h2>No tensor selected</h2>
      <p class="quiet lead">Select a tensor to see its statistics</p>
      <ul class="hints">
        <li>Click a node in the graph, or follow edges with <kbd>←</kbd> <kbd>↑</kbd> <kbd>↓</kbd> <kbd>→</kbd>.</li>
        <li><kbd>/</kbd> searches for a node by name.</li>
        <li>Color the graph by a statistic to spot exploding or vanishing tensors.</li>
        <li>Overview lists all tensors of this step in one table.</li>
      </ul>
    </article>
  );
}
