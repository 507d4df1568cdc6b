// Keyboard shortcuts that move a box.

import { useEffect, useRef } from "preact/hooks";
import { takesKeys } from "../../graph/keyboard";

const PUSHES: Readonly<Record<string, readonly [number, number]>> = {
  ArrowLeft: [-24, 0], ArrowRight: [24, 0], ArrowUp: [0, -24], ArrowDown: [0, 24],
};

/** Shift and an arrow move the selected box, or an arrow alone while it is being moved. `push` says whether there was one. */
export function useMoveKeys(element: HTMLElement | null, isMoving: boolean, push: (by: [number, number]) => boolean): void {
  const latest = useRef(push);
  latest.current = push;
  useEffect(() => {
    const hear = (event: KeyboardEvent): void => {
      const by = (event.shiftKey || isMoving) && !event.ctrlKey && !event.metaKey && !event.altKey ? PUSHES[event.key] : undefined;
      const at = event.composedPath()[0];
      if (!by || !element || element.closest("[hidden]") || takesKeys(at instanceof Element ? at : null, event.key)) return;
      // The slider and the tables have arrows of their own.
      if (at instanceof Element && at !== document.body && !element.contains(at)) return;
      if (!latest.current([...by])) return;
      event.preventDefault();
      event.stopPropagation();
    };
    addEventListener("keydown", hear, true);
    return () => removeEventListener("keydown", hear, true);
  }, [element, isMoving]);
}
