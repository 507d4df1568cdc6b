// Tensors that the reader keeps an eye on, with their numbers, whatever is folded or out of view.

import { IconButton } from "../../graph/controls";
import type { Tints } from "../../lib/node-colors";
import { short } from "../../lib/formatting";
import type { GraphView } from "../../lib/wire";

interface Props {
  readonly pinned: ReadonlySet<number>;
  readonly view: GraphView;
  readonly tints: Tints | null;
  readonly selected: string | null;
  onGo(key: string): void;
  onUnpin(node: number): void;
}

export function Pins({ pinned, view, tints, selected, onGo, onUnpin }: Props) {
  if (!pinned.size) return null;
  return (
    <ul class="pins" aria-label="Pinned tensors">
      {[...pinned].sort((a, b) => a - b).map((node) => (
        <li key={node} class={selected === `n${node}` ? "on" : ""}>
          <button type="button" title={view.nodes.site[node]} onClick={() => onGo(`n${node}`)}>
            <i class={`dot kind-${view.nodes.kind[node]}`} />{view.nodes.label[node]}{tints && <b>{said(tints, node)}</b>}
          </button>
          <IconButton icon="close" title="Unpin" onClick={() => onUnpin(node)} />
        </li>
      ))}
    </ul>
  );
}

function said({ values, oddities, isChange }: Tints, node: number): string {
  if (oddities[node] === "nonfinite") return "NaN or Inf";
  if (Number.isNaN(values[node])) return "–";
  return isChange ? `×${short(2 ** values[node])}` : short(values[node]);
}
