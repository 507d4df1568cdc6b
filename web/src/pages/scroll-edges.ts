// Fades the edges of a scrollable element while there is more to see.

import type { RefObject } from "preact";
import { useLayoutEffect } from "preact/hooks";

/** The sides with more content: "left", "right", "above", "below". */
export function sidesOf({ scrollLeft, scrollTop, scrollWidth, scrollHeight, clientWidth, clientHeight }: Pick<Element, "scrollLeft" | "scrollTop" | "scrollWidth" | "scrollHeight" | "clientWidth" | "clientHeight">): string {
  const sides = [
    scrollLeft > 1 && "left", scrollLeft + clientWidth < scrollWidth - 1 && "right",
    scrollTop > 1 && "above", scrollTop + clientHeight < scrollHeight - 1 && "below",
  ];
  return sides.filter(Boolean).join(" ");
}

/** Keeps `data-more` of an element up to date: the sides at which its scroller has more content. */
export function useEdges(frame: RefObject<HTMLElement | null>, selector: string): void {
  useLayoutEffect(() => {
    const scroller = frame.current?.querySelector<HTMLElement>(selector);
    if (!scroller) return;
    const see = (): void => {
      frame.current?.setAttribute("data-more", sidesOf(scroller));
      // The scrollbars themselves do not fade.
      frame.current?.style.setProperty("--side", `${scroller.offsetWidth - scroller.clientWidth}px`);
      frame.current?.style.setProperty("--foot", `${scroller.offsetHeight - scroller.clientHeight}px`);
    };
    const observer = new ResizeObserver(see);
    for (const each of [scroller, ...scroller.children]) observer.observe(each);
    scroller.addEventListener("scroll", see, { passive: true });
    see();
    return () => { observer.disconnect(); scroller.removeEventListener("scroll", see); };
  });
}
