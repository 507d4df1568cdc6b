// "What changed here": the verdict on a spike, the most unusual tensors, and the samples of its batch.

import { useEffect, useRef } from "preact/hooks";
import { takesKeys } from "../../graph/keyboard";
import { counted } from "../../lib/formatting";
import type { WhatChanged } from "../../lib/wire";
import { whatChangedQuery, type CurveOf } from "../data/api";
import { useQuery } from "../data/use-query";
import { readFilters } from "../filters/address";
import type { PanelProps } from "../panels/props";
import { closeSpike, openSpike, rowOfSource, type OpenSpike } from "./address";
import { ChangedSamples } from "./samples";
import { ChangedTensors } from "./tensors";
import { Trail } from "./trail";
import { spikeAt, spikeBeside, useSpikes } from "./use-spikes";
import "../../style/viewer/spike.css";

export function WhatChangedPanel(props: PanelProps & { spike: OpenSpike }) {
  const { run, client, state, act, spike } = props;
  const row = rowOfSource(run, spike.source);
  const of: CurveOf | null = "scalar" in spike.source ? spike.source.scalar : row ? { row: row.row, statistic: spike.source.statistic } : null;
  const filters = readFilters(state.kept);
  const { value, isOld, error } = useQuery(client, of === null ? null : whatChangedQuery(run.item.id, of, spike.step, filters));
  const go = useSpikeKeys(props);
  // Stale data of another step must not be shown as that of this one.
  const view = value && value.step === spike.step ? value : undefined;
  return (
    <article class={`panel what-changed${isOld ? " old" : ""}`} aria-label="What changed here">
      <Trail {...props} />
      <header class="what-head">
        <h2>What changed here</h2>
        <span class="what-keys">{go}<button type="button" class="what-close" title="Close" aria-label="Close" onClick={() => closeSpike().forEach(act)}>×</button></span>
      </header>
      {of === null && <p class="note">{run.item.name} has no such curve. Close this panel, or switch back to the run whose curve you clicked.</p>}
      {error !== null && <p class="note">{error}</p>}
      {!view && error === null && of !== null && <p class="note loading">Comparing step {spike.step.toLocaleString("en")} with the steps before…</p>}
      {view && <Content {...props} view={view} />}
    </article>
  );
}

function Content(props: PanelProps & { spike: OpenSpike; view: WhatChanged }) {
  const { view, act, spike, run } = props;
  const goTo = (step: number): void => openSpike(props, { step, source: spike.source }).forEach(act);
  return (
    <>
      <p class="verdict-line">{view.verdict.map((piece, i) => (i % 2 ? <b key={i}>{piece}</b> : piece))}</p>
      {!view.is_recorded && (
        <p class="note" role="status">
          Step {view.step.toLocaleString("en")} was logged but not recorded, so its tensors and samples are unknown. Nearest recorded:{" "}
          {view.nearest.map((step, i) => <span key={step}>{i > 0 && " and "}<button type="button" class="link" onClick={() => goTo(step)}>step {step.toLocaleString("en")}</button></span>)}.
          Record more steps with <code>every=1</code>, or keep steps whose loss is high with <code>run.keep()</code>.
        </p>
      )}
      {view.is_recorded && <ChangedTensors {...props} />}
      {view.is_recorded && <ChangedSamples {...props} />}
      {view.is_recorded && <p class="what-help">{view.help}{run.kinds.length > 1 && view.kind ? ` Steps of the kind ${view.kind} are compared with each other.` : ""}</p>}
    </>
  );
}

/** Keys and buttons that go to the next and the previous spike of the same curve. */
function useSpikeKeys(props: PanelProps & { spike: OpenSpike }): preact.VNode {
  const { spike, client, run, act } = props;
  const spikes = useSpikes(client, run, spike.source);
  const beside = (by: 1 | -1) => spikeBeside(spikes, spike.step, by);
  const go = (by: 1 | -1): void => {
    const to = beside(by);
    if (to) openSpike(props, { step: to.step, source: spike.source }).forEach(act);
  };
  const newest = useRef(go);
  newest.current = go;
  useEffect(() => {
    const hear = (event: KeyboardEvent): void => {
      const by = event.ctrlKey || event.metaKey || event.altKey || event.shiftKey ? undefined : ({ n: 1, p: -1 } as const)[event.key as "n" | "p"];
      const at = event.composedPath()[0];
      if (!by || takesKeys(at instanceof Element ? at : null, event.key) || document.querySelector("[aria-modal=true]")) return;
      // Before the graph, in which these keys mean something else while no spike is open.
      event.preventDefault();
      event.stopPropagation();
      newest.current(by);
    };
    addEventListener("keydown", hear, { capture: true });
    return () => removeEventListener("keydown", hear, { capture: true });
  }, []);
  const own = spikeAt(spikes, spike.step);
  const number = own ? spikes!.spikes.indexOf(own) + 1 : 0;
  const n = spikes?.spikes.length ?? 0;
  return (
    <>
      {spikes && <span class="quiet">{number ? `spike ${number} of ${n}` : n ? `${counted(n, "spike")} on this curve` : "no spikes on this curve"}</span>}
      <button type="button" class="what-go" disabled={!beside(1)} title="Next spike (n)" onClick={() => go(1)}><kbd>n</kbd> next</button>
      <button type="button" class="what-go" disabled={!beside(-1)} title="Previous spike (p)" onClick={() => go(-1)}><kbd>p</kbd> previous</button>
    </>
  );
}
