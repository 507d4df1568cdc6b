// The dependency graph on the canvas, with its toolbar and legend.

import { useEffect, useMemo, useReducer, useRef, useState } from "preact/hooks";
import { GraphPane } from "../../graph/graph-pane";
import { PageContext, type Page } from "../../graph/context";
import { runner } from "../../graph/commands";
import { reduce, type Action, type State } from "../../graph/state";
import { useKeys } from "../../graph/hooks/use-keys";
import { useMoves } from "../../graph/hooks/use-navigation";
import { useDecorations, useSearch, usePicture, visible } from "../../graph/hooks/use-picture";
import type { GraphCanvas } from "../../canvas";
import type { Host } from "../../lib/host";
import { moveBoxes, movedBy, type Offsets } from "../../layout/moved-boxes";
import { isGradient } from "../../lib/values/quantity";
import { between, adjacency as waysOf } from "../../lib/reachability";
import { nodesOf } from "../../layout/box-of-node";
import type { GraphView, RunGraph } from "../../lib/wire";
import { toText } from "./arrangement";
import { namesOf, renameGroup } from "./layout-overrides";
import { GraphBar } from "./bar";
import { GroupName } from "./group-name";
import { menuItems } from "./menu";
import { toggled } from "../../lib/collections";
import { keyIn, keyOf, nodeAt, recordedAt, selectBox } from "./selection";
import { GraphTooltip } from "./tooltip";
import type { PanelProps } from "../panels/props";
import { Pins } from "./pins";
import { ColorLegend } from "./color-legend";
import { colorBoxes, keyOfCell, withEdges } from "./box-colors";
import { firstArrangement, defaultArrangement, useStoredArrangement, type CarriedArrangement } from "./use-arrangement";
import { useMoveKeys } from "./use-move-keys";
import { useNodeColors } from "./use-node-colors";
import type { LayoutOverrides } from "./use-layout-overrides";

interface Props extends PanelProps {
  readonly graph: RunGraph;
  readonly view: GraphView;
  /** Identifies the graph structure and the user's groups. */
  readonly arrangementKey: string;
  readonly overrides: LayoutOverrides;
  /** Carries the arrangement over when new groups renumber nodes and modules. */
  readonly carried: { current: CarriedArrangement | "nothing" | null };
}

/** More edges than this hide each other, and the boxes. */
const DENSE = 400;
const HOST: Host = { detail: () => Promise.resolve(null) };
/** Commands that the viewer handles itself. */
const NOT_OURS = new Set(["theme", "panel", "help"]);

export function RunGraphPane(props: Props) {
  const { graph, view, choice, isDark } = props;
  const [element, setElement] = useState<HTMLElement | null>(null);
  const canvas = useRef<GraphCanvas | null>(null);
  const first = useMemo(() => firstArrangement(props), [view]);
  const wanted = keyOf(graph, view, choice.node, choice);
  const [state, dispatch] = useReducer<State, Action>((now, action) => reduce(view, now, action), { ...first.state, selection: wanted });
  const [hidden, setHidden] = useState(first.hidden);
  const [pinned, setPinned] = useState(first.pinned);
  const [offsets, setOffsets] = useState(first.offsets);
  const [camera, setCamera] = useState(first.camera);
  const [areEdgesShown, showEdges] = useState(false);
  const [isMoving, setMoving] = useState(false);
  const [naming, setNaming] = useState<string | null>(null);
  const own = { state, hidden, pinned, offsets, camera };
  useStoredArrangement(props, own);

  const ways = useMemo(() => waysOf(view.nodes.row.length, view.edges.parent, view.edges.child), [view]);
  const { drawn, placement: laid } = usePicture(view, state, hidden, graph.loops as [number, number][]);
  const { placement, shift } = useMemo(() => moveBoxes(laid, drawn.picture, offsets), [laid, offsets]);
  const names = useMemo(() => view.nodes.row.map((row) => [graph.nodes[row]?.name, ...(graph.nodes[row]?.sites ?? [])].join("\n")), [graph, view]);
  const { found, hits } = useSearch(view, state.query, names);
  const selected = state.selection === null ? null : visible(drawn, state.selection) ?? state.selection;

  // Memoized in this order because only the colors change from step to step.
  const base = useDecorations(drawn, ways, state, { color: null, size: null, found });
  const isDense = drawn.picture.edges.length > DENSE;
  const isBackward = isGradient(choice.of);
  const edged = useMemo(
    () => withEdges(base, drawn, new Set(isBackward ? graph.no_gradient : []), isDense && !areEdgesShown),
    [base, drawn, graph, isBackward, isDense, areEdgesShown],
  );
  const { coloring, missing, isPinned, help, menu, rows, fit } = useNodeColors(props, { graph, view, isRolled: state.rolled });
  const decorations = useMemo(() => (coloring ? colorBoxes(edged, drawn, coloring) : edged), [edged, drawn, coloring]);
  const hasCells = useMemo(() => [...decorations.boxes.values()].some(({ cells }) => cells !== undefined), [decorations]);

  const act = (action: Action): void => {
    // Selecting a box selects its tensor on the whole page; picking the other end of a path does not.
    if (action.do !== "select" || state.isPicking) return dispatch(action);
    const node = nodeAt(graph, action.key);
    const own = node < 0 ? action.key : state.rolled ? keyIn(graph, view, `n${node}`, choice) : `n${node}`;
    dispatch({ do: "select", key: action.key?.startsWith("n") ? own : action.key });
    const selection = selectBox(graph, view, own, props.state, state.rolled);
    if (selection) props.act(selection);
  };
  const moves = useMoves({ view, state, drawn, hits, canvas, act, first: camera ? { camera } : {} });
  const isFirst = useRef(true);
  useEffect(() => {
    // Follow selections made elsewhere, unless the selected box already shows that tensor, such as a module its result.
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
    view, host: HOST, state, drawn, ways, color: null, size: null, hits, isDark, isCompact: false, act,
    go: moves.go, toggle: moves.toggle, part: moves.part, step: moves.step, fit: moves.fit,
  };
  const nothing = (): void => undefined;
  const perform = runner(page, { canvas: () => canvas.current, element: element!, selected, turn: nothing, help: nothing, panel: nothing });
  useKeys(element, true, (command) => {
    if (command === "clear" && isMoving) {
      setMoving(false);
      return true;
    }
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
    const { shift: then } = moveBoxes(laid, drawn.picture, next);
    if (at) moves.move.current = { camera: { ...at, x: at.x + then[0] - shift[0], y: at.y + then[1] - shift[1] } };
    setOffsets(next);
  };
  useMoveKeys(element, isMoving, (by) => {
    if (!selected || !drawn.picture.boxes.some(({ key }) => key === selected)) return false;
    put(movedBy(offsets, selected, by));
    return true;
  });

  const named = useMemo(() => namesOf(graph, view), [graph, view]);
  const nodesAt = (key: string): readonly number[] => nodesOf(view, drawn.picture, drawn.nodeBoxes, key);
  const override = (overrides: LayoutOverrides["list"]): void => {
    props.carried.current = { own, names: named };
    props.overrides.set(overrides);
  };
  const show = (next: ReadonlySet<number>, isFitted: boolean): void => {
    if (isFitted) moves.move.current = { fit: true };
    setHidden(next);
  };
  const items = (key: string) => {
    const nodes = nodesAt(key);
    const picked = selected !== null && selected !== key ? nodesAt(selected) : [];
    // Include the nodes between them, or the group would not be contiguous and be drawn as two.
    const on = picked.length ? between(ways, picked, nodes) : null;
    const other = on ? [...new Set([...picked, ...drawn.nodeBoxes.nodes.filter((inside) => inside.some((one) => on[one])).flat()])] : [];
    const title = (selected && drawn.picture.boxes.find((box) => box.key === selected)?.lines[0]) ?? "the selection";
    return menuItems(
      { key, nodes, names: nodes.map((one) => named.nodes[one]), selected: other.length ? { names: other.map((one) => named.nodes[one]), title } : null },
      {
        n: view.nodes.row.length, ways, hidden, pinned, isMoved: offsets.has(key), overrides: props.overrides.list,
        hide: show, pin: setPinned, override, rename: setNaming,
        back: () => put(new Map([...offsets].filter(([moveBoxes]) => moveBoxes !== key))),
        move: () => {
          act({ do: "select", key });
          setMoving(true);
        },
      },
    );
  };
  const isArranged = props.overrides.text !== "" || toText(view, { ...own, camera: null }) !== toText(view, defaultArrangement(view));
  const reset = (): void => {
    const fresh = defaultArrangement(view);
    moves.move.current = { fit: true };
    setHidden(fresh.hidden);
    setPinned(fresh.pinned);
    setOffsets(fresh.offsets);
    dispatch({ do: "restore", state: { ...fresh.state, selection: state.selection } });
    if (!props.overrides.text) return;
    props.carried.current = "nothing";
    props.overrides.set([]);
  };
  const node = nodeAt(graph, state.selection);
  return (
    <PageContext.Provider value={page}>
      <div class="run-graph" ref={setElement}>
        <GraphBar color={menu} nHidden={hidden.size} nEdges={isDense ? drawn.picture.edges.length : null}
          areEdgesShown={areEdgesShown} onEdges={showEdges} onShowHidden={() => show(new Set(), true)} onReset={isArranged ? reset : null} />
        {graph.why_missing && <p class="graph-note quiet">{graph.why_missing}</p>}
        <Pins pinned={pinned} view={view} values={coloring?.nodeValues ?? null} selected={state.selection}
          onGo={moves.go} onUnpin={(node) => setPinned(toggled(pinned, node))} />
        <GraphPane drawn={drawn} placement={placement} direction={state.direction} decorations={decorations} selected={selected}
          hasGuide={false} takeMove={moves.takeMove} onReady={(made) => (canvas.current = made)} onCamera={setCamera}
          onOpen={moves.open} onAct={moves.partOrNot}
          onCell={(key, cell) => {
            const target = keyOfCell(drawn, key, cell, coloring?.chosen ?? ((nodes) => nodes));
            if (target) moves.go(target);
          }}
          onSelect={(key, isSecond) => {
            const isPath = isSecond && key !== null && state.selection !== null && !state.isPicking;
            if (isPath) dispatch({ do: "pick" });
            (isPath ? dispatch : act)({ do: "select", key });
          }}
          over={{
            legend: <>
              {isMoving && <div class="hint" role="status">Use the arrow keys to move the box. Press Esc when done.</div>}
              {naming !== null && <GroupName name={naming} onName={(name) => override(renameGroup(props.overrides.list, naming, name))} onClose={() => setNaming(null)} />}
            </>,
            tooltip: (hover) => (
              <GraphTooltip hover={hover} drawn={drawn} look={decorations.boxes.get(hover.key)} coloring={coloring} rows={rows} run={props.run.item.id}
                step={choice.step} client={props.client} resultOf={(key) => nodeAt(graph, key)} />
            ),
            items,
          }} />
        <ColorLegend coloring={coloring} missing={missing} selected={coloring && node >= 0 ? coloring.nodeValues.values[node] : NaN}
          isPinned={isPinned} help={help} hasCells={hasCells} hasLoops={drawn.picture.edges.some(({ parent, child }) => parent >= child)} onFit={fit} />
      </div>
    </PageContext.Provider>
  );
}
