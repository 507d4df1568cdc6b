// The trail from a spike to a tensor to a sample; each part leads back to where it was chosen.

import { quantityTitle } from "../../lib/values/quantity";
import { samplesQuery } from "../data/api";
import { useQuery } from "../data/use-query";
import type { PanelProps } from "../panels/props";
import { SHOWN, type OpenSpike } from "./address";
import { nameOf } from "./names";
import { spikeAt, useSpikes } from "./use-spikes";
import "../../style/viewer/spike.css";

export function Trail(props: PanelProps & { spike: OpenSpike }) {
  const { run, client, state, choice, act, spike } = props;
  const isTensor = state.kept[SHOWN] === "tensor";
  const is = spikeAt(useSpikes(client, run, spike.source), spike.step);
  const samples = useQuery(client, choice.sample !== null && run.sample_fields.length && choice.step >= 0 ? samplesQuery(run.item.id, choice.step) : null).value;
  const item = samples?.step === choice.step ? samples.items.find(({ number }) => number === choice.sample) : undefined;
  const { row } = choice;
  const back = (): void => act({ do: "keep", name: SHOWN, text: "" });
  return (
    <nav class="trail" aria-label="From spike to sample">
      <button type="button" class={isTensor ? "" : "on"} title={isTensor ? "Back to what changed here" : "What changed here"} onClick={back}>
        <i>1</i>{is ? "spike at" : "at"} step <b>{spike.step.toLocaleString("en")}</b>
      </button>
      {row && <span aria-hidden="true">›</span>}
      {row && (
        <button type="button" class={isTensor ? "on" : ""} title="Show all about this tensor" onClick={() => act({ do: "keep", name: SHOWN, text: "tensor" })}>
          <i>2</i><b>{nameOf(row)}</b>{row.of === "value" ? "" : ` ${quantityTitle(row.of)}`}
        </button>
      )}
      {choice.sample !== null && <span aria-hidden="true">›</span>}
      {choice.sample !== null && <button type="button" class="on" title="Back to the whole batch" onClick={() => act({ do: "sample", sample: null })}><i>3</i>sample <b>{item?.id || choice.sample}</b></button>}
    </nav>
  );
}
