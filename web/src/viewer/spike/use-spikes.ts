// Hook for the spikes of one curve of a run.

import { useMemo } from "preact/hooks";
import type { RunView, SpikeView, SpikesView } from "../../lib/wire";
import { spikesQuery } from "../data/api";
import type { Client } from "../data/client";
import { useQuery } from "../data/use-query";
import { rowOfSource, type CurveSource } from "./address";

/** Undefined until they are known. Null asks for nothing. */
export function useSpikes(client: Client, run: RunView | null, source: CurveSource | null): SpikesView | undefined {
  const key = JSON.stringify(source);
  const query = useMemo(() => {
    if (!run || !source) return null;
    if ("scalar" in source) return run.scalars.includes(source.scalar) ? spikesQuery(run.item.id, source.scalar) : null;
    const row = rowOfSource(run, source);
    return row ? spikesQuery(run.item.id, { row: row.row, statistic: source.statistic }) : null;
  }, [run, key]);
  const { value } = useQuery(client, query);
  return query ? value : undefined;
}

/** The spike at a step, or around it. */
export function spikeAt(spikes: SpikesView | undefined, step: number): SpikeView | undefined {
  return spikes?.spikes.find((spike) => spike.step <= step && step <= spike.until);
}

/** The next spike after a step, or the one before; undefined at the end. */
export function spikeBeside(spikes: SpikesView | undefined, step: number, by: 1 | -1): SpikeView | undefined {
  const all = spikes?.spikes ?? [];
  return by > 0 ? all.find((spike) => spike.step > step) : all.findLast((spike) => spike.step < step && spike.until < step);
}

/** "30 times the values before", as the tooltip of a mark. */
export function describeSpike({ step, until, ratio, value }: SpikeView): string {
  const where = until > step ? `steps ${step.toLocaleString("en")} to ${until.toLocaleString("en")}` : `step ${step.toLocaleString("en")}`;
  const far = value === null ? "NaN or Inf" : ratio === null ? "far from the values before" : ratio >= 1 ? `${Number(ratio.toPrecision(2))} times the median before` : `×${Number(ratio.toPrecision(2))} of the median before`;
  return `Spike at ${where}: ${far}. Click to see what changed.`;
}
