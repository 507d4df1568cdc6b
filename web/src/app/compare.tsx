// Walking through what differs between two traces.

import { useMemo, useState } from "preact/hooks";
import { differences, type Difference } from "../lib/differences";
import { IconButton, Labelled } from "./controls";
import { usePage } from "./page";

const NAMES: Record<Difference, string> = { new: "+ new", gone: "− gone", changed: "~ changed", apart: "Δ values" };
const TITLES: Record<Difference, string> = {
  new: "Ops that only this trace has", gone: "Ops that only the other trace has",
  changed: "Ops with another shape or other arguments", apart: "Ops whose values differ",
};

export function Compare() {
  const { view, go } = usePage();
  const found = useMemo(() => (view.comparison ? differences(view.comparison) : null), [view]);
  const [sort, setSort] = useState<Difference | null>(null);
  const [place, setPlace] = useState(-1);
  if (!found) return null;
  const sorts = (Object.keys(NAMES) as Difference[]).filter((name) => found[name].length);
  if (!sorts.length) return <Labelled name="Compared"><span class="quiet">nothing differs</span></Labelled>;
  const current = sort && found[sort].length ? sort : sorts[0];
  const walk = (which: Difference, to: number): void => {
    const nodes = found[which];
    const next = (to + nodes.length) % nodes.length;
    setSort(which);
    setPlace(next);
    go(`n${nodes[next]}`);
  };
  return (
    <Labelled name="Compared">
      <div class="segments compare">
        {sorts.map((name) => (
          <button type="button" key={name} class={`mark-${name}${name === sort ? " on" : ""}`} title={TITLES[name]}
            onClick={() => walk(name, 0)}>
            {NAMES[name]} <b>{found[name].length.toLocaleString("en")}</b>
          </button>
        ))}
        <IconButton icon="left" title="The difference before" onClick={() => walk(current, Math.max(place, 0) - 1)} />
        <span class="place">{place >= 0 && sort ? `${place + 1}/${found[current].length}` : "–"}</span>
        <IconButton icon="right" title="The next difference" onClick={() => walk(current, place + 1)} />
      </div>
    </Labelled>
  );
}
