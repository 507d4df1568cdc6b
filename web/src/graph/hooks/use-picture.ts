// From state to picture: fold, place, decorate. Each step is memoized on what it reads.

import { useMemo, useRef } from "preact/hooks";
import type { Decorations } from "../../canvas";
import { folded } from "../../layout/fold";
import { withoutHidden } from "../../layout/hidden-boxes";
import { withFeedbackEdges } from "../../layout/back-links";
import { place, placeCache, type Placement } from "../../layout/place";
import { ancestors, between, descendants, type NodeMask, type Adjacency } from "../../lib/reachability";
import { hits as listed, search, searchIndex, type Found, type Hit } from "../../lib/search";
import { nodesOf, nodeBoxes } from "../../layout/box-of-node";
import { Representatives } from "../../layout/representatives";
import type { GraphView } from "../../lib/wire";
import { boxMeasure, decorations, type BoxMeasure, type Drawn } from "../decorate";
import { drawnAs, foldOf, type State } from "../state";

const NONE: ReadonlySet<number> = new Set();

/** Parent and child, by node. */
type Loops = readonly (readonly [number, number])[];

/** The picture and its placement; `hidden` are nodes to leave out, `loops` are feedback links. */
export function usePicture(
  view: GraphView, { open, rolled, apart, direction }: State, hidden: ReadonlySet<number> = NONE, loops: Loops | null = null,
): { drawn: Drawn; placement: Placement } {
  const drawn = useMemo((): Drawn => {
    const fold = foldOf({ open, rolled, apart });
    const whole = folded(view, fold);
    const { picture, box } = withoutHidden(loops ? withFeedbackEdges(whole, loops) : whole, hidden);
    return { view, fold, picture, nodeBoxes: nodeBoxes(picture, box), representatives: new Representatives(view, fold) };
  }, [view, open, rolled, apart, hidden, loops]);
  const cache = useRef(placeCache());
  const placement = useMemo(() => place(drawn.picture, direction, cache.current), [drawn, direction]);
  return { drawn, placement };
}

/** What fits the query; `names` are further names of the nodes. */
export function useSearch(view: GraphView, query: string, names?: readonly string[]): { found: Found | null; hits: readonly Hit[] } {
  const index = useMemo(() => searchIndex(view, names), [view, names]);
  return useMemo(() => {
    if (!query.trim()) return { found: null, hits: [] };
    const found = search(index, query);
    return { found, hits: listed(view, found, query) };
  }, [view, index, query]);
}

/** A measure on the boxes that are shown; null for none of that name. */
export function useBoxMeasure(drawn: Drawn, name: string, isDark: boolean): BoxMeasure | null {
  return useMemo(() => {
    const measure = drawn.view.measures.find((known) => known.name === name);
    return measure ? boxMeasure(drawn, measure, isDark) : null;
  }, [drawn, name, isDark]);
}

/** The nodes to highlight: ancestors, descendants or paths of the selection; null for no highlight. */
function highlightedNodes(drawn: Drawn, ways: Adjacency, { highlight, selection, second }: State): NodeMask | null {
  if (!highlight || selection === null) return null;
  const of = (key: string): readonly number[] => nodesOf(drawn.view, drawn.picture, drawn.nodeBoxes, key);
  if (highlight === "paths") return second === null ? null : between(ways, of(selection), of(second));
  return highlight === "ancestors" ? ancestors(ways, of(selection)) : descendants(ways, of(selection));
}

interface Asking {
  readonly color: BoxMeasure | null;
  readonly size: BoxMeasure | null;
  readonly found: Found | null;
}

/** The looks of all boxes. */
export function useDecorations(drawn: Drawn, ways: Adjacency, state: State, asked: Asking): Decorations {
  const { highlight, selection, second } = state;
  const reached = useMemo(() => highlightedNodes(drawn, ways, state), [drawn, ways, highlight, selection, second]);
  const { color, size, found } = asked;
  return useMemo(() => {
    return decorations(drawn, { color, size, reached, found, second: second && visible(drawn, second) });
  }, [drawn, color, size, reached, found, second]);
}

/** The visible box or frame of a key: itself, or the folded module that contains it. */
export function visible({ view, picture, nodeBoxes, representatives }: Drawn, key: string): string | null {
  const own = drawnAs(representatives, key);
  if (picture.boxes.some((box) => box.key === own) || picture.frames.some((frame) => frame.key === own)) return own;
  const node = key.startsWith("g") ? view.groups.first[Number(key.slice(1))] : Number(key.slice(1));
  const box = nodeBoxes.box[node] ?? -1;
  return box >= 0 ? picture.boxes[box].key : null;
}
