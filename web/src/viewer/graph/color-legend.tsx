// Legend of the run graph, in a strip of its own: the scale with its limits, the marks outside it, the roles.

import { KindLegend } from "../../graph/legend";
import { gradient, middle } from "../../lib/colors";
import { beyond, positionOn, type Anomaly } from "../../lib/values/node-colors";
import { counted, short } from "../../lib/formatting";
import type { TrainingState } from "../../lib/wire";
import type { NodeColoring } from "./box-colors";

interface Props {
  readonly coloring: NodeColoring | null;
  /** Message if there are no colors. */
  readonly missing: string;
  /** The number of what is selected; NaN for none. */
  readonly selected: number;
  /** Whether the limits in the address are not those of the run. */
  readonly isPinned: boolean;
  /** What "unusual" means; "" if unknown. */
  readonly help: string;
  /** Whether boxes have cells for the blocks they stand for, and whether edges lead back. */
  readonly hasCells: boolean;
  readonly hasLoops: boolean;
  onFit(): void;
}

const SIGNS: readonly (readonly [Anomaly, string, string])[] = [
  ["zero", "holds-zero", "nothing but zeros"], ["nan", "holds-nan", "NaN"], ["inf", "holds-inf", "Inf"], ["mask", "holds-mask", "−Inf, a mask"],
];
const STATES: readonly (readonly [TrainingState, string])[] = [["no gradient", "no gradient reaches this"], ["not updated", "not updated"], ["frozen", "frozen"]];

export function ColorLegend({ coloring, missing, selected, isPinned, help, hasCells, hasLoops, onFit }: Props) {
  const anomalies = new Set(coloring?.nodeValues.anomalies);
  const states = new Set([...(coloring?.training?.values() ?? [])].map(({ state }) => state));
  const nUnusual = (coloring?.marks?.size ?? 0) + (coloring?.nMore ?? 0);
  return (
    <div class="color-legend" role="group" aria-label="Legend">
      {missing && <p class="quiet">{missing}</p>}
      {coloring?.scale && <Ramp coloring={coloring} selected={selected} isPinned={isPinned} onFit={onFit} />}
      <ul class="signs">
        {SIGNS.filter(([anomaly]) => anomalies.has(anomaly)).map(([, sign, text]) => <li key={sign}><i class={sign}>{sign === "holds-inf" || sign === "holds-mask" ? "∞" : ""}</i>{text}</li>)}
        {coloring && anomalies.has("apart") && <li key="apart" title="Buffers and whole numbers, such as counters, positions and token ids, have no place on the scale"><i class="holds-none" />not colored: buffers, whole numbers</li>}
        {coloring && anomalies.has("none") && <li key="none"><i class="holds-none" />not recorded</li>}
        {STATES.filter(([state]) => states.has(state)).map(([state, text]) => <li key={state}><StateSign state={state} />{text}</li>)}
        {hasCells && <li key="cells" title="One box for several identical modules"><i class="cells" />one cell per block</li>}
        {hasLoops && <li key="loops" class="looped"><i />to the next iteration</li>}
        {nUnusual > 0 && (
          <li key="unusual" class="unusual" title={help}>
            <i class="ring" />{coloring!.nMore ? `${counted(nUnusual, "unusual tensor")}, the strongest ${coloring!.marks!.size} marked` : "unusual"}{help && <b aria-label={help}>?</b>}
          </li>
        )}
      </ul>
      <details class="roles"><summary>Roles</summary><KindLegend /></details>
    </div>
  );
}

/** The badge of a state, as the canvas draws it. */
export function StateSign({ state }: { state: TrainingState }) {
  const path = state === "no gradient" ? "M4.5 5.6h7L8 11.5z M3.4 12.6L12.6 3.4" : state === "not updated" ? "M4.5 6.4h7M4.5 9.6h7" : "M6.4 4.5v7M9.6 4.5v7";
  return (
    <svg class="state-sign" viewBox="0 0 16 16" role="img" aria-label={state}>
      <circle cx="8" cy="8" r="7" /><path d={path} />
    </svg>
  );
}

interface RampProps {
  readonly coloring: NodeColoring;
  readonly selected: number;
  readonly isPinned: boolean;
  onFit(): void;
}

function Ramp({ coloring: { nodeValues, scale }, selected, isPinned, onFit }: RampProps) {
  const { low, high, scale: how, ramp } = scale!;
  const format = (value: number): string => (nodeValues.isChange ? `×${short(2 ** value)}` : short(value));
  const place = positionOn(scale, selected);
  const way = nodeValues.isChange ? "" : how === "log" ? ", log scale" : how === "symlog" ? ", around 0" : "";
  const { below, above } = beyond(nodeValues, scale!);
  const outside = [below ? `${counted(below, "tensor")} below` : "", above ? `${counted(above, "tensor")} above` : ""].filter(Boolean).join(", ");
  return (
    <div class="ramp-legend">
      <div class="ramp-title"><b>{nodeValues.title}</b>{way}</div>
      <div class={`ramp${below ? " below" : ""}${above ? " above" : ""}`} style={{ background: gradient(ramp) }}>
        {place !== null && <b style={{ left: `${place * 100}%` }} title={`selected tensor: ${format(selected)}`} />}
      </div>
      <div class="ramp-ticks">
        {low === high ? <span class="only">{format(low)}</span>
          : <><span>{format(low)}</span><span>{format(middle(scale!))}</span><span>{format(high)}</span></>}
      </div>
      <div class="quiet limits">
        {nodeValues.isChange ? "The same limits for all steps." : "Limits hold 98 % of this run's steps and stay the same for all of them."}
        {outside && <> <b>{outside}</b> now.</>}
        {isPinned && <> <button type="button" class="link" onClick={onFit} title="The limits come from the address, and the run has others now">use the run's limits</button></>}
      </div>
    </div>
  );
}
