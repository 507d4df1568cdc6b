// Distribution of the values of a tensor: histogram and quantiles on one axis.

import { Histogram } from "../../graph/inspector/histogram";
import { isQuantile, titleOf } from "../../lib/values/statistics";
import { exact, short } from "../../lib/formatting";
import { N_SAMPLED, type StatisticView, type TensorView } from "../../lib/wire";
import type { PanelProps } from "../panels/props";

const LOG = "inspect.bars";

export function Distribution({ tensor, state, act }: PanelProps & { tensor: TensorView }) {
  const own = tensor.sample ? tensor.picture?.histogram ?? null : null;
  const isOfSample = own !== null;
  const histogram = own ?? tensor.histogram ?? tensor.picture?.histogram ?? null;
  const count = tensor.statistics.find(({ name }) => name === "count")?.value ?? 0;
  if (!histogram || count === 1) return null;
  if (histogram.low === histogram.high) return <p class="quiet">Every value is {exact(histogram.low)}.</p>;
  const isWhole = !isOfSample && tensor.histogram !== null;
  const hasBatch = !["parameter", "buffer"].includes(tensor.role) && tensor.of !== "update";
  const title = `Distribution of values${isOfSample ? ", this sample" : !isWhole ? ", kept values" : hasBatch ? ", whole batch" : ""}`;
  const few = isWhole && count > N_SAMPLED ? ` · ${N_SAMPLED.toLocaleString("en")} of ${count.toLocaleString("en")}` : "";
  const quantiles = isOfSample ? new Map<string, number>() : quantilesOf(tensor.statistics);
  return (
    <>
      <Histogram histogram={histogram} areShares={isWhole} title={title + few} isLog={state.kept[LOG] === "log"}
        onLog={(isLog) => act({ do: "keep", name: LOG, text: isLog ? "log" : "" })} below={(place) => <Box at={quantiles} place={place} />} />
      <QuantileText at={quantiles} />
    </>
  );
}

function quantilesOf(statistics: readonly StatisticView[]): Map<string, number> {
  return new Map(statistics.filter(({ name, value }) => isQuantile(name) && value !== null).map(({ name, value }) => [name, value!]));
}

/** A thin line from p1 to p99, a thicker one from p5 to p95, a box around the middle half, a mark at the median. */
function Box({ at, place }: { at: ReadonlyMap<string, number>; place(value: number): number }) {
  if (at.size < 3) return null;
  const bar = (from: string, to: string, kind: string) => {
    if (!at.has(from) || !at.has(to)) return null;
    const [a, b] = [place(at.get(from)!), place(at.get(to)!)];
    return <i class={kind} style={{ left: `${100 * a}%`, width: `${Math.max(0.3, 100 * (b - a))}%` }} />;
  };
  const all = [...at].map(([name, value]) => `${titleOf(name)} ${exact(value)}`).join("\n");
  return (
    <div class="quantiles" title={all} aria-label={all.replaceAll("\n", ", ")} role="img">
      {bar("p1", "p99", "thin")}{bar("p5", "p95", "thick")}{bar("p25", "p75", "box")}
      {at.has("p50") && <i class="median" style={{ left: `${100 * place(at.get("p50")!)}%` }} />}
    </div>
  );
}

/** The same in words. */
function QuantileText({ at }: { at: ReadonlyMap<string, number> }) {
  const parts = [["median", "median", "p50", "p50"], ["box", "middle 50 %", "p25", "p75"], ["thick", "90 %", "p5", "p95"], ["thin", "98 %", "p1", "p99"]] as const;
  const known = parts.filter(([, , from, to]) => at.has(from) && at.has(to));
  if (at.size < 3) return null;
  return (
    <p class="quantile-words">
      {known.map(([kind, what, from, to]) => (
        <span key={kind} title={from === to ? exact(at.get(from)!) : `${titleOf(from)} ${exact(at.get(from)!)}, ${titleOf(to)} ${exact(at.get(to)!)}`}>
          <i class={kind} />{what} <b>{from === to ? short(at.get(from)!) : `${short(at.get(from)!)} … ${short(at.get(to)!)}`}</b>
        </span>
      ))}
    </p>
  );
}
