// The value range of a tensor on a shared axis.

import type { Range } from "./quantile-range";
import { along, ticks, type Axis } from "../../lib/charts/symlog";
import { short } from "../../lib/formatting";

const percent = (share: number): string => `${(100 * share).toFixed(2)}%`;

/** A thin line from the smallest to the largest value, a thick one from p5 to p95, a mark at the median; an arrowhead where it leaves the axis. */
export function RangeBar({ axis, range }: { axis: Axis; range: Range }) {
  const { min, low, middle, high, max } = range;
  if (Number.isNaN(min) || Number.isNaN(max)) return null;
  const span = (from: number, to: number) => {
    const [a, b] = [along(axis, from), along(axis, to)];
    return { left: percent(a), width: percent(b - a) };
  };
  const quantiles = [["min", min], ["p5", low], ["median", middle], ["p95", high], ["max", max]] as const;
  return (
    <span class="range-bar" title={quantiles.map(([name, value]) => `${name} ${short(value)}`).join(" · ")}>
      {min < axis.low && <i class="beyond low" />}
      {max > axis.high && <i class="beyond high" />}
      <i class="zero" style={{ left: percent(along(axis, 0)) }} />
      <i class="whole" style={span(min, max)} />
      {!Number.isNaN(low) && <i class="most" style={span(low, high)} />}
      {!Number.isNaN(middle) && <i class="middle" style={{ left: percent(along(axis, middle)) }} />}
    </span>
  );
}

/** Tick labels of the shared axis. */
export function AxisTitle({ axis, gap }: { axis: Axis; gap: number }) {
  return (
    <span class="range-axis">
      {ticks(axis, gap).map((tick) => <span key={tick} style={{ left: percent(along(axis, tick)) }}>{power(tick)}</span>)}
    </span>
  );
}

function power(tick: number): string {
  const size = Math.abs(tick);
  return size === 0 || (size >= 0.01 && size < 1e4) ? short(tick) : `${tick < 0 ? "−" : ""}1e${Math.round(Math.log10(size))}`;
}
