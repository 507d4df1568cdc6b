// The canvas as a component: passes pictures, decorations and the selection in, and events out.

import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { GraphCanvas, type Camera, type Decorations } from "../canvas";
import type { Placement } from "../canvas/types";
import { Breadcrumbs } from "./breadcrumbs";
import { ContextMenu, type Item, type MenuPlace } from "./context-menu";
import type { Drawn } from "./decorate";
import { Legend } from "./legend";
import { usePage } from "./context";
import type { Direction } from "./state";
import { Tooltip, type Hover } from "./tooltip";

/** What the camera does when the next picture is shown. */
export interface Move {
  /** Keeps its place on the screen. */
  readonly anchor?: string;
  /** Is brought into view. */
  readonly focus?: string;
  readonly camera?: Camera | null;
  readonly fit?: boolean;
}

/** Replacements for the default overlays. */
export interface GraphOverrides {
  readonly legend: ComponentChildren;
  tooltip(hover: Hover): ComponentChildren;
  /** Additional items of the context menu. */
  items(key: string): readonly Item[];
}

interface Props {
  readonly drawn: Drawn;
  readonly placement: Placement;
  readonly direction: Direction;
  readonly decorations: Decorations;
  /** Key of the box or frame that is selected, as drawn. */
  readonly selected: string | null;
  /** Whether the inspector shows the legend already. */
  readonly hasGuide: boolean;
  readonly over?: GraphOverrides;
  /** Read once, by the next picture. */
  takeMove(): Move;
  onReady(canvas: GraphCanvas): void;
  onSelect(key: string | null, isSecond: boolean): void;
  onOpen(key: string): void;
  /** The button of a block among identical ones. */
  onAct(key: string): void;
  /** A cell of a box that stands for several blocks. */
  onCell?(key: string, cell: number): void;
  onCamera(camera: Camera): void;
}

export function GraphPane(props: Props) {
  const { view, isCompact, state, color, size } = usePage();
  const host = useRef<HTMLDivElement>(null);
  const canvas = useRef<GraphCanvas | null>(null);
  const isFirst = useRef(true);
  const latest = useRef(props);
  latest.current = props;
  const [hover, setHover] = useState<Hover | null>(null);
  const [menu, setMenu] = useState<MenuPlace | null>(null);
  const [middle, setMiddle] = useState<string | null>(null);
  const settled = useRef(0);
  const isTouched = useRef(false);
  useLayoutEffect(() => {
    const made = new GraphCanvas(host.current!, {
      label: `Graph of ${view.title}`, minimap: true, wheelZooms: false, covered: () => legends(host.current),
      on: {
        select: (key, event) => latest.current.onSelect(key, event.shiftKey),
        open: (key) => latest.current.onOpen(key),
        act: (key) => latest.current.onAct(key),
        cell: (key, cell) => latest.current.onCell?.(key, cell),
        hover: (key, at) => setHover(key === null ? null : { key, ...at, width: host.current!.clientWidth, height: host.current!.clientHeight }),
        menu: (key, event) => {
          const { left, top } = host.current!.getBoundingClientRect();
          setHover(null);
          setMenu(key === null || key === "" ? null : { key, x: event.clientX - left, y: event.clientY - top });
        },
        view: (camera) => {
          setHover(null);
          setMenu(null);
          clearTimeout(settled.current);
          settled.current = window.setTimeout(() => {
            if (isTouched.current) latest.current.onCamera(camera);
            setMiddle(inMiddle(made, host.current, latest.current.drawn));
          }, 200);
        },
      },
    });
    canvas.current = made;
    latest.current.onReady(made);
    return () => {
      clearTimeout(settled.current);
      made.destroy();
    };
  }, [view]);
  const { drawn, placement, direction, decorations, selected, over } = props;
  const decorated = useRef<Decorations | null>(null);
  useLayoutEffect(() => {
    const { anchor, focus, camera, fit } = latest.current.takeMove();
    decorated.current = decorations;
    const animate = !isFirst.current;
    const scene = { picture: drawn.picture, placement, decorations, direction };
    canvas.current?.show(scene, { animate, anchor, camera: camera ?? undefined });
    if (fit) canvas.current?.fit(undefined, { animate });
    if (focus) canvas.current?.focus(focus, { zoom: true, animate });
    isFirst.current = false;
  }, [placement]);
  useLayoutEffect(() => {
    if (decorated.current !== decorations) canvas.current?.decorate(decorations);
    decorated.current = decorations;
  }, [decorations]);
  useEffect(() => canvas.current?.select(selected), [selected, placement]);
  const touch = (): void => void (isTouched.current = true);
  useEffect(() => {
    if (!over) return undefined;
    addEventListener("keydown", touch, true);
    return () => removeEventListener("keydown", touch, true);
  }, [over === undefined]);
  const wheel = (event: WheelEvent): void => {
    // In a notebook the wheel scrolls the page; it zooms the graph only after a click into it.
    if (isCompact && !event.ctrlKey && !event.metaKey && !hasFocus(host.current)) event.stopPropagation();
    else touch();
  };
  return (
    <section class="graph" onPointerDownCapture={touch} onWheelCapture={wheel}>
      <Breadcrumbs middle={middle} />
      <div class="stage">
        <div class="graph-canvas" ref={host} />
        {over ? over.legend : (color || size || !props.hasGuide) && !(isCompact && !color && !size) && <Legend hasKinds={!props.hasGuide && !isCompact} />}
        {drawn.picture.boxes.length === 0 && <div class="empty">No ops recorded: nothing to draw.</div>}
        {state.isPicking && <div class="hint" role="status">Click the other end of the path, or press Esc.</div>}
        {hover && !menu && (over ? over.tooltip(hover) : <Tooltip hover={hover} />)}
        {menu && <ContextMenu at={menu} more={over?.items(menu.key)} onClose={() => setMenu(null)} />}
      </div>
    </section>
  );
}

/** The legend grows when its values have loaded. */
const LEGEND = 118;

/** Overlays on the graph, relative to its corner. */
function legends(host: HTMLElement | null): { x: number; y: number; width: number; height: number }[] {
  if (!host) return [];
  const corner = host.getBoundingClientRect();
  return [...host.parentElement!.querySelectorAll(".legend")].map((legend) => {
    const { left, bottom, width, height } = legend.getBoundingClientRect();
    const tall = Math.max(height, LEGEND);
    return { x: left - corner.left, y: bottom - tall - corner.top, width, height: tall };
  });
}

function hasFocus(host: HTMLElement | null): boolean {
  const { activeElement } = (host?.getRootNode() ?? document) as Document | ShadowRoot;
  return activeElement !== null && (host?.closest(".app")?.contains(activeElement) ?? false);
}

/** The innermost frame around the middle of the screen. */
function inMiddle(canvas: GraphCanvas, host: HTMLElement | null, drawn: Drawn): string | null {
  if (!host) return null;
  const [x, y] = [host.clientWidth / 2, host.clientHeight / 2];
  let found: string | null = null;
  // Inner frames come after outer ones, so the last hit is the innermost.
  for (const { key } of drawn.picture.frames.slice(1)) {
    const box = canvas.rect(key);
    if (box && box.x <= x && x <= box.x + box.width && box.y <= y && y <= box.y + box.height) found = key;
  }
  return found;
}
