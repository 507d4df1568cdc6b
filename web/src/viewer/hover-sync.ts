// Shares the hovered step between slider and timeline without rendering anything else.

import { useEffect, useState } from "preact/hooks";

export interface HoverSync {
  /** Null when the pointer has left. `from` names the sender, which is not notified. */
  point(step: number | null, from: string): void;
  /** Returns a function that unsubscribes. */
  listen(from: string, hear: (step: number | null) => void): () => void;
}

export function makeHoverSync(): HoverSync {
  const hearing = new Map<string, (step: number | null) => void>();
  return {
    point: (step, from) => hearing.forEach((hear, to) => void (to !== from && hear(step))),
    listen(from, hear) {
      hearing.set(from, hear);
      return () => hearing.delete(from);
    },
  };
}

/** The step hovered in the other chart; null for none. */
export function useHoveredStep(hoverSync: HoverSync, own: string): number | null {
  const [step, setStep] = useState<number | null>(null);
  useEffect(() => hoverSync.listen(own, setStep), [hoverSync, own]);
  return step;
}
