// The strip below everything: one logged number over all steps, of all runs on the page. A click goes to a step.

import { useMemo } from "preact/hooks";
import { Menu } from "../app/controls";
import { short } from "../lib/units";
import { scalarAsk, type CurveData } from "./asks";
import { nearest } from "./choice";
import { Curve, type Line } from "./curve";
import type { PanelProps } from "./panels";
import { useAskedAll } from "./use-asked";

const KEPT = "strip";
const HEIGHT = 72;

export function Strip({ runs, run, state, choice, act, client, isDark }: PanelProps) {
  const names = useMemo(() => [...new Set(runs.flatMap(({ view }) => view.scalars))], [runs]);
  const name = names.includes(state.kept[KEPT]) ? state.kept[KEPT] : usual(run.scalars) ?? names[0];
  const having = runs.filter(({ view }) => view.scalars.includes(name));
  const asked = useAskedAll<CurveData>(client, name ? having.map(({ view }) => scalarAsk(view.item.id, name)) : []);
  const data = asked.map(({ value }) => value);
  const lines = useMemo(() => having.flatMap(({ view, colour }, i): Line[] => {
    const curve = data[i];
    return curve ? [{ key: view.item.id, name: view.item.name, colour, x: curve.steps, y: curve.values }] : [];
  }), [name, isDark, ...data, having.map(({ view, colour }) => `${view.item.id} ${colour}`).join()]);
  if (!name) return null;
  const error = asked.find((one) => one.error)?.error;
  return (
    <footer class="strip">
      <div class="strip-names">
        {names.length > 1 ? <Menu name="What the strip shows" value={name} choices={names.map((own) => [own, own])} onChoose={(text) => act({ do: "keep", name: KEPT, text })} />
          : <span class="strip-name">{name}</span>}
        {having.slice(0, 3).map(({ view, colour }, i) => (
          <span class="strip-value" style={{ color: colour }} key={view.item.id} title={view.item.name}><i>{last(view.item.name)}</i> <b>{at(data[i], choice.step)}</b></span>
        ))}
      </div>
      {error ? <p class="quiet">{error}</p> : (
        <Curve lines={lines} name={`${name} over steps`} height={HEIGHT} isBare isDark={isDark} mark={choice.step < 0 ? null : choice.step}
          hint={asked.some(({ isOld }) => isOld) ? " " : "Nothing was logged under this name."} onPick={(step) => act({ do: "step", step })} />
      )}
    </footer>
  );
}

/** What training is about: the loss. */
export function usual(names: readonly string[]): string | undefined {
  return names.find((name) => name === "loss") ?? names.find((name) => /(^|[^a-z])loss$/i.test(name)) ?? names.find((name) => /loss/i.test(name)) ?? names[0];
}

function last(name: string): string {
  return name.split("/").at(-1) ?? name;
}

/** The number at a step, or the last one before it. */
function at(curve: CurveData | undefined, step: number): string {
  if (!curve?.steps.length) return "";
  const places = curve.steps as unknown as readonly number[];
  let place = nearest(places, (own) => own, step);
  if (places[place] > step && place > 0) place -= 1;
  return short(curve.values[place]);
}
