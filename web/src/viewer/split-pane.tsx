// A panel with the inspector beside it, or below it in narrow windows.

import type { ComponentChildren } from "preact";
import { useRef, useState } from "preact/hooks";
import { Icon } from "../graph/icons";
import { Splitter } from "../graph/splitter";
import type { Choice } from "./choice";
import { InspectorPanel } from "./panels/inspector";
import type { PanelProps } from "./panels/props";
import { SPIKE } from "./spike/address";
import type { Action, State } from "./state";
import { useNarrow } from "./use-narrow";

const KEPT = "inspector";
/** A press that moved no farther than this is a click. */
const CLICK = 4;
/** Minimum height left for the panel above, in pixels. */
const ABOVE = 120;

/** The inspector opens with the first selected tensor, or with a spike: before, the graph has its room. */
function isOpen({ kept, node }: State, { row }: Choice): boolean {
  return kept[KEPT] === "open" || (kept[KEPT] !== "shut" && (row !== null || node !== null || kept[SPIKE] !== undefined));
}

/** Open the inspector, or shut it. */
export function toggleInspector(state: State, choice: Choice): Action {
  const text = isOpen(state, choice) ? "shut" : choice.row === null ? "open" : "";
  return { do: "keep", name: KEPT, text };
}

export function SplitPane({ children, ...props }: PanelProps & { children: ComponentChildren }) {
  const { state, choice, act } = props;
  const isNarrow = useNarrow();
  const box = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(() => Math.round(Math.min(640, Math.max(360, innerWidth * 0.385))));
  const [height, setHeight] = useState<number | null>(null);
  const is = isOpen(state, choice);
  const turn = (): void => act(toggleInspector(state, choice));
  const title = `${is ? "Close" : "Open"} the inspector (i)`;
  return (
    <div class={`body${is ? "" : " alone"}`} ref={box} style={{ "--panel-width": `${width}px`, "--panel-height": height === null ? "52%" : `${height}px` }}>
      <div class="main-pane">{children}</div>
      {is && !isNarrow && <Splitter width={width} onWidth={setWidth} />}
      {isNarrow && <Handle isOpen={is} title={title} name={choice.node ?? "Inspector"} onTurn={turn}
        height={() => box.current!.querySelector(".inspector")?.clientHeight ?? 0}
        onHeight={(to) => setHeight(Math.max(90, Math.min(box.current!.clientHeight - ABOVE, to)))} />}
      {is && <aside class="inspector" aria-label="Inspector"><InspectorPanel {...props} /></aside>}
      {!isNarrow && <button type="button" class="inspector-toggle" aria-expanded={is} title={title} aria-label="Inspector" onClick={turn}>{is ? "›" : "‹"}</button>}
    </div>
  );
}

interface HandleProps {
  readonly isOpen: boolean;
  readonly title: string;
  readonly name: string;
  height(): number;
  onTurn(): void;
  onHeight(height: number): void;
}

/** The bar between panel and inspector: click to toggle, drag to resize. */
function Handle({ isOpen: is, title, name, height, onTurn, onHeight }: HandleProps) {
  const wasDragged = useRef(false);
  const begin = (event: PointerEvent): void => {
    wasDragged.current = false;
    if (!is) return;
    const bar = event.currentTarget as HTMLElement;
    const [from, before] = [event.clientY, height()];
    bar.setPointerCapture(event.pointerId);
    const move = (moved: PointerEvent): void => {
      wasDragged.current ||= Math.abs(moved.clientY - from) > CLICK;
      if (wasDragged.current) onHeight(before + from - moved.clientY);
    };
    bar.addEventListener("pointermove", move);
    bar.addEventListener("lostpointercapture", () => bar.removeEventListener("pointermove", move), { once: true });
  };
  const key = (event: KeyboardEvent): void => {
    const by = { ArrowUp: 40, ArrowDown: -40 }[event.key];
    if (!by || !is) return;
    event.preventDefault();
    event.stopPropagation();
    onHeight(height() + by);
  };
  return (
    <button type="button" class="inspector-handle" aria-expanded={is} aria-label="Inspector" title={title} onPointerDown={begin} onKeyDown={key}
      onClick={() => wasDragged.current || onTurn()}>
      <span>{name}</span><Icon name={is ? "down" : "up"} />
    </button>
  );
}
