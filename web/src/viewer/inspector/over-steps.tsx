// One statistic of the selected tensor over all steps, for every shown run.

import { useMemo } from "preact/hooks";
import { Menu } from "../../graph/controls";
import { chartScale } from "../../lib/charts/chart-scale";
import { stepAt, xOf } from "../../lib/charts/lines";
import { allMissing, selectableStatistics, titleOf } from "../../lib/values/statistics";
import type { RowView, TensorView } from "../../lib/wire";
import { counterpart, describePasses } from "../choice";
import { Curve, CurveLegend } from "../charts/curve";
import { ALL, logName, rangeName, scaleChoice } from "../charts/scale-menu";
import type { PanelProps } from "../panels/props";
import { useTensorLines } from "../charts/use-lines";
import { sourceOfRow } from "../spike/address";
import { useCurveSpikes } from "../spike/use-curve-spikes";

const KEPT = "inspect";

export function OverSteps({ run, runs, choice, state, client, act, isDark, row, tensor, statistic }: PanelProps & { row: RowView; tensor: TensorView | undefined; statistic: string }) {
  const { lines, isLoading, errors } = useTensorLines(client, runs, row, statistic, { kind: choice.kind, isByKind: true, xName: "step", picked: choice.passFilter });
  const { isLog: asked, isWhole } = scaleChoice(state.kept, KEPT);
  const scale = useMemo(() => chartScale(lines, { isLog: asked, isWhole }), [lines, asked, isWhole]);
  const pick = (x: number): void => {
    const step = stepAt(lines, x);
    if (step !== null) act({ do: "step", step });
  };
  const lacking = runs.filter(({ view }) => !counterpart(view, row, choice.passFilter)).map(({ view }) => view.item.name);
  const spikes = useCurveSpikes({ run, state, act, client }, sourceOfRow(row, statistic));
  const passes = describePasses(run, row, choice.passFilter);
  const among = new Set(lines.map(({ run: id }) => id)).size;
  return (
    <figure class="over-steps">
      <figcaption>
        <span class="over-title">
          <Menu name="Statistic" value={statistic} onChoose={(name) => act({ do: "statistic", statistic: name })}
            choices={selectableStatistics(run.statistics).map((name) => [name, titleOf(name)] as const)} />
          over steps{among > 1 ? (among === 2 ? ", both runs" : `, ${among} runs`) : ""}
        </span>
        <span class="over-end">
          <span class="hide-narrow">click a point to go to that step</span>
          <button type="button" class="toggle" aria-pressed={scale.isLog} title={`Logarithmic y axis${asked === null ? ", chosen by the values" : ""}`} onClick={() => act({ do: "keep", name: logName(KEPT), text: scale.isLog ? "0" : "1" })}>log</button>
        </span>
      </figcaption>
      {errors.map((error) => <p class="note" key={error}>{error}</p>)}
      <Curve lines={lines} name={`${titleOf(statistic)} over steps`} height={168} scale={scale} onWhole={() => act({ do: "keep", name: rangeName(KEPT), text: ALL })} isDark={isDark} onPick={pick}
        spikes={spikes}
        mark={choice.step < 0 ? null : xOf(lines, choice.step)} hint={isLoading ? "Loading…" : "This statistic was not recorded for this tensor."}
        broken={tensor?.statistics.some(({ name, value }) => name === "count" && value === 0) ? "This tensor has no elements." : allMissing(statistic)} />
      <CurveLegend lines={lines} />
      {passes && <p class="quiet">{passes}</p>}
      {lacking.length > 0 && <p class="quiet">{lacking.join(", ")} {lacking.length > 1 ? "have" : "has"} no such tensor.</p>}
    </figure>
  );
}
