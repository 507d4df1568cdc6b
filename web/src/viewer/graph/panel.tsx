// The dependency graph of a run: recorded tensors and modules, colored by a statistic at the selected step.

import { useRef } from "preact/hooks";
import type { GraphView, RunGraph } from "../../lib/wire";
import { arrangementKey } from "./layout-overrides";
import { graphQuery } from "../data/api";
import { Failure, Hint } from "../hint";
import type { PanelProps } from "../panels/props";
import { RunGraphPane } from "./pane";
import type { CarriedArrangement } from "./use-arrangement";
import { useQuery } from "../data/use-query";
import { useLayoutOverrides } from "./use-layout-overrides";
import "../../style/viewer/run-graph.css";

/** Number of structures whose views are cached, so that they keep their layout. */
const MOST = 16;
const views = new Map<string, GraphView>();
const known = new WeakMap<RunGraph, GraphView>();

/** The same view for the same structure, whichever run it came with: positions stay put while runs and kinds change. */
function stableView(graph: RunGraph, overrides: string): GraphView {
  let view = known.get(graph);
  if (view) return view;
  // Only if the nodes are the same, too: two runs with one structure may record different tensors.
  const key = JSON.stringify([graph.structure, overrides, graph.nodes.map(({ name }) => name), graph.view.nodes.lines]);
  view = views.get(key) ?? graph.view;
  views.delete(key);
  views.set(key, view);
  known.set(graph, view);
  if (views.size > MOST) views.delete(views.keys().next().value!);
  return view;
}

export function GraphPanel(props: PanelProps) {
  const { run, choice, client } = props;
  const number = choice.place < 0 ? -1 : run.structure_of[choice.place] ?? -1;
  const structure = run.structures[number]?.hash ?? "";
  const overrides = useLayoutOverrides(props, structure);
  const { value, isOld, error } = useQuery(client, graphQuery(run.item.id, structure, run.digest, overrides.text));
  const last = useRef<{ graph: RunGraph; overrides: string } | undefined>(undefined);
  if (value && !isOld) last.current = { graph: value, overrides: overrides.text };
  const carried = useRef<CarriedArrangement | "nothing" | null>(null);
  if (error !== null) return <Failure what="The graph" error={error} />;
  if (!last.current) return <Hint title="Loading graph…" isQuiet />;
  const { graph, overrides: own } = last.current;
  if (!graph.nodes.length) {
    return <Hint title="No tensors recorded yet"><p>{graph.why_missing || "The graph appears with the first recorded step."}</p></Hint>;
  }
  const view = stableView(graph, own);
  const spot = arrangementKey(graph.structure, own);
  return (
    <RunGraphPane {...props} graph={graph} view={view} arrangementKey={spot} overrides={overrides} carried={carried}
      key={spot || `${run.item.id} ${graph.nodes.length}`} />
  );
}
