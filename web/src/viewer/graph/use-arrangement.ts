// Hook for the user's arrangement of a graph: loads and stores it.

import { useEffect } from "preact/hooks";
import type { Camera } from "../../graph/address";
import type { GraphView, RunGraph } from "../../lib/wire";
import { fromText, store, loadStored, tagStructure, toText, untagStructure, type Arrangement } from "./arrangement";
import { NARROW, USUAL } from "./initial-layout";
import { namesOf, renumber, type Names } from "./layout-overrides";
import type { PanelProps } from "../panels/props";

/** An arrangement to carry over to the same graph with other groups, which renumber everything. */
export interface CarriedArrangement {
  readonly own: Arrangement;
  readonly names: Names;
}

type Around = Pick<PanelProps, "state" | "act"> & {
  readonly graph: RunGraph;
  readonly view: GraphView;
  /** Identifies the graph structure and the user's groups. */
  readonly arrangementKey: string;
  /** "nothing" forces the initial layout, whatever is stored. */
  readonly carried: { current: CarriedArrangement | "nothing" | null };
};

/** On a narrower page the inspector is below the graph. */
const NARROW_PAGE = 700;

/** The last camera by structure, while the page is open. */
const cameras = new Map<string, Camera>();

/** The initial arrangement. */
export function defaultArrangement(view: GraphView): Arrangement {
  return fromText(view, "", innerWidth < NARROW_PAGE ? NARROW : USUAL);
}

/** The user's arrangement of this structure: from the URL, else from local storage. */
export function firstArrangement({ graph, arrangementKey: spot, view, state, carried }: Around): Arrangement {
  const brought = carried.current;
  carried.current = null;
  if (brought === "nothing") return defaultArrangement(view);
  if (brought) return renumberArrangement(brought, namesOf(graph, view), view);
  const text = untagStructure(spot, state.kept.graph) ?? loadStored(spot);
  const found = text ? fromText(view, text) : defaultArrangement(view);
  return { ...found, camera: found.camera ?? cameras.get(spot) ?? null };
}

/** The same arrangement by other numbers; new groups are open. */
function renumberArrangement({ own, names }: CarriedArrangement, to: Names, view: GraphView): Arrangement {
  const open = renumber(own.state.open, names.groups, to.groups);
  open.add(0);
  to.groups.forEach((label, group) => {
    if (group && view.groups.parent[group] === 0 && !names.groups.includes(label)) open.add(group);
  });
  const fresh = defaultArrangement(view);
  return {
    camera: null, offsets: new Map(),
    state: { ...fresh.state, open, rolled: own.state.rolled, direction: own.state.direction },
    hidden: renumber(own.hidden, names.nodes, to.nodes),
    pinned: renumber(own.pinned, names.nodes, to.nodes),
  };
}

/** Stores it in the URL and in local storage. */
export function useStoredArrangement({ arrangementKey: spot, view, state, act }: Around, own: Arrangement): void {
  const { open, apart, rolled, direction } = own.state;
  const { hidden, pinned, offsets, camera } = own;
  useEffect(() => {
    if (camera) cameras.set(spot, camera);
    const timer = setTimeout(() => {
      store(spot, toText(view, { ...own, camera: null }));
      const text = tagStructure(spot, toText(view, own));
      if (text !== (state.kept.graph ?? "")) act({ do: "keep", name: "graph", text });
    }, 300);
    return () => clearTimeout(timer);
  }, [open, apart, rolled, direction, hidden, pinned, offsets, camera]);
}
