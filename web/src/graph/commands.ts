// Runs the keyboard commands of the graph.

import type { GraphCanvas } from "../canvas";
import type { Command } from "./keyboard";
import type { Page } from "./context";
import { SEARCH_FIELD } from "./search";
import { deepest, depthOf } from "./state";
import { COLOR_MENU } from "./toolbar";

interface Around {
  canvas(): GraphCanvas | null;
  readonly element: HTMLElement;
  /** The selected box or frame, as drawn. */
  readonly selected: string | null;
  turn(): void;
  help(): void;
  panel(): void;
}

/** Returns a function that runs a command and tells whether it did anything. */
export function runner(page: Page, around: Around): (command: Command) => boolean {
  const { state, view, act } = page;
  return (command) => {
    const canvas = around.canvas();
    switch (command) {
      case "left": case "right": case "up": case "down":
        return walk(page, canvas, around.selected, command);
      case "toggle":
        if (!around.selected?.startsWith("g")) return false;
        page.toggle(Number(around.selected.slice(1)));
        return true;
      case "clear": act({ do: "clear" }); return true;
      case "ancestors": case "descendants": act({ do: "highlight", highlight: command }); return true;
      case "paths": act({ do: "pick" }); return true;
      case "zoom in": canvas?.zoom(1.25); return true;
      case "zoom out": canvas?.zoom(0.8); return true;
      case "fit": page.fit(); return true;
      case "focus":
        if (around.selected) canvas?.focus(around.selected, { zoom: true, animate: true });
        return true;
      case "shallower": case "deeper": {
        const { depth, isExact } = depthOf(view, state.open);
        const next = command === "deeper" ? depth + 1 : isExact ? depth - 1 : depth;
        if (next >= 1 && next <= deepest(view)) act({ do: "depth", depth: next });
        return true;
      }
      case "rolled": act({ do: "rolled", is: !state.rolled }); return true;
      case "direction": act({ do: "direction", direction: state.direction === "down" ? "right" : "down" }); return true;
      case "color": return openMenu(around.element.querySelector<HTMLSelectElement>(`.${COLOR_MENU}`));
      case "search": around.element.querySelector<HTMLInputElement>(`.${SEARCH_FIELD}`)?.select(); return true;
      case "next": page.step(1); return true;
      case "previous": page.step(-1); return true;
      case "theme": around.turn(); return true;
      case "panel": around.panel(); return true;
      case "help": around.help(); return true;
    }
  };
}

function walk({ act, drawn }: Page, canvas: GraphCanvas | null, from: string | null, way: "left" | "right" | "up" | "down"): boolean {
  const next = from === null ? drawn.picture.boxes[0]?.key : canvas?.neighbor(from, way);
  if (!next) return false;
  act({ do: "select", key: next });
  canvas?.focus(next, { animate: true });
  return true;
}

function openMenu(menu: HTMLSelectElement | null): boolean {
  if (!menu) return false;
  menu.focus();
  try {
    menu.showPicker();
  } catch {
    // Not every browser has showPicker; with the focus there, the arrow keys still work.
  }
  return true;
}
