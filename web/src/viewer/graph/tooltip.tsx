// Tooltip of the dependency graph: name, class, shape and the number behind the color.

import { useEffect, useState } from "preact/hooks";
import type { Drawn } from "../../graph/decorate";
import { tooltipPosition, type Hover } from "../../graph/tooltip";
import type { Look } from "../../canvas";
import { foremost } from "../../lib/values/node-colors";
import { counted, short } from "../../lib/formatting";
import { tensorQuery } from "../data/api";
import type { Client } from "../data/client";
import { ANOMALY_WORDS, type NodeColoring } from "./box-colors";
import { useQuery } from "../data/use-query";

const ROOM = { width: 320, height: 130 };
/** Milliseconds that the pointer rests before its tensor is loaded. */
const REST = 90;
interface Props {
  readonly hover: Hover;
  readonly drawn: Drawn;
  readonly look: Look | undefined;
  readonly coloring: NodeColoring | null;
  /** By node of the view, the row of its tensor; -1 for none. */
  readonly rows: Int32Array;
  readonly run: string;
  readonly step: number;
  readonly client: Client;
  /** The node that a module stands for; -1 for none. */
  resultOf(key: string): number;
}

export function GraphTooltip({ hover, drawn, look, coloring, rows, run, step, client, resultOf }: Props) {
  const { view, picture, nodeBoxes } = drawn;
  const number = picture.boxes.findIndex(({ key }) => key === hover.key);
  const box = picture.boxes[number];
  const frame = picture.frames.find(({ key }) => key === hover.key);
  const nodes = box ? coloring?.chosen(nodeBoxes.nodes[number]) ?? nodeBoxes.nodes[number] : [];
  const own = box && box.node >= 0 ? nodes.find((node) => rows[node] >= 0) ?? box.node : resultOf(hover.key);
  if (!box && !frame) return null;
  const marks = [...(coloring?.marks ?? [])].filter(([node]) => nodes.includes(node)).slice(0, 3);
  const site = box && box.node >= 0 ? view.nodes.site[box.node] : "";
  const n = box?.stands_for.length ?? 0;
  return (
    <div class="tooltip" style={tooltipPosition(hover, ROOM)}>
      <b>{box ? box.lines[0] : frame!.title}</b>
      {site && site !== box.lines[0] && <div>{site}</div>}
      {n > 0 && <div>stands for {n === 1 ? "the box of that name" : `${n} boxes`}</div>}
      {box && box.lines.length > 1 && <div>{box.lines.slice(1).join(" · ")}</div>}
      {own >= 0 && rows[own] >= 0 && (
        <Shape run={run} row={rows[own]} step={step} client={client} isInside={!box || box.node < 0} count={coloring?.nodeValues.counts[own] ?? NaN} key={rows[own]} />
      )}
      {box && coloring && <Numbers coloring={coloring} labels={view.nodes.site} nodes={nodes} />}
      {marks.map(([node, { text, about }]) => <div class="odd" key={node}>{nodes.length > 1 ? `${view.nodes.site[node]}: ` : ""}{text}: {about}</div>)}
      {look?.corner && <div><b>{look.words}</b>: {look.about}</div>}
      {look?.about && !look.corner && <div><b>{look.badge}</b> {look.about === look.badge ? "" : look.about}</div>}
      {look?.cells && <div>one cell per block ({look.cells.length}), first block at the left; a click opens it</div>}
    </div>
  );
}

/** Shape and dtype are loaded when the pointer rests; the number of elements is known immediately. */
function Shape(props: { run: string; row: number; step: number; client: Client; isInside: boolean; count: number }) {
  const { run, row, step, client, isInside, count } = props;
  const [isResting, rest] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => rest(true), REST);
    return () => clearTimeout(timer);
  }, []);
  const { value } = useQuery(client, isResting && step >= 0 ? tensorQuery(run, row, step) : null);
  const shape = value?.shape.length ? `[${value.shape.join(", ")}] ${value.dtype}` : "";
  const n = count > 0 ? counted(count, "element") : "";
  if (!shape && !n) return null;
  return <div>{isInside ? "returns " : ""}{shape ? `${shape}${n ? ` · ${n} in the batch` : ""}` : n}</div>;
}

function Numbers({ coloring: { nodeValues }, labels, nodes }: { coloring: NodeColoring; labels: readonly string[]; nodes: readonly number[] }) {
  const { node, anomaly } = foremost(nodeValues, nodes);
  const value = node < 0 ? NaN : nodeValues.values[node];
  const valueText = Number.isNaN(value) ? "" : nodeValues.isChange ? `×${short(2 ** value)}` : short(value);
  const ends = node >= 0 && nodeValues.ends ? `, from ${short(nodeValues.ends.then[node])} to ${short(nodeValues.ends.now[node])}` : "";
  return (
    <>
      {valueText && <div><b>{valueText}</b> {nodeValues.title}{ends}{nodes.length > 1 ? `; maximum, in ${labels[node]}` : ""}</div>}
      {ANOMALY_WORDS[anomaly] && <div class={anomaly === "nan" || anomaly === "inf" ? "odd" : ""}>{ANOMALY_WORDS[anomaly]}</div>}
    </>
  );
}
