// The context menu of a box or module.

import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { usePage } from "./context";

export interface MenuPlace {
  readonly key: string;
  readonly x: number;
  readonly y: number;
}

export interface Item {
  readonly text: string;
  run(): void;
}

export function ContextMenu({ at, more = [], onClose }: { at: MenuPlace; more?: readonly Item[]; onClose(): void }) {
  const items = [...useItems(at.key), ...more];
  const list = useRef<HTMLUListElement>(null);
  useLayoutEffect(() => {
    // Keep the menu inside the window.
    const menu = list.current!, room = menu.offsetParent;
    if (!room) return;
    menu.style.left = `${Math.max(0, Math.min(at.x, room.clientWidth - menu.offsetWidth - 6))}px`;
    menu.style.top = `${Math.max(0, Math.min(at.y, room.clientHeight - menu.offsetHeight - 6))}px`;
  }, []);
  useEffect(() => {
    list.current?.querySelector("button")?.focus({ preventScroll: true });
    const outside = (event: Event): void => {
      if (!event.composedPath().includes(list.current!)) onClose();
    };
    const root = list.current!.getRootNode();
    root.addEventListener("pointerdown", outside, true);
    return () => root.removeEventListener("pointerdown", outside, true);
  }, []);
  const key = (event: KeyboardEvent): void => {
    const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (by !== undefined) {
      const all = [...list.current!.querySelectorAll("button")];
      const here = all.indexOf(event.target as HTMLButtonElement);
      all[(here + by + all.length) % all.length].focus();
    } else if (event.key === "Escape") onClose();
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  return (
    <ul class="context-menu" role="menu" ref={list} style={{ left: `${at.x}px`, top: `${at.y}px` }} onKeyDown={key}>
      {items.map(({ text, run }) => (
        <li role="none" key={text}><button type="button" role="menuitem" onClick={() => { run(); onClose(); }}>{text}</button></li>
      ))}
    </ul>
  );
}

function useItems(key: string): Item[] {
  const { view, state, drawn, act, go, toggle, part } = usePage();
  const number = Number(key.slice(1));
  const isGroup = key.startsWith("g");
  const box = drawn.picture.boxes.find((one) => one.key === key);
  if (box?.stands_for.length) return [{ text: "Go to the original", run: () => go(box.stands_for[0]) }];
  const run = isGroup ? view.groups.run[number] : -1;
  const n = run >= 0 ? view.runs[run].groups.length : 1;
  const isOnce = run >= 0 && !state.apart.has(run);
  const highlighted = (highlight: "ancestors" | "descendants") => (): void => {
    act({ do: "select", key });
    if (state.highlight !== highlight || state.selection !== key) {
      act({ do: "clear highlight" });
      act({ do: "highlight", highlight });
    }
  };
  const site = isGroup ? view.groups.label[number].replace(/ .*$/, "") : view.nodes.site[number];
  const hasOther = state.selection !== null && state.selection !== key;
  return [
    ...(isGroup ? [{ text: state.open.has(number) ? "Fold" : "Open", run: () => toggle(number) }] : []),
    ...(run >= 0 ? [{ text: isOnce ? `Show all ${n} blocks` : "Show repeated blocks once", run: () => part(run, isOnce) }] : []),
    { text: "Highlight ancestors", run: highlighted("ancestors") },
    { text: "Highlight descendants", run: highlighted("descendants") },
    ...(hasOther ? [{ text: "Highlight paths from the selection", run: () => { act({ do: "pick" }); act({ do: "select", key }); } }] : []),
    { text: "Zoom to selection", run: () => go(key) },
    ...(site ? [{ text: "Copy site", run: () => void navigator.clipboard?.writeText(site) }] : []),
  ];
}
