// The button beside the timeline that leads to the spikes of its curve, or asks what changed at the shown step.

import { counted } from "../../lib/formatting";
import type { CurveSpikes } from "./use-curve-spikes";

export function SpikeButton({ spikes, step }: { spikes: CurveSpikes | undefined; step: number }) {
  if (!spikes || step < 0) return null;
  const next = spikes.spikes.find((spike) => spike.step > step) ?? spikes.spikes[0];
  if (next && spikes.open === null) {
    return <button type="button" class="timeline-spikes" title={`Values far from the 50 before. Click to see what changed at step ${next.step.toLocaleString("en")}.`} onClick={() => spikes.onOpen(next.step)}>{counted(spikes.spikes.length, "spike")}</button>;
  }
  return spikes.open === step ? null : <button type="button" class="link timeline-what" title={`What changed at step ${step.toLocaleString("en")}`} onClick={() => spikes.onOpen(step)}>what changed here?</button>;
}
