// The most expensive items as a bar list, by a selectable cost.

import { useMemo, useState } from "preact/hooks";
import { quantity } from "../../lib/formatting";
import type { Measure } from "../../lib/wire";
import { Segments } from "../controls";
import { usePage } from "../context";
import { Card } from "./parts";

export interface CostRow {
  readonly key: string;
  readonly name: string;
  readonly about: string;
  readonly value: number;
}

/** The largest of the rows that `rowsOf` gives for a cost; a click goes to the box. Pass a stable `rowsOf`: rows are recomputed when it changes. */
export function Costs({ title, n, rowsOf }: { title: string; n: number; rowsOf(measure: Measure): CostRow[] }) {
  const { view, go } = usePage();
  const [name, setName] = useState("");
  const costs = view.measures.filter(({ total, values }) => total === "sum" && values.some((value) => value));
  const measure = costs.find((cost) => cost.name === name) ?? costs[0];
  const rows = useMemo(
    () => (measure ? rowsOf(measure).filter(({ value }) => value > 0).sort((a, b) => b.value - a.value).slice(0, n) : []),
    [measure, rowsOf, n],
  );
  if (!measure) return null;
  const choices = costs.map((cost) => ({ value: cost.name, text: cost.title, title: `By ${cost.title}` }));
  return (
    <Card title={title}>
      {costs.length > 1 && <Segments name="By" value={measure.name} onChoose={(next: string) => setName(next)} choices={choices} />}
      {rows.length === 0 && <p class="quiet">No values for this measure.</p>}
      <ol class="bars">
        {rows.map(({ key, name: text, about, value }) => (
          <li key={key}>
            <button type="button" title={about} onClick={() => go(key)}>
              <i style={{ width: `${(100 * value) / rows[0].value}%` }} />
              <span>{text}</span>
              <b>{quantity(value, measure.unit)}</b>
            </button>
          </li>
        ))}
      </ol>
    </Card>
  );
}
