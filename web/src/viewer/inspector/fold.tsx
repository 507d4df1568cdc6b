// A collapsible section whose content is created when first opened.

import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";

export function Fold({ title, aside, isOpen = false, children }: { title: string; aside?: string; isOpen?: boolean; children(): ComponentChildren }) {
  const [isShown, setShown] = useState(isOpen);
  return (
    <details class="card" open={isShown} onToggle={(event) => setShown(event.currentTarget.open)}>
      <summary><span>{title}</span>{aside && <span class="aside">{aside}</span>}</summary>
      {isShown && children()}
    </details>
  );
}
