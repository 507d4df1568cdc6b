// Statistics of a tensor as cards, with outliers marked and a sparkline in the tooltip.

import { useState } from "preact/hooks";
import { cardsOf, isLogScaled, statisticOf, zText } from "../../lib/values/statistics";
import { sparkOf } from "../../lib/charts/sparkline";
import { short } from "../../lib/formatting";
import { quantityTitle } from "../../lib/values/quantity";
import { HOLDS_MASK, type StatisticView, type TensorView } from "../../lib/wire";
import { curveQuery } from "../data/api";
import type { PanelProps } from "../panels/props";
import { useQuery } from "../data/use-query";

const VALUE = "value";
const SPARK: readonly [number, number] = [150, 30];
/** Maximum width of a sparkline tooltip, in pixels. */
const WIDEST = 240;

export function Cards(props: PanelProps & { tensor: TensorView; statistic: string }) {
  const { tensor, statistic, act, choice } = props;
  const [over, setOver] = useState<{ name: string; isRight: boolean } | null>(null);
  const look = (name: string, card: HTMLElement): void => {
    const room = (card.parentElement?.clientWidth ?? 0) - (card.offsetLeft - (card.parentElement?.offsetLeft ?? 0));
    setOver({ name, isRight: room < WIDEST });
  };
  return (
    <div class="stats cards" onPointerLeave={() => setOver(null)}>
      {choice.sample !== null && tensor.statistics.length > 0 && <p class="quiet cards-over">over the whole batch; see below for this sample</p>}
      {cardsOf(tensor.statistics, { dead: tensor.dead_units, units: tensor.units?.n_rows ?? 0, isMask: tensor.contents === HOLDS_MASK }).map(({ name, title, text, exact: whole, marks, notes, isOut }) => (
        <button type="button" key={name} class={`stat${isOut ? " out" : ""}${statistic === name ? " on" : ""}`} aria-pressed={statistic === name}
          onClick={() => act({ do: "statistic", statistic: name })} onPointerEnter={(event) => look(name, event.currentTarget)}
          onFocus={(event) => look(name, event.currentTarget)} onBlur={() => setOver(null)} aria-label={[`${title} ${text}`, ...marks, ...notes].join(", ")}>
          <span class="label">{title}</span>
          <b>{text}</b>
          {marks.map((mark) => <small class="bad" key={mark}>{mark}</small>)}
          {notes.map((note) => <small key={note}>{note}</small>)}
          {over?.name === name && <StatisticTooltip {...props} name={name} whole={whole} isRight={over.isRight} />}
        </button>
      ))}
    </div>
  );
}

/** Tooltip: the exact number and its history. */
function StatisticTooltip({ run, client, choice, tensor, name, whole, isRight }: PanelProps & { tensor: TensorView; name: string; whole: string; isRight: boolean }) {
  const { value } = useQuery(client, curveQuery(run.item.id, tensor.row, name, run.kinds.length > 1 ? tensor.kind : null));
  const one = tensor.statistics.find((statistic) => statistic.name === name);
  const { about } = statisticOf(name);
  const spark = value && sparkOf(value.steps, value.values, SPARK, isLogScaled(name), choice.step);
  return (
    <span class={isRight ? "past right" : "past"} role="tooltip">
      {about && <small>{about}</small>}
      <code>{whole}</code>
      {spark && spark.path && (
        <svg viewBox={`-3 -3 ${SPARK[0] + 6} ${SPARK[1] + 6}`} aria-hidden="true">
          <path d={spark.path} />
          {spark.dot && <circle cx={spark.dot[0]} cy={spark.dot[1]} r={2.6} />}
        </svg>
      )}
      {one && <Scores statistic={one} of={tensor.of} help={tensor.unusual_help} />}
    </span>
  );
}

/** The z-scores, and what they compare with. */
function Scores({ statistic: { z_past: past, z_peers: peers, n_past: nPast, n_peers: nPeers, usual, unusual }, of, help }: { statistic: StatisticView; of: string; help: string }) {
  const others = `${of === VALUE ? "tensors" : `${quantityTitle(of)}s`} of its role at this step`;
  return (
    <>
      {unusual && <small class="bad">{unusual.about}</small>}
      {past !== null && <small>z {zText(past)} against its past: {nPast} recorded steps of this kind before{usual !== null && `, median ${short(usual)}`}</small>}
      {peers !== null && <small>z {zText(peers)} against its peers: {nPeers.toLocaleString("en")} other {others}</small>}
      {(past !== null || peers !== null) && <small class="quiet">{help}</small>}
    </>
  );
}
