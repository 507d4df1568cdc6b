// Keyboard shortcuts that move a box.

import { useEffect, useRef } from "preact/hooks";
import { takesKeys } from "../../graph/keyboard";

const PUSHES: Readonly<Record<string, readonly [number, number]>> = {
  ArrowLeft: [-24, 0], ArrowRight: [24, 0], ArrowUp: [0, -24], ArrowDown: [0, 24],
};

/** Shift + arrow moves the selected box; in move mode, the arrow alone does. `push` returns whether there was a box. */
export function useMoveKeys(element: HTMLElement | null, isMoving: boolean, push: (by: [number, number]) => boolean): void {
  const latest = useRef(push);
  latest.current = push;
  useEffect(() => {
    const hear = (event: KeyboardEvent): void => {
      const by = (event.shiftKey || isMoving) && !event.ctrlKey && !event.metaKey && !event.altKey ? PUSHES[event.key] : undefined;
      const at = event.composedPath()[0];
      if (!by || !element || element.closest("[hidden]") || takesKeys(at instanceof Element ? at : null, event.key)) return;
      // The slider and tables use the arrow keys themselves.
      if (at instanceof Element && at !== document.body && !element.contains(at)) return;
      if (!latest.current([...by])) return;
      event.preventDefault();
      event.stopPropagation();
    };
    addEventListener("keydown", hear, true);
    return () => removeEventListener("keydown", hear, true);
  }, [element, isMoving]);
}
