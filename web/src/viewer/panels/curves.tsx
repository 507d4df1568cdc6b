// The Curves tab: logged values, and every statistic of the selected tensor.

import type { ComponentChildren } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { Labeled, Segments } from "../../graph/controls";
import { Icon } from "../../graph/icons";
import { nearest } from "../../lib/charts/decimate";
import { allKinds, dashOf, stepAt, valueAtStep, xOf, type StepLine } from "../../lib/charts/lines";
import { allMissing, selectableStatistics, titleOf } from "../../lib/values/statistics";
import { short } from "../../lib/formatting";
import { describePasses } from "../choice";
import { chartScale, type ScaleChoice } from "../../lib/charts/chart-scale";
import { Curve, Swatch } from "../charts/curve";
import { ALL, rangeName, scaleChoice } from "../charts/scale-menu";
import { sourceOfRow } from "../spike/address";
import { useCurveSpikes } from "../spike/use-curve-spikes";
import type { PanelProps, ShownRun } from "./props";
import { useScalarLines, useTensorLines, type Lines, type LinesOptions } from "../charts/use-lines";

const KEPT = "curves";
const [LOW, TALL] = [150, 360];

/** Options of the curves, stored in the URL. */
interface CurveOptions extends LinesOptions {
  readonly search: string;
  readonly scale: ScaleChoice;
  readonly smoothing: number;
  /** The enlarged curve. */
  readonly large: string;
}

export function CurvesPanel(props: PanelProps) {
  const { runs, choice, state } = props;
  const kept = (name: string): string => state.kept[`curves.${name}`] ?? "";
  const keep = (name: string, text: string): void => props.act({ do: "keep", name: `curves.${name}`, text });
  const options: CurveOptions = {
    search: kept("search"), scale: scaleChoice(state.kept, KEPT), smoothing: Math.min(0.99, Math.max(0, Number(kept("smooth")) || 0)),
    large: kept("large"), xName: kept("x") === "seconds" ? "seconds" : "step", kind: choice.kind, isByKind: kept("kinds") !== "0",
  };
  const scalars = useMemo(() => [...new Set(runs.flatMap(({ view }) => view.scalars))], [runs]);
  const statistics = useMemo(() => selectableStatistics([...new Set(runs.flatMap(({ view }) => view.statistics))]), [runs]);
  const kinds = allKinds(runs.map(({ view }) => view));
  const isApart = options.kind === null && options.isByKind && kinds.length > 1;
  const word = options.search.trim().toLowerCase();
  const isFound = (name: string): boolean => name.toLowerCase().includes(word);
  const found = scalars.filter(isFound);
  const foundStatistics = choice.row ? statistics.filter((name) => isFound(name) || isFound(titleOf(name))) : [];
  const chart = { ...props, options, onLarge: (id: string) => keep("large", options.large === id ? "" : id) };
  return (
    <div class="curves-panel">
      <CurvesBar options={options} keep={keep} hasKinds={runs.some(({ view }) => view.kinds.length > 1)} hasRuns={runs.length > 1} />
      <div class="curves-scroll">
        <CurvesPart title="Logged" about={scalars.length ? `${found.length} of ${scalars.length}` : ""} legend={<RunsLegend runs={runs} kinds={[]} />}>
          {scalars.length === 0 && <p class="note">No scalars logged. Call <code>run.log(loss=loss)</code> inside a step to log one value per step.</p>}
          {scalars.length > 0 && found.length === 0 && <p class="note">No matches for “{options.search}”.</p>}
          <div class="curve-grid">{found.map((name) => <ScalarChart key={name} name={name} {...chart} />)}</div>
        </CurvesPart>
        <CurvesPart title={choice.row ? choice.row.site : "Statistics"} about={choice.row ? words(choice.row.of, describePasses(props.run, choice.row, choice.passFilter)) : ""}
          legend={choice.row && <RunsLegend runs={runs} kinds={isApart ? kinds : []} />}>
          {!choice.row && <p class="note">Select a tensor in Tensors or Overview to plot its statistics over steps.</p>}
          {choice.row && foundStatistics.length === 0 && <p class="note">No matches for “{options.search}”.</p>}
          <div class="curve-grid">{foundStatistics.map((name) => <StatisticChart key={name} name={name} {...chart} />)}</div>
        </CurvesPart>
      </div>
    </div>
  );
}

function words(of: string, passes: string): string {
  return [of, passes].filter(Boolean).join(" · ");
}

/** Legend: colors and letters of runs, dash patterns of kinds of steps. */
function RunsLegend({ runs, kinds }: { runs: readonly ShownRun[]; kinds: readonly string[] }) {
  if (runs.length < 2 && !kinds.length) return null;
  return (
    <span class="curve-legend">
      {runs.length > 1 && runs.map(({ view, color, letter, shortName }) => <span key={view.item.id} title={view.item.name}><Swatch line={{ color, letter }} />{shortName}</span>)}
      {kinds.map((kind, place) => <span key={`kind ${kind}`}><Swatch line={{ color: runs.length > 1 ? "var(--soft)" : runs[0].color, dash: dashOf(place) }} />{kind || "no kind"}</span>)}
    </span>
  );
}

function CurvesPart({ title, about, legend, children }: { title: string; about: string; legend?: ComponentChildren; children: ComponentChildren }) {
  return (
    <section class="curves-part">
      <header><h3>{title}{about && <span class="quiet"> {about}</span>}</h3>{legend}</header>
      {children}
    </section>
  );
}

function CurvesBar({ options, keep, hasKinds, hasRuns }: { options: CurveOptions; keep(name: string, text: string): void; hasKinds: boolean; hasRuns: boolean }) {
  const { isLog, isWhole } = options.scale;
  const onOff = (value: boolean, texts: readonly [string, string], titles: readonly [string, string]) => [
    { value, text: texts[0], title: titles[0] }, { value: !value, text: texts[1], title: titles[1] },
  ];
  return (
    <div class="curves-bar">
      <Labeled name="Search">
        <label class="curves-search">
          <Icon name="search" />
          <input type="search" value={options.search} placeholder="name" aria-label="Search curves"
            onInput={(event) => keep("search", event.currentTarget.value)} />
        </label>
      </Labeled>
      <Labeled name="Y axis">
        <Segments name="Y axis" value={isLog === null ? "auto" : isLog ? "log" : "linear"}
          onChoose={(value: string) => keep("log", { auto: "", log: "1" }[value] ?? "0")}
          choices={[
            { value: "auto", text: "auto", title: "Logarithmic where values span two decades or more, else linear" }, { value: "linear", text: "linear", title: "Linear y axis" },
            { value: "log", text: "log", title: "Logarithmic y axis (symmetric log for values of both signs)" },
          ]} />
      </Labeled>
      {hasRuns && (
        <Labeled name="Range">
          <Segments name="Range" value={isWhole} onChoose={(value: boolean) => keep("range", value ? ALL : "")}
            choices={onOff(false, ["most runs", "all"], ["A run with values 100 times those of most runs leaves the axis, and is named", "The axis holds all values"])} />
        </Labeled>
      )}
      <Labeled name={`Smoothing ${options.smoothing ? options.smoothing.toFixed(2) : "off"}`}>
        <input class="curves-smooth" type="range" min="0" max="0.99" step="0.01" value={options.smoothing} aria-label="Smoothing"
          title="Weight of older points" onInput={(event) => keep("smooth", Number(event.currentTarget.value) ? event.currentTarget.value : "")} />
      </Labeled>
      <Labeled name="X axis">
        <Segments name="X axis" value={options.xName} onChoose={(value: string) => keep("x", value === "seconds" ? value : "")}
          choices={[{ value: "step", text: "step", title: "Steps" }, { value: "seconds", text: "time", title: "Seconds since the run started" }]} />
      </Labeled>
      {hasKinds && options.kind === null && (
        <Labeled name="Kinds">
          <Segments name="Kinds" value={options.isByKind} onChoose={(value: boolean) => keep("kinds", value ? "" : "0")}
            choices={onOff(true, ["split", "merged"], ["One line per kind of step", "One line for all kinds"])} />
        </Labeled>
      )}
    </div>
  );
}

interface ChartProps extends PanelProps {
  readonly name: string;
  readonly options: CurveOptions;
  onLarge(id: string): void;
}

/** Prefixed, because a logged value may have the name of a statistic. */
function loggedId(name: string): string {
  return `logged ${name}`;
}

function ScalarChart(props: ChartProps) {
  return <Lazy isLarge={props.options.large === loggedId(props.name)}>{() => <LoadedScalar {...props} />}</Lazy>;
}

function LoadedScalar(props: ChartProps) {
  // Values are logged at every step, but only recorded steps have a kind.
  const lines = useScalarLines(props.client, props.runs, props.name, { ...props.options, kind: null, isByKind: false });
  return <Chart {...props} id={loggedId(props.name)} title={props.name} found={lines} />;
}

function StatisticChart(props: ChartProps) {
  return <Lazy isLarge={props.options.large === props.name}>{() => <LoadedStatistic {...props} />}</Lazy>;
}

function LoadedStatistic(props: ChartProps) {
  const lines = useTensorLines(props.client, props.runs, props.choice.row, props.name, { ...props.options, picked: props.choice.passFilter });
  return <Chart {...props} id={props.name} title={titleOf(props.name)} found={lines} broken={allMissing(props.name)} />;
}

interface LoadedProps extends ChartProps {
  readonly id: string;
  readonly title: string;
  readonly found: Lines;
  /** Message if no value is finite. */
  readonly broken?: string;
}

function Chart({ id, title, found, options, choice, act, isDark, onLarge, broken, run, state, client, name }: LoadedProps) {
  const spikes = useCurveSpikes({ run, state, act, client }, id === loggedId(name) ? { scalar: name } : choice.row && sourceOfRow(choice.row, name));
  const { lines, isLoading, errors } = found;
  const isLarge = options.large === id;
  const { isLog, isWhole } = options.scale;
  const scale = useMemo(() => chartScale(lines, { isLog, isWhole }), [lines, isLog, isWhole]);
  const shown = isLarge ? lines : activeFirst(foremost(lines, choice.step), run.item.id);
  const most = isLarge ? 12 : 3;
  const mark = choice.step < 0 ? null : xOf(lines, choice.step);
  const pick = (x: number): void => {
    const step = stepAt(lines, x);
    if (step !== null) act({ do: "step", step });
  };
  return (
    <figure class="chart">
      <figcaption>
        <button type="button" class="chart-title" title={isLarge ? "Shrink" : "Enlarge"} aria-pressed={isLarge} onClick={() => onLarge(id)}>
          {title}
        </button>
        {scale.isLog && <small class="chart-scale" title="Logarithmic y axis">log</small>}
        <span class="chart-values">
          {shown.slice(0, most).map((line) => {
            const value = valueAtStep(line, choice.step);
            return <span key={line.key} title={line.name}><Swatch line={line} />{value === null ? "–" : short(value)}</span>;
          })}
          {shown.length > most && <span class="quiet" title={shown.slice(most).map(({ name }) => name).join("\n")}>+{shown.length - most}</span>}
        </span>
      </figcaption>
      {errors.map((error) => <p class="note" key={error}>{error}</p>)}
      <Curve lines={lines} name={title} height={isLarge ? TALL : LOW} scale={scale} onWhole={() => act({ do: "keep", name: rangeName(KEPT), text: ALL })} smoothing={options.smoothing}
        spikes={spikes}
        xName={options.xName} mark={mark} onPick={pick} isDark={isDark} broken={broken}
        hint={isLoading ? "Loading…" : "Not recorded in these runs."} />
    </figure>
  );
}

/** The line of the selected run first: there may be no room for all. */
function activeFirst(lines: readonly StepLine[], run: string): StepLine[] {
  return [...lines.filter((line) => line.run === run), ...lines.filter((line) => line.run !== run)];
}

/** Of each run the line that has the step, or is next to it. */
function foremost(lines: readonly StepLine[], step: number): StepLine[] {
  const found = new Map<string, { line: StepLine; far: number }>();
  for (const line of lines) {
    const far = Math.abs(line.steps[nearest(line.steps, step)] - step);
    const known = found.get(line.run);
    if (!known || far < known.far) found.set(line.run, { line, far });
  }
  return [...found.values()].map(({ line }) => line);
}

/** Mounted only while in view: with hundreds of curves, only visible ones cost anything. */
function Lazy({ isLarge, children }: { isLarge: boolean; children(): ComponentChildren }) {
  const place = useRef<HTMLDivElement>(null);
  const height = useRef(LOW + 42);
  const [isSeen, setSeen] = useState(false);
  useEffect(() => {
    const element = place.current!;
    const observer = new IntersectionObserver((entries) => {
      const { isIntersecting, boundingClientRect: box } = entries[entries.length - 1];
      if (!isIntersecting && box.height > 0) height.current = box.height;
      setSeen(isIntersecting);
    }, { rootMargin: "300px" });
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  return <div class={isLarge ? "lazy large" : "lazy"} ref={place} style={isSeen ? {} : { height: `${height.current}px` }}>{isSeen && children()}</div>;
}
