// The statistics of a tensor, each with what is remarkable about it, and its past at a glance.

import { useState } from "preact/hooks";
import { cardsOf, isQuantile, isWide, titleOf } from "../../lib/statistics";
import { sparkOf } from "../../lib/spark";
import { exact, short } from "../../lib/units";
import type { StatisticView, TensorView } from "../../lib/wire";
import { curveAsk } from "../asks";
import type { PanelProps } from "../panels";
import { useAsked } from "../use-asked";

const SPARK: readonly [number, number] = [150, 30];
/** A past is at most so wide, in pixels. */
const WIDEST = 240;

export function Cards(props: PanelProps & { tensor: TensorView; statistic: string }) {
  const { tensor, statistic, act } = props;
  const [over, setOver] = useState<{ name: string; isRight: boolean } | null>(null);
  const look = (name: string, card: HTMLElement): void => {
    const room = (card.parentElement?.clientWidth ?? 0) - (card.offsetLeft - (card.parentElement?.offsetLeft ?? 0));
    setOver({ name, isRight: room < WIDEST });
  };
  return (
    <div class="stats cards" onPointerLeave={() => setOver(null)}>
      {cardsOf(tensor.statistics).map(({ name, title, text, exact: whole, marks, isOut }) => (
        <button type="button" key={name} class={`stat${isOut ? " out" : ""}${statistic === name ? " on" : ""}`} aria-pressed={statistic === name}
          onClick={() => act({ do: "statistic", statistic: name })} onPointerEnter={(event) => look(name, event.currentTarget)}
          onFocus={(event) => look(name, event.currentTarget)} onBlur={() => setOver(null)} aria-label={`${title} ${text}${marks.length ? `, ${marks.join(", ")}` : ""}`}>
          <span class="label">{title}</span>
          <b>{text}</b>
          {marks.map((mark) => <small class="bad" key={mark}>{mark}</small>)}
          {over?.name === name && <Past {...props} name={name} whole={whole} isRight={over.isRight} />}
        </button>
      ))}
    </div>
  );
}

/** The exact number, and how it came about. */
function Past({ run, client, choice, tensor, name, whole, isRight }: PanelProps & { tensor: TensorView; name: string; whole: string; isRight: boolean }) {
  const { value } = useAsked(client, curveAsk(run.item.id, tensor.row, name, run.kinds.length > 1 ? tensor.kind : null));
  const one = tensor.statistics.find((statistic) => statistic.name === name);
  const spark = value && sparkOf(value.steps, value.values, SPARK, isWide(name), choice.step);
  return (
    <span class={isRight ? "past right" : "past"} role="tooltip">
      <code>{whole}</code>
      {spark && spark.path && (
        <svg viewBox={`-3 -3 ${SPARK[0] + 6} ${SPARK[1] + 6}`} aria-hidden="true">
          <path d={spark.path} />
          {spark.dot && <circle cx={spark.dot[0]} cy={spark.dot[1]} r={2.6} />}
        </svg>
      )}
      {one && <Distances statistic={one} />}
    </span>
  );
}

function Distances({ statistic: { z_history, z_step, n_history, n_step } }: { statistic: StatisticView }) {
  const say = (z: number): string => `z ${short(Number(z.toFixed(1)))}`;
  return (
    <>
      {z_step !== null && <small>{say(z_step)} among {n_step} tensors of its role</small>}
      {z_history !== null && <small>{say(z_history)} among its last {n_history} steps</small>}
    </>
  );
}

/** Where most values lie: a thin line from p1 to p99, a thicker one from p5 to p95, a box around the middle half. */
export function Quantiles({ statistics }: { statistics: readonly StatisticView[] }) {
  const at = new Map(statistics.filter(({ name, value }) => isQuantile(name) && value !== null).map(({ name, value }) => [name, value!]));
  const [low, high] = [Math.min(...at.values()), Math.max(...at.values())];
  if (at.size < 3 || !(high > low)) return null;
  const place = (name: string): number => (100 * ((at.get(name) ?? 0) - low)) / (high - low);
  const bar = (from: string, to: string, kind: string) => at.has(from) && at.has(to) && (
    <i class={kind} style={{ left: `${place(from)}%`, width: `${Math.max(0.4, place(to) - place(from))}%` }} />
  );
  const all = [...at].map(([name, value]) => `${titleOf(name)} ${exact(value)}`).join("\n");
  return (
    <div class="quantiles" title={all} aria-label={all.replaceAll("\n", ", ")} role="img">
      <span>{short(low)}</span>
      <div>
        {bar("p1", "p99", "thin")}{bar("p5", "p95", "thick")}{bar("p25", "p75", "box")}
        {at.has("p50") && <i class="median" style={{ left: `${place("p50")}%` }} />}
      </div>
      <span>{short(high)}</span>
    </div>
  );
}
