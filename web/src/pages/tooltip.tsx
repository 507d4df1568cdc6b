// The tooltip of a page item, and its placement.

import type { ComponentChildren } from "preact";

export interface Box {
  readonly left: number;
  readonly right: number;
  readonly top: number;
  readonly bottom: number;
}

/** Position of a tooltip, in pixels from the sides of its container. */
export type TipPlace = Readonly<Partial<Record<"left" | "right" | "top" | "bottom", string>>>;

/** Approximate maximum height of a tooltip. */
const ROOM = 150;
const GAP = 5;

/** Below what is pointed at, or above it where the window ends; at the side where there is room. */
export function tipPlace(own: Box, around: Box, end: number): TipPlace {
  const isRight = own.left - around.left > (around.right - around.left) * 0.6;
  const isAbove = own.bottom + ROOM > end && own.top > ROOM;
  const pixels = (n: number): string => `${Math.max(0, Math.round(n))}px`;
  return {
    ...(isRight ? { right: pixels(around.right - own.right) } : { left: pixels(own.left - around.left) }),
    ...(isAbove ? { bottom: pixels(around.bottom - own.top + GAP) } : { top: pixels(own.bottom - around.top + GAP) }),
  };
}

export function Tip({ at, children }: { at: TipPlace | null; children: ComponentChildren }) {
  return <div class={`block-tip${at ? "" : " hidden"}`} aria-live="polite" style={at ?? {}}>{children}</div>;
}
