// The sheet of keys.

import { useLayoutEffect, useRef } from "preact/hooks";
import { IconButton } from "../app/controls";
import { KEYS as GRAPH_KEYS } from "../app/keyboard";
import { KEYS } from "./keys";

/** Keys of the graph that the viewer's graph has as well. */
const SHARED = new Set(["left", "toggle", "shallower", "ancestors", "paths", "search", "next", "zoom in", "fit", "rolled", "direction", "colour", "clear"]);

export function ViewerHelp({ onClose }: { onClose(): void }) {
  const sheet = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    const before = document.activeElement as HTMLElement | null;
    sheet.current?.focus();
    return () => before?.focus?.({ preventScroll: true });
  }, []);
  const key = (event: KeyboardEvent): void => {
    event.stopPropagation();
    if (event.key !== "Escape" && event.key !== "?") return;
    event.preventDefault();
    onClose();
  };
  const graph = GRAPH_KEYS.filter(([, , commands]) => Object.values(commands).some((command) => SHARED.has(command)));
  return (
    <div class="veil" onClick={onClose}>
      <div class="help" role="dialog" aria-label="Help" aria-modal="true" tabIndex={-1} ref={sheet} onKeyDown={key} onClick={(event) => event.stopPropagation()}>
        <div class="help-head"><h2>How to read and move</h2><IconButton icon="close" title="Close (Esc)" onClick={onClose} /></div>
        <div class="help-columns">
          <section>
            <h3>Everywhere</h3>
            <dl>{KEYS.map(([shown, does]) => <div key={shown}><dt><kbd>{shown}</kbd></dt><dd>{does}</dd></div>)}</dl>
          </section>
          <section>
            <h3>In the graph</h3>
            <dl>
              {graph.map(([shown, does]) => <div key={shown}><dt><kbd>{shown}</kbd></dt><dd>{does}</dd></div>)}
              <div><dt><kbd>Shift + ← ↑ ↓ →</kbd></dt><dd>move the selected box</dd></div>
            </dl>
            <h3>Pointer</h3>
            <dl>
              <div><dt>drag, wheel</dt><dd>move about; Ctrl + wheel or pinch zooms</dd></div>
              <div><dt>click a node</dt><dd>shows its tensor beside the graph</dd></div>
              <div><dt>right click</dt><dd>what can be done with a node: hide, pin, highlight</dd></div>
              <div><dt>click a curve</dt><dd>goes to that step; drag zooms into it</dd></div>
              <div><dt>● of a run</dt><dd>lays it over the others, or takes it off the page</dd></div>
            </dl>
            <h3>Selectors</h3>
            <p class="quiet">
              What a tensor does not have is replaced by the next best, and comes back with the next tensor that has it: choose the gradient once,
              and go from node to node. The address holds all that is shown; a link to it shows the same.
            </p>
          </section>
        </div>
      </div>
    </div>
  );
}
