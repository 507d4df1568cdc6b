// Hook for the spikes of a curve on the page: where they are, which is open, and how one is opened.

import { useMemo } from "preact/hooks";
import type { SpikeView } from "../../lib/wire";
import type { PanelProps } from "../panels/props";
import { openSpike, readSpike, SPIKE, writeSpike, type CurveSource } from "./address";
import { useSpikes } from "./use-spikes";

/** What a chart needs to mark spikes. */
export interface CurveSpikes {
  readonly spikes: readonly SpikeView[];
  /** The first step of the open spike; null if none of this curve is open. */
  readonly open: number | null;
  onOpen(step: number): void;
}

/** The spikes of the selected run; undefined while they are unknown. */
export function useCurveSpikes(props: Pick<PanelProps, "run" | "state" | "act" | "client">, source: CurveSource | null): CurveSpikes | undefined {
  const { run, state, act, client } = props;
  const found = useSpikes(client, run, source);
  const open = readSpike(state.kept[SPIKE]);
  const isOwn = open !== null && source !== null && writeSpike({ ...open, source }) === state.kept[SPIKE];
  return useMemo(() => found && source ? {
    spikes: found.spikes, open: isOwn ? open!.step : null,
    onOpen: (step) => openSpike({ state }, { step, source }).forEach(act),
  } : undefined, [found, JSON.stringify(source), isOwn, open?.step, state, act]);
}
