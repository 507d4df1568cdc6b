// The sheet of keys and signs.

import { useEffect, useRef } from "preact/hooks";
import { IconButton } from "./controls";
import { KEYS } from "./keyboard";
import { KindLegend } from "./legend";

export function Help({ onClose }: { onClose(): void }) {
  const sheet = useRef<HTMLDivElement>(null);
  useEffect(() => sheet.current?.focus(), []);
  const key = (event: KeyboardEvent): void => {
    if (event.key !== "Escape" && event.key !== "?") return;
    event.stopPropagation();
    event.preventDefault();
    onClose();
  };
  return (
    <div class="veil" onClick={onClose}>
      <div class="help" role="dialog" aria-label="Help" aria-modal="true" tabIndex={-1} ref={sheet} onKeyDown={key}
        onClick={(event) => event.stopPropagation()}>
        <div class="help-head"><h2>How to read and move</h2><IconButton icon="close" title="Close (Esc)" onClick={onClose} /></div>
        <div class="help-columns">
          <section>
            <h3>Keys</h3>
            <dl>{KEYS.map(([shown, does]) => <div key={shown}><dt><kbd>{shown}</kbd></dt><dd>{does}</dd></div>)}</dl>
          </section>
          <section>
            <h3>Pointer</h3>
            <dl>
              <div><dt>drag, wheel</dt><dd>move about; Ctrl + wheel or pinch zooms</dd></div>
              <div><dt>click</dt><dd>shows what an op or module holds</dd></div>
              <div><dt>double-click, ▸</dt><dd>opens a module, or folds it by its title</dd></div>
              <div><dt>Shift + click</dt><dd>shows the paths from the selection to here</dd></div>
              <div><dt>right click</dt><dd>what can be done with a box</dd></div>
            </dl>
            <h3>Signs</h3>
            <KindLegend isWhole />
            <p class="quiet">
              Round boxes are functions, square ones are modules. ×24 on a stack: so many identical blocks are drawn once.
            </p>
          </section>
        </div>
      </div>
    </div>
  );
}
