// The interactive graph of one view: canvas, bars, inspector, and how they work together.

import { useMemo, useReducer, useRef, useState } from "preact/hooks";
import type { GraphCanvas } from "../canvas";
import type { Host } from "../lib/host";
import { adjacency as waysOf } from "../lib/reachability";
import type { GraphView } from "../lib/wire";
import "../style/index.css";
import { GraphPane } from "./graph-pane";
import { fromHash, type Camera } from "./address";
import { ErrorBanner, Header } from "./header";
import { Help } from "./help";
import { Inspector } from "./inspector/inspector";
import { PageContext, type Page } from "./context";
import { runner } from "./commands";
import { Splitter } from "./splitter";
import { initial, reduce, type Action, type State } from "./state";
import { Toolbar } from "./toolbar";
import { useAddress, useFrame, type Frame } from "./hooks/use-address";
import { useKeys } from "./hooks/use-keys";
import { useMoves } from "./hooks/use-navigation";
import { useBoxMeasure, useDecorations, useSearch, usePicture, visible } from "./hooks/use-picture";
import { useTheme } from "./hooks/use-theme";

interface Props {
  readonly view: GraphView;
  readonly host: Host;
  /** In a cell of a notebook: less room, and the address of the page is not ours. */
  readonly compact?: boolean;
  /** What is around it, where it is a part of a larger page that has an address and help of its own. */
  readonly frame?: Frame;
}

/** Waits until the element is mounted: its place decides whether the URL is read. */
export function App({ view, host, compact, frame }: Props) {
  const [element, setElement] = useState<HTMLElement | null>(null);
  // A new view, as when a notebook cell runs again, resets the state.
  const seen = useRef({ view, n: 0 });
  if (seen.current.view !== view) seen.current = { view, n: seen.current.n + 1 };
  const isCompact = compact ?? (element !== null && element.closest(".cutaway-notebook") !== null);
  // JupyterLab has its own shortcuts, one of which (d, d) deletes a cell.
  return (
    <div class={`app${isCompact ? " compact" : ""}`} ref={setElement} tabIndex={-1}
      data-lm-suppress-shortcuts={isCompact ? "true" : undefined}>
      {element && <AppContent view={view} host={host} isCompact={isCompact} element={element} frame={frame} key={seen.current.n} />}
    </div>
  );
}

function AppContent({ view, host, isCompact, element, frame }: Props & { isCompact: boolean; element: HTMLElement }) {
  // Several pictures on one page would overwrite each other's URL.
  const hasAddress = !isCompact && element.closest("[role=tabpanel]") === null;
  const address = hasAddress ? location.hash : frame?.address;
  const first = useMemo(() => (address === undefined ? { state: initial(view), camera: null } : fromHash(view, address)), [view]);
  const [state, act] = useReducer<State, Action>((now, action) => reduce(view, now, action), first.state);
  const canvas = useRef<GraphCanvas | null>(null);
  const [camera, setCamera] = useState<Camera | null>(first.camera);
  const [isHelpOpen, setHelp] = useState(false);
  // In a small window the inspector opens with the first selection; once the user opens or closes it, it stays so.
  const [panel, setPanel] = useState<boolean | "with selection">(!isCompact && element.clientWidth > 700 ? true : "with selection");
  const isPanelOpen = panel === true || (panel !== false && state.selection !== null);
  const [width, setWidth] = useState(Math.min(440, Math.max(320, element.clientWidth * 0.3)));
  const { isDark, turn } = useTheme(element);

  const ways = useMemo(() => waysOf(view.nodes.row.length, view.edges.parent, view.edges.child), [view]);
  const { drawn, placement } = usePicture(view, state);
  const { found, hits } = useSearch(view, state.query);
  const color = useBoxMeasure(drawn, state.color, isDark);
  const size = useBoxMeasure(drawn, state.size, isDark);
  const decorations = useDecorations(drawn, ways, state, { color, size, found });
  const selected = state.selection === null ? null : visible(drawn, state.selection) ?? state.selection;
  const restore = (to: { state: State; camera: Camera | null }): void => {
    moves.move.current = { camera: to.camera };
    act({ do: "restore", state: to.state });
  };
  useAddress(view, { state, camera }, hasAddress, restore);
  useFrame(view, { state, camera }, frame, restore);

  const moves = useMoves({ view, state, drawn, hits, canvas, act, first: first.camera ? { camera: first.camera } : { focus: first.state.selection ?? undefined } });
  const page: Page = {
    view, host, state, drawn, ways, color, size, hits, isDark, isCompact, act,
    go: moves.go, toggle: moves.toggle, part: moves.part, step: moves.step, fit: moves.fit,
  };
  const run = runner(page, {
    canvas: () => canvas.current, element, selected, turn: frame?.onTheme ?? turn,
    help: frame?.onHelp ?? (() => setHelp(!isHelpOpen)), panel: () => setPanel(!isPanelOpen),
  });
  useKeys(element, !isCompact, run);

  return (
    <PageContext.Provider value={page}>
      <Header onTheme={turn} onHelp={() => setHelp(true)} onPanel={() => setPanel(!isPanelOpen)} isPanelOpen={isPanelOpen} />
      <ErrorBanner />
      <Toolbar />
      <div class={`body${isPanelOpen ? "" : " alone"}`} style={{ "--panel-width": `${width}px` }}>
        <GraphPane drawn={drawn} placement={placement} direction={state.direction} decorations={decorations} selected={selected}
          hasGuide={isPanelOpen && state.selection === null} takeMove={moves.takeMove}
          onReady={(made) => (canvas.current = made)} onCamera={setCamera} onOpen={moves.open} onAct={moves.partOrNot}
          onSelect={(key, isSecond) => {
            if (isSecond && key !== null && state.selection !== null && !state.isPicking) act({ do: "pick" });
            act({ do: "select", key });
          }} />
        {isPanelOpen && <Splitter width={width} onWidth={setWidth} />}
        {isPanelOpen && <aside class="inspector" aria-label="Inspector"><Inspector /></aside>}
      </div>
      {isHelpOpen && <Help onClose={() => setHelp(false)} />}
    </PageContext.Provider>
  );
}
