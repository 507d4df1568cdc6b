// One statistic of the selected tensor over all steps, in every run on the page.

import { useState } from "preact/hooks";
import { Menu } from "../../app/controls";
import { stepAt, xOf } from "../../lib/lines";
import { isWide, ranked, titleOf } from "../../lib/statistics";
import type { RowView } from "../../lib/wire";
import { Curve, CurveLegend } from "../curve";
import type { PanelProps } from "../panels";
import { useTensorLines } from "../use-lines";

export function OverSteps({ run, runs, choice, client, act, isDark, row, statistic }: PanelProps & { row: RowView; statistic: string }) {
  const [isLog, setLog] = useState<boolean | null>(null);
  const { lines, isLoading, errors } = useTensorLines(client, runs, row, statistic, { kind: choice.kind, isByKind: true, xName: "step" });
  const isLogNow = isLog ?? isWide(statistic);
  const pick = (x: number): void => {
    const step = stepAt(lines, x);
    if (step !== null) act({ do: "step", step });
  };
  const among = new Set(lines.map(({ run: id }) => id)).size;
  return (
    <figure class="over-steps">
      <figcaption>
        <span class="over-title">
          <Menu name="Statistic" value={statistic} onChoose={(name) => act({ do: "statistic", statistic: name })}
            choices={ranked(run.statistics).map((name) => [name, titleOf(name)] as const)} />
          over steps{among > 1 ? (among === 2 ? ", both runs" : `, ${among} runs`) : ""}
        </span>
        <span class="over-end">
          <span class="hide-narrow">click a point to go there</span>
          <button type="button" class="toggle" aria-pressed={isLogNow} title="Logarithmic heights" onClick={() => setLog(!isLogNow)}>log</button>
        </span>
      </figcaption>
      {errors.map((error) => <p class="note" key={error}>{error}</p>)}
      <Curve lines={lines} name={`${titleOf(statistic)} over steps`} height={168} isLog={isLogNow} isDark={isDark} onPick={pick}
        mark={choice.step < 0 ? null : xOf(lines, choice.step)} hint={isLoading ? "Reading …" : "This statistic was not recorded of this tensor."} />
      <CurveLegend lines={lines} />
    </figure>
  );
}
