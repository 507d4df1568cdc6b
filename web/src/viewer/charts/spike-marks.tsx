// Marks of spikes above the step slider.

import type { CurveSpikes } from "../spike/use-curve-spikes";
import { describeSpike } from "../spike/use-spikes";

/** Marks closer than this many pixels would hide each other: the first of them stands for all. */
const APART = 9;

/** Which of some places in order get a mark. */
export function spacedApart(places: readonly number[], apart = APART): number[] {
  const kept: number[] = [];
  let last = -Infinity;
  places.forEach((place, i) => {
    if (place - last < apart) return;
    kept.push(i);
    last = place;
  });
  return kept;
}

export function SpikeMarks({ spikes: { spikes, open, onOpen }, x }: { spikes: CurveSpikes; x(step: number): number }) {
  const places = spikes.map(({ step }) => x(step));
  return (
    <>
      {spacedApart(places).map((i) => {
        const { step, is_recorded: isRecorded } = spikes[i];
        return (
          <button type="button" key={step} class={`spike-mark${step === open ? " on" : ""}${isRecorded ? "" : " logged"}`} style={{ left: `${places[i]}px` }} tabIndex={-1}
            title={`${describeSpike(spikes[i])}${isRecorded ? "" : " The step was not recorded."}`} aria-label={`Spike at step ${step}`}
            onPointerDown={(event) => event.stopPropagation()} onClick={() => onOpen(step)}>!</button>
        );
      })}
    </>
  );
}
