// Steps through the differences between two traces.

import { useMemo, useState } from "preact/hooks";
import { differences, type Difference } from "../lib/diff-list";
import { IconButton, Labeled } from "./controls";
import { usePage } from "./context";

const NAMES: Record<Difference, string> = { new: "+ new", removed: "− removed", changed: "~ changed", values: "Δ values" };
const TITLES: Record<Difference, string> = {
  new: "Ops only in this trace", removed: "Ops only in the other trace",
  changed: "Ops with a different shape or different arguments", values: "Ops with different values",
};

export function Compare() {
  const { view, go } = usePage();
  const found = useMemo(() => (view.comparison ? differences(view.comparison) : null), [view]);
  // Until a kind is selected, the buttons step through all differences in graph order.
  const all = useMemo(() => [...new Set(Object.values(found ?? {}).flat())].sort((a, b) => a - b), [found]);
  const [sort, setSort] = useState<Difference | null>(null);
  const [place, setPlace] = useState(-1);
  if (!found) return null;
  const nodes = sort ? found[sort] : all;
  const sorts = (Object.keys(NAMES) as Difference[]).filter((name) => found[name].length);
  if (!sorts.length) return <Labeled name="Differences"><span class="quiet">no differences</span></Labeled>;
  const walk = (which: Difference | null, to: number): void => {
    const among = which ? found[which] : all;
    const next = (to + among.length) % among.length;
    setSort(which);
    setPlace(next);
    go(`n${among[next]}`);
  };
  const free = (): void => {
    setSort(null);
    setPlace(-1);
  };
  return (
    <Labeled name="Differences">
      <div class="segments compare">
        {sorts.map((name) => (
          <button type="button" key={name} class={`mark-${name}${name === sort ? " on" : ""}`} title={TITLES[name]}
            onClick={() => (name === sort ? free() : walk(name, 0))}>
            {NAMES[name]} <b>{found[name].length.toLocaleString("en")}</b>
          </button>
        ))}
        <IconButton icon="left" title="Previous difference" onClick={() => walk(sort, Math.max(place, 0) - 1)} />
        <span class="place">{place >= 0 && place < nodes.length ? `${place + 1}/${nodes.length}` : "–"}</span>
        <IconButton icon="right" title="Next difference" onClick={() => walk(sort, place + 1)} />
      </div>
    </Labeled>
  );
}
