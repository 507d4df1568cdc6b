// Search for ops and modules: field, matches, count.

import { useEffect, useRef, useState } from "preact/hooks";
import { IconButton } from "./controls";
import { Icon } from "./icons";
import { usePage } from "./context";

/** Maximum number of listed matches; the count shows all. */
const MOST = 60;
export const SEARCH_FIELD = "search-field";

export function Search({ example = "relu, Linear, h.*.attn/softmax" }: { example?: string }) {
  const { state, hits, act, go, step } = usePage();
  const [isOpen, setOpen] = useState(false);
  const list = useRef<HTMLUListElement>(null);
  useEffect(() => {
    list.current?.querySelector("[aria-selected=true]")?.scrollIntoView({ block: "nearest" });
  }, [state.hit]);
  const key = (event: KeyboardEvent): void => {
    const by = { ArrowDown: 1, ArrowUp: -1, Enter: event.shiftKey ? -1 : 1 }[event.key];
    if (by !== undefined) {
      event.preventDefault();
      step(by);
      // The list would cover the inspector, which shows the match.
      setOpen(event.key !== "Enter" || !hits.length);
    } else if (event.key === "Escape") {
      // Matches stay marked for n and N; a second Esc clears them.
      setOpen(false);
      (event.currentTarget as HTMLElement).blur();
    } else return;
    event.stopPropagation();
  };
  const place = state.hit >= 0 ? `${(state.hit + 1).toLocaleString("en")}/` : "";
  const counted = hits.length ? `${place}${hits.length.toLocaleString("en")}` : "none";
  const hasQuery = state.query.trim() !== "";
  return (
    <div class="search" role="search" onFocusCapture={() => setOpen(true)}
      onFocusOut={(event) => { if (!event.currentTarget.contains(event.relatedTarget as Node | null)) setOpen(false); }}>
      <Icon name="search" />
      <input type="text" class={SEARCH_FIELD} placeholder={example} aria-label="Search" spellcheck={false}
        autocomplete="off" value={state.query}
        onClick={() => setOpen(true)} onKeyDown={key}
        onInput={(event) => { setOpen(true); act({ do: "query", query: event.currentTarget.value }); }} />
      {hasQuery ? (
        <>
          <span class="search-count">{counted}</span>
          <IconButton icon="up" title="Previous (N)" isOff={!hits.length} onClick={() => step(-1)} />
          <IconButton icon="down" title="Next (n)" isOff={!hits.length} onClick={() => step(1)} />
          <IconButton icon="close" title="Clear search" onClick={() => act({ do: "query", query: "" })} />
        </>
      ) : <kbd>/</kbd>}
      {isOpen && hasQuery && (
        <div class="search-results">
          {hits.length === 0 && (
            <p class="quiet">
              No matches. Names can be abbreviated; <code>*</code> matches one part of a site, <code>**</code> any number of parts.
            </p>
          )}
          <ul ref={list} role="listbox" aria-label="Matches">
            {hits.slice(0, MOST).map((hit, place) => (
              <li role="option" aria-selected={place === state.hit} key={hit.key} onMouseDown={(event) => event.preventDefault()}
                onClick={() => { act({ do: "hit", hit: place }); go(hit.key); setOpen(false); }}>
                <span class={hit.key.startsWith("g") ? "found-module" : "found-op"}>{hit.title}</span>
                <span class="found-about">{hit.about}</span>
              </li>
            ))}
          </ul>
          {hits.length > MOST && <p class="quiet">and {(hits.length - MOST).toLocaleString("en")} more</p>}
          {hits.length > 0 && <p class="keys"><kbd>Enter</kbd> next <kbd>⇧ Enter</kbd> previous <kbd>Esc</kbd> close</p>}
        </div>
      )}
    </div>
  );
}
