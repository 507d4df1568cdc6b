// The selector bar: step, kind of step, iteration, pass, quantity, part, batch or sample.

import type { RefObject } from "preact";
import { useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { IconButton, Labeled, Menu, Segments, type Choice as Segment } from "../graph/controls";
import { quantityName } from "../lib/values/quantity";
import type { RunItem, RunView, SamplesView } from "../lib/wire";
import { baseOf, RANK } from "./data/api";
import { describeSteps, optionsOf, rowsOfNode, stepNotice } from "./choice";
import { showTrace, traceOfStep } from "./data/traces";
import { actionOf, partsOf, type CommandContext } from "./commands";
import { StepSlider } from "./charts/step-slider";
import { FilterButton } from "./filters/bar";
import { isRunTab, tabOf } from "./tabs";

/** More options than this become a menu. */
const MOST = 5;
/** The same in narrow windows. */
const FEW = 2;
/** Minimum width of the slider in pixels. */
const SLIDER = 240;
const NONE = { ofs: [], iterations: [], passes: [] };

/** Option "all": curves aggregate all passes; views of one step show the first. */
const ALL = ["0", "all", true] as const;

/** Whether the selectors need more than one line when all options are shown. */
function useTight(box: RefObject<HTMLDivElement | null>, what: string): boolean {
  const [width, setWidth] = useState(0);
  const [measured, setMeasured] = useState({ key: "", isTight: false });
  const key = `${width}\n${what}`;
  useLayoutEffect(() => {
    const element = box.current!;
    const observer = new ResizeObserver(() => setWidth(element.clientWidth));
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  useLayoutEffect(() => {
    if (measured.key !== key) setMeasured({ key, isTight: isCrowded(box.current!) });
  }, [key, measured]);
  return measured.key === key && measured.isTight;
}

function isCrowded(box: HTMLElement): boolean {
  const places = [...box.querySelectorAll(".selector-row > .labeled")].map((one) => one.getBoundingClientRect());
  const { right, width } = box.getBoundingClientRect();
  const slider = box.querySelector(".step-slider")!.clientWidth;
  return places.some((place) => place.right > right || Math.abs(place.bottom - places[0].bottom) > 8) || slider < Math.min(SLIDER, width / 2);
}

interface Props extends Omit<preact.ComponentProps<typeof StepSlider>, "ref" | "key"> {
  readonly samples: SamplesView | undefined;
  /** All entries of the folder. */
  readonly items: readonly RunItem[];
}

export function Selectors({ running, samples, items, span, hoverSync, isDark }: Props) {
  const { run, choice, act, state } = running;
  const tab = tabOf(state.tab);
  const selects = isRunTab(tab) ? tab.selects : "step";
  const isOfTensors = selects !== "step";
  const { ofs, iterations, passes } = isOfTensors ? optionsOf(run) : NONE;
  const parts = isOfTensors ? partsOf(run, choice.node) : [];
  const rows = choice.node === null ? null : rowsOfNode(run, choice.node);
  const box = useRef<HTMLDivElement>(null);
  const ranks = run.item.ranks.length > 1 ? run.item.ranks : [];
  const isTight = useTight(box, [...run.kinds, "|", ...iterations, "|", ...passes, "|", ...ofs, "|", ...parts, "|", ranks.length, tab.id, samples?.n_kept, choice.sample === null].join("\n"));
  const has = (fits: (row: RunView["rows"][number]) => boolean): boolean => !rows || rows.some(fits);
  return (
    <div class={`selectors${isTight ? " tight" : ""}`} ref={box} role="toolbar" aria-label="Selectors">
      <div class="labeled step-selector">
        <span class="label">Step · {describeSteps(run)}<StepNotice text={stepNotice(run, state, choice)} /><TraceLink running={running} items={items} /><FilterButton act={act} left={running.left} /></span>
        <div class="step-line">
          <IconButton icon="left" title="Previous recorded step (,)" isOff={choice.place <= 0} onClick={() => go(running, "earlier")} />
          <StepSlider running={running} span={span} hoverSync={hoverSync} isDark={isDark} />
          <IconButton icon="right" title="Next recorded step (.)" isOff={choice.place < 0 || choice.place >= run.steps.length - 1}
            onClick={() => go(running, "later")} />
        </div>
      </div>
      <div class="selector-row">
        {ranks.length > 0 && (
          <Selector name="Rank" isTight={isTight} about="process that wrote the data" value={run.item.id.split(RANK)[1] ?? `${ranks[0]}`}
            onChoose={(rank) => act({ do: "run", id: Number(rank) === ranks[0] ? baseOf(run.item.id) : `${baseOf(run.item.id)}${RANK}${rank}` })}
            choices={ranks.map((rank) => [`${rank}`, `${rank}`, true])} />
        )}
        {run.kinds.length > 1 && (
          <Selector name="Kind of step" isTight={isTight} class="of-steps" about="k" value={`${choice.kind === null ? -1 : run.kinds.indexOf(choice.kind)}`}
            onChoose={(number) => act({ do: "kind", kind: run.kinds[Number(number)] ?? null })}
            choices={[["-1", "all", true], ...run.kinds.map((kind, number) => [`${number}`, kind || "no kind", true] as const)]} />
        )}
        {iterations.length > 1 && (
          <Selector name="Iteration" isTight={isTight} about="e" value={`${state.iteration > 0 ? choice.iteration : 0}`} onChoose={(iteration) => act({ do: "iteration", iteration: Number(iteration) })}
            choices={[ALL, ...iterations.map((iteration) => [`${iteration}`, `${iteration}`, has((row) => row.iteration === iteration)] as const)]} />
        )}
        {passes.length > 1 && (
          <Selector name="Pass" isTight={isTight} about="E" value={`${state.pass > 0 ? choice.pass : 0}`} onChoose={(pass) => act({ do: "pass", pass: Number(pass) })}
            choices={[ALL, ...passes.map((pass) => [`${pass}`, `${pass}`, has((row) => row.pass_ === pass)] as const)]} />
        )}
        {ofs.length > 1 && (
          <Selector name="Show" isTight={isTight} about="s" value={choice.of} onChoose={(of) => act({ do: "of", of })}
            choices={ofs.map((of) => [of, quantityName(of), has((row) => row.of === of)])} />
        )}
        {parts.length > 1 && (
          <Selector name="Part" isTight={isTight} about="m" value={choice.part} onChoose={(part) => act({ do: "part", part })}
            choices={parts.map((part) => [part, part || "main", true])} />
        )}
        {selects === "sample" && <SampleSelector running={running} samples={samples} />}
      </div>
    </div>
  );
}

/** That another step is shown than the one asked for. Always in the page, so that screen readers announce it. */
function StepNotice({ text }: { text: string }) {
  return <span class="step-notice" role="status">{text}</span>;
}

/** Leads to the trace that was made in the selected step, or in one of the same structure. */
function TraceLink({ running: { run, choice, act }, items }: { running: CommandContext; items: readonly RunItem[] }) {
  const found = useMemo(() => traceOfStep(items, run, choice.step), [items, run, choice.step]);
  if (!found) return null;
  const made = `step ${found.item.trace!.step!.toLocaleString("en")}`;
  const title = found.isSameStep ? `${found.item.name} was made in this step` : `${found.item.name} was made in ${made}, which has the same structure`;
  return (
    <button type="button" class="link trace-link" title={title} onClick={() => showTrace(found.item.id).forEach(act)}>
      {found.isSameStep ? "trace of this step" : `trace of ${made}`}
    </button>
  );
}

function go(running: CommandContext, command: "earlier" | "later"): void {
  const action = actionOf(command, running);
  if (action) running.act(action);
}

/** A segmented control, or a menu for many options. Options that the selected tensor lacks are faint, but selectable. */
function Selector(props: {
  name: string;
  class?: string;
  isTight: boolean;
  about: string;
  value: string;
  choices: readonly (readonly [value: string, text: string, isThere: boolean])[];
  onChoose(value: string): void;
}) {
  const { name, about, value, choices, onChoose } = props;
  const labeled = (control: preact.VNode): preact.VNode => <div class={`labeled ${props.class ?? ""}`}><span class="label">{name}</span>{control}</div>;
  if (choices.length > (props.isTight ? FEW : MOST + 1)) {
    return labeled(<Menu name={`${name} (${about})`} value={value} onChoose={onChoose} choices={choices.map(([own, text]) => [own, text])} />);
  }
  const segments: Segment<string>[] = choices.map(([own, text, isThere]) => ({
    value: own, text: isThere ? text : <span class="not-there">{text}</span>,
    title: isThere ? `${text} (${about})` : `${text}: not recorded for the selected tensor`,
  }));
  return labeled(<Segments name={name} value={value} choices={segments} onChoose={onChoose} />);
}

function SampleSelector({ running, samples }: { running: CommandContext; samples: SamplesView | undefined }) {
  const { choice, act, nKept } = running;
  const none = samples?.why_missing || "No samples kept at this step. Record with samples=8 to keep eight.";
  const name = (number: number): string => {
    const item = samples?.items.find((other) => other.number === number);
    const description = [item?.label, item?.label ? "" : item?.id, item?.text].filter(Boolean).join(" · ");
    const short = description.length > 40 ? `${description.slice(0, 39)}…` : description;
    return short ? `sample ${number} · ${short}` : `sample ${number}`;
  };
  const isKnown = samples !== undefined && nKept !== null && nKept > 0;
  return (
    <Labeled name="Over">
      <div class="segments over" role="radiogroup" aria-label="Over">
        <button type="button" role="radio" aria-checked={choice.sample === null} class={choice.sample === null ? "on" : ""}
          title="Statistics of the whole batch (B)" onClick={() => act({ do: "sample", sample: null })}>batch</button>
        {isKnown ? (
          <span title={samples.items.length ? undefined : samples.why_missing} class={`sample-menu${choice.sample === null ? "" : " on"}`}>
            <Menu name="One sample (b)" value={`${choice.sample ?? ""}`}
              choices={[...(choice.sample === null ? [["", "one sample"] as const] : []), ...Array.from({ length: nKept }, (_, i) => [`${i}`, name(i)] as const)]}
              onChoose={(value) => act({ do: "sample", sample: value === "" ? null : Number(value) })} />
          </span>
        ) : <button type="button" disabled title={none}>sample</button>}
      </div>
    </Labeled>
  );
}
