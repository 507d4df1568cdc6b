// The samples of the batch of a spike: as cards, as a table, and one of them in detail.

import { useMemo, useState } from "preact/hooks";
import { short } from "../../lib/formatting";
import { titleOf } from "../../lib/values/statistics";
import type { ChangedSample, SampleStrip, WhatChanged } from "../../lib/wire";
import { SampleCanvas } from "../inspector/sample";
import type { PanelProps } from "../panels/props";
import { VirtualTable, type Column } from "../virtual-table";
import { SHOWN } from "./address";
import { Dots, othersOf } from "./dots";
import { nameOf, titleOfSample } from "./names";

const FEW = 4;
const ROW = 24;
/** Tensors whose numbers are listed for one sample. */
const MOST_STRIPS = 4;

export function ChangedSamples(props: PanelProps & { view: WhatChanged }) {
  const { view, choice, act } = props;
  const [isTable, setTable] = useState(false);
  const passing = view.samples.filter(({ does_pass }) => does_pass);
  const isFiltered = passing.length < view.samples.length;
  const chosen = view.samples.find(({ number }) => number !== null && number === choice.sample);
  const select = (sample: ChangedSample): void => {
    if (sample.number !== null) act({ do: "sample", sample: sample.number === choice.sample ? null : sample.number });
  };
  const range = useMemo(() => usualRange(view.samples), [view]);
  const strip = view.strips.find(({ row }) => row === choice.row?.row) ?? view.strips[0];
  return (
    <section class="changed-samples" aria-label="Samples of this batch">
      {view.samples.length > 0 && (
        <h3>
          <span><b>Samples of this batch</b>, {view.order}</span>
          <span class="quiet">{isFiltered ? `${passing.length} of ${view.samples.length} pass the filters` : `${view.samples.length}${view.n_batch > view.samples.length ? ` of ${view.n_batch}` : ""}`} · <button type="button" class="link" aria-pressed={isTable} onClick={() => setTable(!isTable)}>{isTable ? "as cards" : "all in a table"}</button></span>
        </h3>
      )}
      {view.about_samples && <p class="note">{view.about_samples}</p>}
      {!isTable && <div class="sample-cards">{passing.slice(0, FEW).map((sample) => <Card key={sample.position} sample={sample} range={range} isOn={sample === chosen} onSelect={() => select(sample)} />)}</div>}
      {!isTable && passing.length > FEW && <button type="button" class="link more" onClick={() => setTable(true)}>{passing.length - FEW} more</button>}
      {isTable && <SampleTable view={view} samples={passing} chosen={chosen} onSelect={select} />}
      {chosen && <OneSample {...props} sample={chosen} strip={strip} />}
      {!chosen && strip && <Dots {...props} strip={strip} sample={view.samples[0]} isQuiet />}
    </section>
  );
}

/** The range of most pictures of a batch: on this scale, one that was scaled by 255 is white. Undefined without pictures. */
export function usualRange(samples: readonly ChangedSample[]): readonly [number, number] | undefined {
  const images = samples.flatMap(({ item }) => (item?.image ? [item.image] : []));
  const middle = (values: number[]): number => values.sort((a, b) => a - b)[Math.floor((values.length - 1) / 2)];
  return images.length ? [middle(images.map(({ low }) => low)), middle(images.map(({ high }) => high))] : undefined;
}

function Card({ sample, range, isOn, onSelect }: { sample: ChangedSample; range: readonly [number, number] | undefined; isOn: boolean; onSelect(): void }) {
  const { item, number, share, loss, z, n_spikes } = sample;
  const words = item?.text || item?.tokens.join(" ") || "";
  return (
    <button type="button" class={`sample-card${isOn ? " on" : ""}${z === null ? "" : " far"}`} disabled={number === null} aria-pressed={isOn} onClick={onSelect}
      title={number === null ? `Sample ${sample.position} of the batch was not kept` : words || `Sample ${number}`}>
      {item?.image ? <SampleCanvas image={item.image} most={132} range={range} /> : <span class="card-text">{number === null ? "not kept" : words || "no picture or text kept"}</span>}
      {isOn && <i class="click">3</i>}
      <span class="card-line"><b>{titleOfSample(sample)}</b><span>{item?.label && `“${item.label}”`}</span></span>
      {share !== null && <span class="loss-share" style={{ "--v": `${100 * share}%` }} />}
      <span class="card-line">
        <span>{loss !== null ? `loss ${short(Number(loss.toPrecision(2)))}` : ""}</span>
        <span>{share !== null ? percent(share) : ""}</span>
      </span>
      {(z !== null || n_spikes > 1) && <span class={`card-line${z === null ? "" : " far"}`}>{z !== null && <span>z {z >= 99 ? "≥ 99" : z.toFixed(1)}</span>}{n_spikes > 1 && <span>in {n_spikes} spikes</span>}</span>}
    </button>
  );
}

export function percent(share: number): string {
  const whole = 100 * share;
  return whole > 0 && whole < 1 ? "< 1 %" : `${Math.round(whole)} %`;
}

function SampleTable({ view, samples, chosen, onSelect }: { view: WhatChanged; samples: readonly ChangedSample[]; chosen: ChangedSample | undefined; onSelect(sample: ChangedSample): void }) {
  const columns = useMemo((): Column[] => {
    const number = (name: string, title: string, of: (sample: ChangedSample) => number | null, text: (value: number) => string): Column => ({
      name, title, isNumber: true, width: 76, by: (row) => of(samples[row]) ?? -Infinity, mark: (row) => (samples[row].z === null ? "" : "bad"),
      text: (row) => { const value = of(samples[row]); return value === null ? "–" : text(value); },
    });
    const words = (row: number): string => [samples[row].item?.label, samples[row].item?.text].filter(Boolean).join(" · ");
    return [
      { name: "sample", title: "sample", width: 110, text: (row) => titleOfSample(samples[row]), by: (row) => titleOfSample(samples[row]), mark: (row) => (samples[row].z === null ? "" : "bad") },
      { name: "content", title: "content", least: 84, text: words, by: words },
      number("loss", "loss", ({ loss }) => loss, short), number("share", "share", ({ share }) => share, percent), number("z", "z", ({ z }) => z, (z) => z.toFixed(1)),
    ];
  }, [samples]);
  const rows = Math.min(12, samples.length);
  return (
    <div class="tensor-table" style={{ height: `${32 + ROW * rows + 12}px` }}>
      <VirtualTable label="Samples of this batch" columns={columns} rows={samples.length} rowHeight={ROW} selected={chosen ? samples.indexOf(chosen) : null} onSelect={(row) => onSelect(samples[row])}
        empty={view.samples.length ? "No sample of this batch passes the filters" : "No samples"} />
    </div>
  );
}

/** One sample: picture, fields, and its numbers beside those of the others. */
function OneSample(props: PanelProps & { view: WhatChanged; sample: ChangedSample; strip: SampleStrip | undefined }) {
  const { run, view, sample, strip, act, choice } = props;
  const { item } = sample;
  const far = view.strips.filter(({ row }) => row === strip?.row).concat(view.strips.filter(({ row }) => row !== strip?.row)).slice(0, MOST_STRIPS);
  const often = sample.n_spikes > 1 ? (sample.n_spikes === view.n_spikes ? `, in all ${view.n_spikes} spikes` : `, in ${sample.n_spikes} of ${view.n_spikes} spikes`) : "";
  return (
    <div class="one-sample" aria-label="The selected sample">
      {item?.image && <SampleCanvas image={item.image} most={180} />}
      <dl>
        <dt>Sample</dt><dd>{titleOfSample(sample)}{often}</dd>
        {item?.label && <><dt>Label</dt><dd>{item.label}</dd></>}
        {item?.text && <><dt>Text</dt><dd class="one-text">{item.text}</dd></>}
        {item?.others.filter(([name]) => name !== "loss").map(([name, text]) => [<dt key={`${name} of`}>{name}</dt>, <dd key={name}>{text}</dd>])}
        {sample.loss !== null && <><dt>Loss</dt><dd>{short(sample.loss)}{sample.share !== null && `, ${percent(sample.share)} of the ${view.n_kept} kept samples`}</dd></>}
        {item?.image && <><dt>Pixels</dt><dd>{short(item.image.low)} … {short(item.image.high)}, drawn from black to white</dd></>}
        {far.map((own) => {
          const others = othersOf(own, sample.position);
          const value = own.values[sample.position];
          const row = run.rows[own.row];
          if (!row || value === null || value === undefined || !others) return null;
          return [<dt key={`${own.row} of`}>{nameOf(row)}, {titleOf(own.statistic)}</dt>, <dd key={own.row}><b class={value > 2 * others[1] || value < others[0] / 10 ? "far" : ""}>{short(value)}</b> others {short(others[0])} … {short(others[1])}</dd>];
        })}
      </dl>
      {strip && <Dots {...props} strip={strip} sample={sample} />}
      {choice.row && <button type="button" class="link" onClick={() => act({ do: "keep", name: SHOWN, text: "tensor" })}>This sample in {nameOf(choice.row)}, with its values</button>}
    </div>
  );
}
