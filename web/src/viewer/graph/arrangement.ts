// The user's arrangement of a graph (open, hidden, pinned, moved) as text for the URL and local storage.

import { fromHash, formatRanges, toHash, parseRanges, type Camera } from "../../graph/address";
import type { State } from "../../graph/state";
import { offsetsOf, offsetsText, type Offsets } from "../../layout/moved-boxes";
import type { GraphView } from "../../lib/wire";
import { initialLayout, type Room } from "./initial-layout";

export interface Arrangement {
  readonly state: State;
  readonly camera: Camera | null;
  /** Numbers of nodes of the view. */
  readonly hidden: ReadonlySet<number>;
  readonly pinned: ReadonlySet<number>;
  /** Boxes that the user moved. */
  readonly offsets: Offsets;
}

function firstText(view: GraphView, room?: Room): string {
  const { depth, direction } = initialLayout(view, room);
  return `depth=${depth}&direction=${direction}`;
}

/** Without selection and search: the URL has the selection elsewhere, and a search is not restored. */
export function toText(view: GraphView, own: Arrangement): string {
  const text = formatArrangement(view, own);
  return text === formatArrangement(view, fromText(view, "")) ? "" : text;
}

function formatArrangement(view: GraphView, { state, camera, hidden, pinned, offsets }: Arrangement): string {
  const { selection: _, second: __, highlight: ___, query: ____, ...lasting } = state;
  const shown = toHash(view, { ...lasting, selection: null, second: null, highlight: "", query: "", color: "", size: "" }, camera);
  // The empty text means the initial layout, which differs from that of a graph of ops.
  const parts = [shown || `direction=${state.direction}`, hidden.size ? `hide=${formatRanges(hidden)}` : "", pinned.size ? `pin=${formatRanges(pinned)}` : "", offsets.size ? `move=${offsetsText(offsets)}` : ""];
  return parts.filter(Boolean).join("&");
}

/** Parse such a text; "" is the initial layout for this size. */
export function fromText(view: GraphView, text: string, room?: Room): Arrangement {
  const params = new URLSearchParams(text);
  const n = view.nodes.row.length;
  return {
    ...fromHash(view, text || firstText(view, room)),
    hidden: parseRanges(params.get("hide") ?? "", n),
    pinned: parseRanges(params.get("pin") ?? "", n),
    offsets: offsetsOf(params.get("move") ?? ""),
  };
}

const STORE = "cutaway:graph:";

/** The text stored for a structure in local storage; "" for none. */
export function loadStored(structure: string): string {
  try {
    return (structure && localStorage.getItem(STORE + structure)) || "";
  } catch {
    return ""; // a browser that keeps nothing
  }
}

export function store(structure: string, text: string): void {
  try {
    if (!structure) return;
    if (text) localStorage.setItem(STORE + structure, text);
    else localStorage.removeItem(STORE + structure);
  } catch {
    // full, or forbidden: it works without
  }
}

/** The prefix ties an arrangement in the URL to one structure. */
export function tagStructure(structure: string, text: string): string {
  return text && `${structure.slice(0, 8)}:${text}`;
}

/** The arrangement of this structure in the address; null if there is none. */
export function untagStructure(structure: string, tagged: string | undefined): string | null {
  const tag = `${structure.slice(0, 8)}:`;
  return tagged?.startsWith(tag) ? tagged.slice(tag.length) : null;
}
