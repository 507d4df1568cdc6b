// The command palette: search tensors, steps, runs, tabs and commands.

import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { Icon } from "../graph/icons";
import type { RunItem, RunView } from "../lib/wire";
import { searchPalette, nameOf, paletteItems, type PaletteItem } from "./palette-search";
import type { Tab } from "./tabs";

const RECENT = "cutaway.recent";
const MOST_RECENT = 8;

/** Recent items, newest first. */
function recentItems(): string[] {
  try {
    const kept: unknown = JSON.parse(localStorage.getItem(RECENT) ?? "[]");
    return Array.isArray(kept) ? kept.filter((name): name is string => typeof name === "string").slice(0, MOST_RECENT) : [];
  } catch {
    return [];
  }
}

function remember(name: string, before: readonly string[]): void {
  try {
    localStorage.setItem(RECENT, JSON.stringify([name, ...before.filter((other) => other !== name)].slice(0, MOST_RECENT)));
  } catch {
    // Local storage may be disabled; then nothing is remembered.
  }
}

interface Props {
  readonly run: RunView | null;
  readonly items: readonly RunItem[];
  readonly tabs: readonly Tab[];
  onDo(actions: PaletteItem["actions"]): void;
  onClose(): void;
}

export function Palette({ run, items, tabs, onDo, onClose }: Props) {
  const [query, setQuery] = useState("");
  const [at, setAt] = useState(0);
  const field = useRef<HTMLInputElement>(null);
  const list = useRef<HTMLUListElement>(null);
  const before = useRef(document.activeElement as HTMLElement | null);
  const all = useMemo(() => paletteItems(run, items, tabs), [run, items, tabs.join()]);
  const recent = useMemo(recentItems, []);
  const hits = useMemo(() => searchPalette(all, query, run, { recent }), [all, query, run]);
  useLayoutEffect(() => {
    field.current?.focus();
    return () => before.current?.focus?.({ preventScroll: true });
  }, []);
  useEffect(() => list.current?.querySelector("[aria-selected=true]")?.scrollIntoView({ block: "nearest" }), [at, hits]);
  const take = (hit: PaletteItem | undefined): void => {
    if (!hit) return;
    onClose();
    remember(nameOf(hit), recent);
    onDo(hit.actions);
  };
  const key = (event: KeyboardEvent): void => {
    const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (by && hits.length) setAt((at + by + hits.length) % hits.length);
    else if (event.key === "Enter") take(hits[at]);
    else if (event.key === "Escape" || ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k")) onClose();
    else {
      event.stopPropagation();
      return;
    }
    event.preventDefault();
    event.stopPropagation();
  };
  return (
    <div class="veil palette-veil" onPointerDown={(event) => event.target === event.currentTarget && onClose()}>
      <div class="palette" role="dialog" aria-modal="true" aria-label="Command palette" onKeyDown={key}>
        <div class="palette-field">
          <Icon name="search" />
          <input type="text" ref={field} value={query} placeholder="Search tensors, steps, runs and commands" spellcheck={false} autocomplete="off"
            role="combobox" aria-expanded="true" aria-controls="palette-list" aria-activedescendant={hits[at] ? `palette-${at}` : undefined} aria-label="Search tensors, steps, runs and commands"
            onInput={(event) => { setQuery(event.currentTarget.value); setAt(0); }} />
          <kbd>Esc</kbd>
        </div>
        <ul id="palette-list" role="listbox" aria-label="Matches" ref={list}>
          {hits.map((hit, i) => (
            <li id={`palette-${i}`} role="option" aria-selected={i === at} key={`${hit.group} ${hit.title} ${i}`} onPointerMove={() => i !== at && setAt(i)} onClick={() => take(hit)}>
              <span class="palette-group">{hit.group}</span>
              <span class={hit.group === "Tensors" ? "palette-title mono" : "palette-title"}>{hit.title}</span>
              <span class="palette-about">{hit.about}</span>
            </li>
          ))}
        </ul>
        {!hits.length && <p class="quiet">No matches. Names can be abbreviated: <code>h0att</code> finds <code>h.0.attn</code>.</p>}
      </div>
    </div>
  );
}
