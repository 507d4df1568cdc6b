// One dependency graph on the canvas, with the bar over it and the legend in its corner.

import { useEffect, useMemo, useReducer, useRef, useState } from "preact/hooks";
import type { Item } from "../app/context-menu";
import { GraphPane } from "../app/graph-pane";
import { PageContext, type Page } from "../app/page";
import { runner } from "../app/running";
import { reduce, type Action, type State } from "../app/state";
import { useKeys } from "../app/use-keys";
import { useMoves } from "../app/use-moves";
import { useDecorations, useFound, usePicture, visible } from "../app/use-picture";
import type { GraphCanvas } from "../canvas";
import type { Host } from "../lib/host";
import { moved, pushed, type Offsets } from "../lib/moving";
import { ways as waysOf } from "../lib/reach";
import { nodesOf } from "../lib/shown";
import type { GraphView, RunGraph } from "../lib/wire";
import { GraphBar } from "./graph-bar";
import { keyIn, keyOf, nodeAt, recordedAt, selecting } from "./graph-selection";
import { GraphTooltip } from "./graph-tooltip";
import type { PanelProps } from "./panels";
import { Pins } from "./pins";
import { TintLegend } from "./tint-legend";
import { tinted, withEdges } from "./tinted";
import { firstArrangement, useKept } from "./use-arrangement";
import { usePushes } from "./use-pushes";
import { useTinting } from "./use-tinting";

interface Props extends PanelProps {
  readonly graph: RunGraph;
  readonly view: GraphView;
}

/** More edges than this hide each other, and the boxes. */
const DENSE = 400;
const HOST: Host = { detail: () => Promise.resolve(null) };
/** What the viewer around the graph does itself. */
const NOT_OURS = new Set(["theme", "panel", "help"]);

export function RunGraphPane(props: Props) {
  const { graph, view, choice, isDark } = props;
  const [element, setElement] = useState<HTMLElement | null>(null);
  const canvas = useRef<GraphCanvas | null>(null);
  const first = useMemo(() => firstArrangement(props), [view]);
  const wanted = keyOf(graph, view, choice.node, choice.iteration);
  const [state, dispatch] = useReducer<State, Action>((now, action) => reduce(view, now, action), { ...first.state, selection: wanted });
  const [hidden, setHidden] = useState(first.hidden);
  const [pinned, setPinned] = useState(first.pinned);
  const [offsets, setOffsets] = useState(first.offsets);
  const [camera, setCamera] = useState(first.camera);
  const [areEdgesShown, showEdges] = useState(false);
  useKept(props, { state, hidden, pinned, offsets, camera });

  const ways = useMemo(() => waysOf(view.nodes.row.length, view.edges.parent, view.edges.child), [view]);
  const { drawn, placement: laid } = usePicture(view, state, hidden);
  const { placement, shift } = useMemo(() => moved(laid, drawn.picture, offsets), [laid, offsets]);
  const names = useMemo(() => view.nodes.row.map((row) => [graph.nodes[row]?.name, ...(graph.nodes[row]?.sites ?? [])].join("\n")), [graph, view]);
  const { found, hits } = useFound(view, state.query, names);
  const selected = state.selection === null ? null : visible(drawn, state.selection) ?? state.selection;

  // What hangs together first, then edges, then colours: only the last changes from step to step.
  const base = useDecorations(drawn, ways, state, { colour: null, size: null, found });
  const isDense = drawn.picture.edges.length > DENSE;
  const isGradient = choice.of.startsWith("grad");
  const edged = useMemo(
    () => withEdges(base, drawn, new Set(isGradient ? graph.no_gradient : []), isDense && !areEdgesShown),
    [base, drawn, graph, isGradient, isDense, areEdgesShown],
  );
  const { tinting, missing, isWide, menu, fit } = useTinting(props, { graph, view, isRolled: state.rolled });
  const decorations = useMemo(() => (tinting ? tinted(edged, drawn, tinting) : edged), [edged, drawn, tinting]);

  const act = (action: Action): void => {
    // Whoever selects a box selects its tensor on the whole page; the other end of a path is only looked at.
    if (action.do !== "select" || state.isPicking) return dispatch(action);
    const node = nodeAt(graph, action.key);
    const own = node < 0 ? action.key : state.rolled ? keyIn(graph, view, `n${node}`, choice.iteration) : `n${node}`;
    dispatch({ do: "select", key: action.key?.startsWith("n") ? own : action.key });
    const told = selecting(graph, view, own, props.state);
    if (told) props.act(told);
  };
  const moves = useMoves({ view, state, drawn, hits, canvas, act, first: camera ? { camera } : {} });
  const isFirst = useRef(true);
  useEffect(() => {
    // What was selected elsewhere is selected here, unless it is what is selected: a module, say, for its result.
    const isSame = wanted === null ? state.selection === null || recordedAt(graph, view, state.selection) === null
      : recordedAt(graph, view, state.selection) === recordedAt(graph, view, wanted);
    if (!isSame) {
      dispatch({ do: "select", key: wanted });
      const target = wanted && visible(drawn, wanted);
      if (target && !isFirst.current) canvas.current?.focus(target, { animate: true });
    }
    isFirst.current = false;
  }, [wanted]);

  const page: Page = {
    view, host: HOST, state, drawn, ways, colour: null, size: null, hits, isDark, isCompact: false, act,
    go: moves.go, toggle: moves.toggle, part: moves.part, step: moves.step, fit: moves.fit,
  };
  const nothing = (): void => undefined;
  const perform = runner(page, { canvas: () => canvas.current, element: element!, selected, turn: nothing, help: nothing, panel: nothing });
  useKeys(element, true, (command) => {
    if (command === "clear" && !state.isPicking && !state.highlight && !state.query) {
      if (state.selection === null) return false;
      act({ do: "select", key: null });
      return true;
    }
    return !NOT_OURS.has(command) && perform(command);
  });

  /** Everything else keeps its place on the screen. */
  const put = (next: Offsets): void => {
    const at = canvas.current?.camera;
    const { shift: then } = moved(laid, drawn.picture, next);
    if (at) moves.move.current = { camera: { ...at, x: at.x + then[0] - shift[0], y: at.y + then[1] - shift[1] } };
    setOffsets(next);
  };
  usePushes(element, (by) => {
    if (!selected || !drawn.picture.boxes.some(({ key }) => key === selected)) return false;
    put(pushed(offsets, selected, by));
    return true;
  });

  const items = (key: string): Item[] => {
    const nodes = nodesOf(view, drawn.picture, drawn.shown, key);
    const node = Number(key.slice(1));
    return [
      ...(offsets.has(key) ? [{ text: "Back to its place", run: () => put(new Map([...offsets].filter(([other]) => other !== key))) }] : []),
      { text: "Hide", run: () => setHidden(new Set([...hidden, ...nodes])) },
      ...(key.startsWith("n") ? [{ text: pinned.has(node) ? "Unpin" : "Pin: keep its number in view", run: () => setPinned(toggled(pinned, node)) }] : []),
    ];
  };
  const showHidden = (): void => {
    moves.move.current = { fit: true };
    setHidden(new Set());
  };
  const node = nodeAt(graph, state.selection);
  return (
    <PageContext.Provider value={page}>
      <div class="run-graph" ref={setElement}>
        <GraphBar colour={menu} nHidden={hidden.size} nEdges={isDense ? drawn.picture.edges.length : null}
          areEdgesShown={areEdgesShown} onEdges={showEdges} onShowHidden={showHidden} />
        {graph.why_missing && <p class="graph-note quiet">{graph.why_missing}</p>}
        <Pins pinned={pinned} view={view} tints={tinting?.tints ?? null} selected={state.selection}
          onGo={moves.go} onUnpin={(node) => setPinned(toggled(pinned, node))} />
        <GraphPane drawn={drawn} placement={placement} direction={state.direction} decorations={decorations} selected={selected}
          hasGuide={false} takeMove={moves.takeMove} onReady={(made) => (canvas.current = made)} onCamera={setCamera}
          onOpen={moves.open} onAct={moves.partOrNot}
          onSelect={(key, isSecond) => {
            const isPath = isSecond && key !== null && state.selection !== null && !state.isPicking;
            if (isPath) dispatch({ do: "pick" });
            (isPath ? dispatch : act)({ do: "select", key });
          }}
          over={{
            legend: (
              <TintLegend tinting={tinting} missing={missing} selected={tinting && node >= 0 ? tinting.tints.values[node] : NaN}
                isWide={isWide} onFit={fit} />
            ),
            tooltip: (hover) => <GraphTooltip hover={hover} drawn={drawn} tinting={tinting} />,
            items,
          }} />
      </div>
    </PageContext.Provider>
  );
}

function toggled(set: ReadonlySet<number>, value: number): ReadonlySet<number> {
  const out = new Set(set);
  if (!out.delete(value)) out.add(value);
  return out;
}
