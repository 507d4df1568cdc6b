// The reader's own arrangement of a graph, where it comes from and where it is kept.

import { useEffect } from "preact/hooks";
import type { Camera } from "../app/hash";
import type { GraphView, RunGraph } from "../lib/wire";
import { fromText, store, stored, tagged, toText, untagged, type Arrangement } from "./arrangement";
import type { PanelProps } from "./panels";

type Around = Pick<PanelProps, "state" | "act"> & { readonly graph: RunGraph; readonly view: GraphView };

/** Where the reader last looked, by structure, for as long as the page is open. */
const cameras = new Map<string, Camera>();

/** The reader's arrangement of this structure: from the address, else from what this browser keeps. */
export function firstArrangement({ graph: { structure }, view, state }: Around): Arrangement {
  const found = fromText(view, untagged(structure, state.kept.graph) ?? stored(structure));
  return { ...found, camera: found.camera ?? cameras.get(structure) ?? null };
}

/** Keeps it in both. */
export function useKept({ graph: { structure }, view, state, act }: Around, own: Arrangement): void {
  const { open, apart, rolled, direction } = own.state;
  const { hidden, pinned, offsets, camera } = own;
  useEffect(() => {
    if (camera) cameras.set(structure, camera);
    const timer = setTimeout(() => {
      store(structure, toText(view, { ...own, camera: null }));
      const text = tagged(structure, toText(view, own));
      if (text !== (state.kept.graph ?? "")) act({ do: "keep", name: "graph", text });
    }, 300);
    return () => clearTimeout(timer);
  }, [open, apart, rolled, direction, hidden, pinned, offsets, camera]);
}
