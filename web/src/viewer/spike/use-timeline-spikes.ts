// Hook for the spikes of the timeline's curve, which the slider marks as well.

import type { RunView } from "../../lib/wire";
import { defaultScalar } from "../charts/timeline";
import type { PanelProps } from "../panels/props";
import { useCurveSpikes, type CurveSpikes } from "./use-curve-spikes";

export function useTimelineSpikes({ run, state, act, client }: Pick<PanelProps, "state" | "act" | "client"> & { run: RunView | null }): CurveSpikes | undefined {
  const kept = state.kept.timeline;
  const scalar = run && (run.scalars.includes(kept) ? kept : defaultScalar(run.scalars));
  return useCurveSpikes({ run: run!, state, act, client }, scalar ? { scalar } : null);
}
