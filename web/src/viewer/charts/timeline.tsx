// The timeline at the bottom: one logged value over all steps of all shown runs. A click goes to a step.

import { useMemo } from "preact/hooks";
import { Menu } from "../../graph/controls";
import { short } from "../../lib/formatting";
import { scalarQuery, type CurveData } from "../data/api";
import { nearest } from "../choice";
import { chartScale } from "../../lib/charts/chart-scale";
import { Curve, Swatch, type Line } from "./curve";
import { ALL, rangeName, ScaleMenu, scaleChoice } from "./scale-menu";
import type { PanelProps } from "../panels/props";
import { useHoveredStep, type HoverSync } from "../hover-sync";
import { useQueries } from "../data/use-query";
import { SpikeButton } from "../spike/button";
import { useCurveSpikes } from "../spike/use-curve-spikes";
import { useNarrow } from "../use-narrow";

const KEPT = "timeline";
const HERE = "timeline";
const [HEIGHT, LOW] = [72, 52];
/** Maximum number of runs whose value is shown beside the timeline. */
const MOST = 3;

interface Props extends PanelProps {
  /** From the first step to the last, as on the slider. */
  readonly span: readonly [number, number];
  readonly hoverSync: HoverSync;
}

export function Timeline({ runs, run, state, choice, act, client, isDark, span, hoverSync }: Props) {
  const names = useMemo(() => [...new Set(runs.flatMap(({ view }) => view.scalars))], [runs]);
  const name = names.includes(state.kept[KEPT]) ? state.kept[KEPT] : defaultScalar(run.scalars) ?? names[0];
  const having = runs.filter(({ view }) => view.scalars.includes(name));
  const asked = useQueries<CurveData>(client, name ? having.map(({ view }) => scalarQuery(view.item.id, name)) : []);
  const data = asked.map(({ value }) => value);
  const pointed = useHoveredStep(hoverSync, HERE);
  const isNarrow = useNarrow();
  const spikes = useCurveSpikes({ run, state, act, client }, run.scalars.includes(name) ? { scalar: name } : null);
  const isOneOfMany = runs.length > 1;
  const lines = useMemo(() => having.flatMap(({ view, color, letter }, i): Line[] => {
    const curve = data[i];
    return curve ? [{ key: view.item.id, name: view.item.name, color, letter: isOneOfMany ? letter : "", x: curve.steps, y: curve.values }] : [];
  }), [name, isDark, isOneOfMany, ...data, having.map(({ view, color, letter }) => `${view.item.id} ${color} ${letter}`).join()]);
  const choose = scaleChoice(state.kept, KEPT);
  const scale = useMemo(() => chartScale(lines, choose), [lines, choose.isLog, choose.isWhole]);
  if (!name) return null;
  const error = asked.find((one) => one.error)?.error;
  const lacking = runs.filter(({ view }) => !view.scalars.includes(name));
  return (
    <footer class="timeline" aria-label={`${name} over steps`}>
      <div class="timeline-names">
        <span class="timeline-head">
        {names.length > 1 ? <Menu name="Logged value" value={name} choices={names.map((own) => [own, own])} onChoose={(text) => act({ do: "keep", name: KEPT, text })} />
          : <span class="timeline-name">{name}</span>}
        <ScaleMenu kept={state.kept} name={KEPT} scale={scale} onKeep={(own, text) => act({ do: "keep", name: own, text })} />
        </span>
        {having.slice(0, MOST).map(({ view, color, letter, shortName }, i) => (
          <span class="timeline-value" style={{ color }} key={view.item.id} title={view.item.name}>
            {isOneOfMany && <Swatch line={{ color, letter }} />}<i>{isOneOfMany ? shortName : last(view.item.name)}</i> <b>{valueAt(data[i], choice.step)}</b>
          </span>
        ))}
        {having.length > MOST && <span class="quiet">and {having.length - MOST} more</span>}
        {having.map(({ view, letter }, i) => <Broken key={view.item.id} of={isOneOfMany ? letter : ""} curve={data[i]} onGo={(step) => act({ do: "step", step })} />)}
        <SpikeButton spikes={spikes} step={state.step ?? choice.step} />
        {lacking.length > 0 && <span class="quiet" title={`${lacking.map(({ view }) => view.item.name).join(", ")} did not log ${name}`}>not logged in {lacking.map(({ letter }) => letter).join(", ")}</span>}
      </div>
      {error ? <p class="quiet">{error}</p> : (
        <Curve lines={lines} name={`${name} over steps`} height={isNarrow ? LOW : HEIGHT} scale={scale} onWhole={() => act({ do: "keep", name: rangeName(KEPT), text: ALL })} isBare isDark={isDark} mark={choice.step < 0 ? null : choice.step} span={span}
          spikes={spikes}
          pointed={pointed} onPoint={(x) => hoverSync.point(x, HERE)}
          hint={asked.some(({ isOld }) => isOld) ? " " : "No values logged under this name."} onPick={(step) => act({ do: "step", step })} />
      )}
    </footer>
  );
}

/** Button to the first step at which the value is not finite. */
function Broken({ of, curve, onGo }: { of: string; curve: CurveData | undefined; onGo(step: number): void }) {
  const place = useMemo(() => curve?.values.findIndex((value) => !Number.isFinite(value)) ?? -1, [curve]);
  if (!curve || place < 0) return null;
  const [step, value] = [curve.steps[place], curve.values[place]];
  const label = Number.isNaN(value) ? "NaN" : "Inf";
  return (
    <button type="button" class="timeline-bad" title={`${of && `${of}: `}${label} first at step ${step.toLocaleString("en")}; click to go there`} onClick={() => onGo(step)}>
      {of && `${of} `}{label} from {step.toLocaleString("en")}
    </button>
  );
}

/** The default value of the timeline: the loss. */
export function defaultScalar(names: readonly string[]): string | undefined {
  return names.find((name) => name === "loss") ?? names.find((name) => /(^|[^a-z])loss$/i.test(name)) ?? names.find((name) => /loss/i.test(name)) ?? names[0];
}

function last(name: string): string {
  return name.split("/").at(-1) ?? name;
}

/** The value at a step, or the last one before it, with its step if the run ended earlier. */
function valueAt(curve: CurveData | undefined, step: number): string {
  if (!curve?.steps.length) return "";
  const places = curve.steps as unknown as readonly number[];
  let place = nearest(places, (own) => own, step);
  if (places[place] > step && place > 0) place -= 1;
  const isPast = place === places.length - 1 && places[place] < step;
  return short(curve.values[place]) + (isPast ? ` at ${places[place].toLocaleString("en")}` : "");
}
