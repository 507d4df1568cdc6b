// Pinned tensors with their values, always visible.

import { IconButton } from "../../graph/controls";
import type { NodeValues } from "../../lib/values/node-colors";
import { short } from "../../lib/formatting";
import type { GraphView } from "../../lib/wire";

interface Props {
  readonly pinned: ReadonlySet<number>;
  readonly view: GraphView;
  readonly values: NodeValues | null;
  readonly selected: string | null;
  onGo(key: string): void;
  onUnpin(node: number): void;
}

export function Pins({ pinned, view, values, selected, onGo, onUnpin }: Props) {
  if (!pinned.size) return null;
  return (
    <ul class="pins" aria-label="Pinned tensors">
      {[...pinned].sort((a, b) => a - b).map((node) => (
        <li key={node} class={selected === `n${node}` ? "on" : ""}>
          <button type="button" title={view.nodes.site[node]} onClick={() => onGo(`n${node}`)}>
            <i class={`dot kind-${view.nodes.kind[node]}`} />{view.nodes.label[node]}{values && <b>{formatNodeValue(values, node)}</b>}
          </button>
          <IconButton icon="close" title="Unpin" onClick={() => onUnpin(node)} />
        </li>
      ))}
    </ul>
  );
}

function formatNodeValue({ values, anomalies, isChange }: NodeValues, node: number): string {
  if (anomalies[node] === "nan" || anomalies[node] === "inf") return anomalies[node] === "nan" ? "NaN" : "Inf";
  if (Number.isNaN(values[node])) return "–";
  return isChange ? `×${short(2 ** values[node])}` : short(values[node]);
}
