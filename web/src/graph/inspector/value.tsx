// A tensor: statistics, histogram and values.

import { short } from "../../lib/formatting";
import type { ValuePicture } from "../../lib/wire";
import { usePage } from "../context";
import { Histogram } from "./histogram";
import { Pixels } from "./pixels";
import { Card } from "./parts";

/** Statistics for which any number above zero is alarming. */
const ALARMING = /^(nan|inf)/i;

export function ValueView({ value, title }: { value: ValuePicture; title?: string }) {
  const { isDark } = usePage();
  const about = `${value.shape.length ? value.shape.join("×") : "scalar"} ${value.dtype}`;
  // A single number needs no statistics.
  const isOne = value.text !== "" && value.shape.every((size) => size === 1);
  const body = (
    <>
      {isOne && <pre class="value-text">{value.text}</pre>}
      {value.statistics.length > 0 && !isOne && (
        <div class="stats">
          {value.statistics.map(([name, number]) => (
            <div key={name} class={`stat${ALARMING.test(name) && number ? " out" : ""}`}>
              <span class="label">{name}</span>
              <b>{formatStatistic(name, number)}</b>
            </div>
          ))}
        </div>
      )}
      {value.histogram && <Histogram histogram={value.histogram} />}
      {value.image && <Pixels image={value.image} isDark={isDark} />}
      {value.text && !isOne && <pre class="value-text">{value.text}</pre>}
    </>
  );
  return title === undefined ? body : <Card title={title} aside={about}>{body}</Card>;
}

/** Fractions as percent, other numbers unchanged. */
function formatStatistic(name: string, number: number | null): string {
  if (number === null) return "–";
  return name === "zeros" ? `${short(100 * number)} %` : short(number);
}
