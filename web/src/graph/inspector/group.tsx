// Inspector of a module: its contents, its costs, and buttons to open and fold it.

import { useCallback, useMemo } from "preact/hooks";
import { range } from "../../lib/collections";
import type { Measure } from "../../lib/wire";
import { usePage } from "../context";
import { around } from "../state";
import { RepresentedStepper } from "./represented";
import { Costs, type CostRow } from "./costs";
import { Highlights, Numbers } from "./measures";
import { Card, CopyableText, Facts, Path } from "./parts";

export function GroupPanel({ group }: { group: number }) {
  const { view, state, drawn, toggle, part } = usePage();
  const { groups, runs } = view;
  const run = groups.run[group];
  const isOpen = state.open.has(group);
  const n = run >= 0 ? runs[run].groups.length : 1;
  const isOnce = run >= 0 && !state.apart.has(run);
  const inside = useMemo(() => range(groups.first[group], groups.end[group]), [view, group]);
  const rowsOf = useCallback(({ values }: Measure): CostRow[] => inside.map((node) => (
    { key: `n${node}`, name: view.nodes.label[node], about: view.nodes.site[node], value: values[node] ?? 0 }
  )), [inside]);
  const alike = useMemo(() => {
    const own = drawn.representatives.representative(group);
    return [...groups.parent.keys()].filter((other) => other > 0 && drawn.representatives.representative(other) === own);
  }, [drawn, group]);
  const label = groups.label[group];
  const address = label.replace(/[ ].*$/, "");
  const modules = groups.first.reduce((sum, first, other) => sum + (other > group && first < groups.end[group] ? 1 : 0), 0);
  const facts: [string, string][] = [
    ["ops", groups.n_ops[group].toLocaleString("en") + (n > 1 ? " in each block" : "")],
    ["returns", groups.size[group]], ["parameters", groups.parameters[group] || "none"],
    ["modules inside", modules.toLocaleString("en")],
  ];
  return (
    <article class="panel" key={group}>
      <Path groups={around(view, `g${group}`)} />
      <h2>{address === "." ? groups.class_name[group] : label || view.title}</h2>
      {address && <CopyableText text={address} />}
      <div class="badges">
        <span class="badge">{groups.class_name[group]}</span>
        {n > 1 && <span class="badge">{runs[run].label}, {n} identical blocks</span>}
      </div>
      <RepresentedStepper own={`g${group}`} keys={alike.map((other) => `g${other}`)} />
      <div class="highlights">
        {group > 0 && (
          <button type="button" class="button main" onClick={() => toggle(group)}>{isOpen ? "Fold" : "Open"}</button>
        )}
        {run >= 0 && (
          <button type="button" class="button" onClick={() => part(run, isOnce)}>{isOnce ? `Show all ${n}` : "Show once"}</button>
        )}
      </div>
      <Highlights />
      <Numbers nodes={inside} />
      <Card title="Facts"><Facts facts={facts.filter(([, value]) => value)} /></Card>
      <Costs title="Most expensive ops" n={5} rowsOf={rowsOf} />
    </article>
  );
}
