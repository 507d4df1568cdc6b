// The most unusual tensors of a step, strongest first.

import { useState } from "preact/hooks";
import { Icon } from "../../graph/icons";
import { short } from "../../lib/formatting";
import { quantityTitle } from "../../lib/values/quantity";
import { statisticOf, titleOf } from "../../lib/values/statistics";
import { FAR, LARGEST, type ChangedTensor, type WhatChanged } from "../../lib/wire";
import { describePass, selectRow } from "../choice";
import type { PanelProps } from "../panels/props";
import { SHOWN } from "./address";
import { nameOf } from "./names";

const FEW = 6;

export function ChangedTensors(props: PanelProps & { view: WhatChanged }) {
  const { view, choice, run } = props;
  const [isAll, setAll] = useState(false);
  const [first, rest] = [view.tensors.slice(0, FEW), view.tensors.slice(FEW)];
  // The selected tensor stays in view, wherever it ranks.
  const shown = isAll ? view.tensors : [...first, ...rest.filter(({ row }) => row === choice.row?.row)];
  return (
    <section class="changed-tensors" aria-label="Most unusual tensors">
      {view.about_tensors && <p class="note">{view.about_tensors}</p>}
      {view.n_tensors > 0 && view.n_unusual === 0 && <p class="note">No tensor of this step is unusual. The nearest to it come first.</p>}
      {view.tensors.length > 0 && (
        <div class="changed-table" role="table" aria-label="Most unusual tensors">
          <div class="changed-row head" role="row">
            <span role="columnheader">Most unusual tensors, {view.n_unusual} of {view.n_tensors}</span>
            <span role="columnheader" class="num">against usual</span>
            <span role="columnheader">z against its past</span>
            <span role="columnheader" class="peers">z against its peers</span>
            <span role="columnheader" aria-label="Inspect" />
          </div>
          {shown.map((tensor) => run.rows[tensor.row] && <TensorRow {...props} key={tensor.row} tensor={tensor} />)}
        </div>
      )}
      {rest.length > 0 && <button type="button" class="link more" aria-expanded={isAll} onClick={() => setAll(!isAll)}>{isAll ? "fewer" : `${rest.length} more`}</button>}
    </section>
  );
}

function TensorRow({ run, choice, state, act, tensor }: PanelProps & { tensor: ChangedTensor }) {
  const row = run.rows[tensor.row];
  const isOn = choice.row?.row === tensor.row;
  const select = (): void => act(selectRow(row, state));
  const inspect = (): void => {
    select();
    act({ do: "statistic", statistic: tensor.statistic });
    act({ do: "keep", name: SHOWN, text: "tensor" });
  };
  const pass = describePass(run, row);
  const about = `${titleOf(tensor.statistic)} ${tensor.value === null ? tensor.broken || "–" : short(tensor.value)}, usually ${tensor.usual === null ? "unknown" : short(tensor.usual)}`;
  return (
    <div class={`changed-row${isOn ? " on" : ""}${tensor.is_unusual ? "" : " usual"}`} role="row" aria-selected={isOn}>
      <span role="cell"><button type="button" class="changed-name" title={`Select in the graph. ${about}`} onClick={select}>
        {isOn && <i class="click">2</i>}<b>{nameOf(row)}</b><small>{[quantityTitle(row.of), titleOf(tensor.statistic), pass].filter(Boolean).join(", ")}</small>
      </button></span>
      <span role="cell" class="num" title={about}>{tensor.broken || ratioText(tensor.ratio)}</span>
      <ZBar z={tensor.z_past} about={`against ${tensor.n_past} earlier steps`} none={tensor.n_past ? "not compared" : "no steps before"} />
      <ZBar z={tensor.z_peers} isPeers about={`against ${tensor.n_peers} tensors of the same role`} none={statisticOf(tensor.statistic).is_comparable ? "too few peers" : "not comparable"} />
      <button type="button" class="inspect" title={`All about ${nameOf(row)}`} aria-label={`Inspect ${nameOf(row)}`} onClick={inspect}><Icon name="right" /></button>
    </div>
  );
}

/** A z-score as a bar; the gray part is what is usual. */
function ZBar({ z, about, none, isPeers = false }: { z: number | null; about: string; none: string; isPeers?: boolean }) {
  const kind = isPeers ? " peers" : "";
  if (z === null) return <span role="cell" class={`z${kind}`} title={none}><em>{none}</em></span>;
  const size = Math.abs(z);
  const strength = size >= 2 * FAR ? " strong" : size >= FAR ? " far" : "";
  return (
    <span role="cell" class={`z${kind}${strength}`} title={`z ${z.toFixed(1)} ${about}`} style={{ "--z": `${zWidth(size)}%`, "--usual": `${zWidth(FAR)}%` }}>
      <i /><b>{size >= LARGEST ? `≥ ${LARGEST}` : size.toFixed(1)}{z < 0 && size >= FAR ? " ↓" : ""}</b>
    </span>
  );
}

/** Logarithmic, so that both 5 and 99 can be read. */
export function zWidth(z: number): number {
  return Math.round((100 * Math.log1p(Math.min(z, LARGEST))) / Math.log1p(LARGEST));
}

/** "×41" with at most two figures, and plain numbers where they are large. */
export function ratioText(ratio: number | null): string {
  if (ratio === null) return "–";
  const size = Math.abs(ratio);
  if (size >= 1e5 || (size < 1e-3 && size > 0)) return `×${short(ratio)}`;
  return `×${size >= 10 ? Math.round(ratio).toLocaleString("en") : Number(ratio.toPrecision(2))}`.replace("-", "−");
}
