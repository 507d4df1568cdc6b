// Listens to the keyboard and runs the commands of its keys.

import { useEffect, useRef } from "preact/hooks";
import { commandOf, takesKeys, type Command } from "../keyboard";

/** In a notebook, only keys pressed inside the picture count; on a page, all do. */
export function useKeys(element: HTMLElement | null, isPage: boolean, run: (command: Command) => boolean): void {
  const latest = useRef(run);
  latest.current = run;
  useEffect(() => {
    if (!element) return undefined;
    const target: EventTarget = isPage ? window : element;
    const hear = (event: Event): void => {
      // A notebook would treat plain keys as commands for its cells.
      if (!isPage && !(event as KeyboardEvent).ctrlKey && !(event as KeyboardEvent).metaKey) event.stopPropagation();
      const { key, ctrlKey, metaKey, altKey, composedPath } = event as KeyboardEvent;
      const at = composedPath.call(event)[0];
      const typing = takesKeys(at instanceof Element ? at : null, key);
      const command = commandOf({ key, ctrlKey, metaKey, altKey }, typing);
      if (!command || event.defaultPrevented || element.closest("[hidden]")) return;
      if (!latest.current(command)) return;
      event.preventDefault();
      event.stopPropagation();
    };
    target.addEventListener("keydown", hear);
    return () => target.removeEventListener("keydown", hear);
  }, [element, isPage]);
}
