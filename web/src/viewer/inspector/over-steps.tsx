// One statistic of the selected tensor over all steps, for every shown run.

import { Menu } from "../../graph/controls";
import { stepAt, xOf } from "../../lib/charts/lines";
import { allMissing, isLogScaled, selectableStatistics, titleOf } from "../../lib/values/statistics";
import type { RowView, TensorView } from "../../lib/wire";
import { counterpart, describePasses } from "../choice";
import { Curve, CurveLegend } from "../charts/curve";
import type { PanelProps } from "../panels/props";
import { useTensorLines } from "../charts/use-lines";

const LOG = "inspect.log";

export function OverSteps({ run, runs, choice, state, client, act, isDark, row, tensor, statistic }: PanelProps & { row: RowView; tensor: TensorView | undefined; statistic: string }) {
  const { lines, isLoading, errors } = useTensorLines(client, runs, row, statistic, { kind: choice.kind, isByKind: true, xName: "step", picked: choice.passFilter });
  const kept = state.kept[LOG];
  const isLog = kept ? kept === "1" : isLogScaled(statistic);
  const pick = (x: number): void => {
    const step = stepAt(lines, x);
    if (step !== null) act({ do: "step", step });
  };
  const lacking = runs.filter(({ view }) => !counterpart(view, row, choice.passFilter)).map(({ view }) => view.item.name);
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
          <button type="button" class="toggle" aria-pressed={isLog} title="Logarithmic y axis" onClick={() => act({ do: "keep", name: LOG, text: isLog ? "0" : "1" })}>log</button>
        </span>
      </figcaption>
      {errors.map((error) => <p class="note" key={error}>{error}</p>)}
      <Curve lines={lines} name={`${titleOf(statistic)} over steps`} height={168} isLog={isLog} isDark={isDark} onPick={pick}
        mark={choice.step < 0 ? null : xOf(lines, choice.step)} hint={isLoading ? "Loading…" : "This statistic was not recorded for this tensor."}
        broken={tensor?.statistics.some(({ name, value }) => name === "count" && value === 0) ? "This tensor has no elements." : allMissing(statistic)} />
      <CurveLegend lines={lines} />
      {passes && <p class="quiet">{passes}</p>}
      {lacking.length > 0 && <p class="quiet">{lacking.join(", ")} {lacking.length > 1 ? "have" : "has"} no such tensor.</p>}
    </figure>
  );
}
