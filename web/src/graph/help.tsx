// The help sheet: keyboard shortcuts and symbols.

import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";
import { IconButton } from "./controls";
import { KEYS } from "./keyboard";
import { KindLegend } from "./legend";

/** A modal sheet; closed by Escape, ? or a click outside it. */
export function HelpSheet({ onClose, children }: { onClose(): void; children: ComponentChildren }) {
  const sheet = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    const before = document.activeElement as HTMLElement | null;
    sheet.current?.focus();
    return () => before?.focus?.({ preventScroll: true });
  }, []);
  const key = (event: KeyboardEvent): void => {
    // The sheet is modal: no other key may reach the page below it.
    event.stopPropagation();
    if (event.key !== "Escape" && event.key !== "?") return;
    event.preventDefault();
    onClose();
  };
  return (
    <div class="veil" onClick={onClose}>
      <div class="help" role="dialog" aria-label="Help" aria-modal="true" tabIndex={-1} ref={sheet} onKeyDown={key}
        onClick={(event) => event.stopPropagation()}>
        <div class="help-head"><h2>Keyboard and mouse</h2><IconButton icon="close" title="Close (Esc)" onClick={onClose} /></div>
        <div class="help-columns">{children}</div>
      </div>
    </div>
  );
}

export function Help({ onClose }: { onClose(): void }) {
  return (
    <HelpSheet onClose={onClose}>
      <section>
        <h3>Keyboard</h3>
        <dl>{KEYS.map(([shown, does]) => <div key={shown}><dt><kbd>{shown}</kbd></dt><dd>{does}</dd></div>)}</dl>
      </section>
      <section>
        <h3>Mouse</h3>
        <dl>
          <div><dt>drag, wheel</dt><dd>pan; Ctrl + wheel or pinch zooms</dd></div>
          <div><dt>click</dt><dd>show the details of an op or module</dd></div>
          <div><dt>double-click, ▸</dt><dd>open a module; double-click its title to fold it</dd></div>
          <div><dt>Shift + click</dt><dd>highlight the paths from the selection to here</dd></div>
          <div><dt>right click</dt><dd>open the menu of a box</dd></div>
        </dl>
        <h3>Symbols</h3>
        <KindLegend isWhole />
        <p class="quiet">
          Round boxes are functions, square boxes are modules. A stack marked ×24 stands for 24 identical blocks.
        </p>
      </section>
    </HelpSheet>
  );
}
