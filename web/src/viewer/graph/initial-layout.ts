// Initial depth and direction of a graph: the deepest that keeps names readable.

import { boxesAtDepths, toDepth, type Direction } from "../../graph/state";
import { folded } from "../../layout/fold";
import { place } from "../../layout/place";
import type { GraphView } from "../../lib/wire";

export interface Room {
  readonly width: number;
  readonly height: number;
}

/** A typical size of the graph beside the inspector. A constant, so that a link shows the same layout on every screen. */
export const USUAL: Room = { width: 930, height: 620 };
/** The graph above the inspector on a narrow page. */
export const NARROW: Room = { width: 560, height: 470 };

/** Maximum number of boxes of the initial layout. */
const MANY = 28;
/** Scale from which names are comfortable to read. */
const EASY = 0.8;

export interface InitialLayout {
  readonly depth: number;
  readonly direction: Direction;
}

const known = new WeakMap<GraphView, Map<Room, InitialLayout>>();

/** Left to right, or top to bottom where that makes names much larger. */
export function initialLayout(view: GraphView, room: Room = USUAL): InitialLayout {
  let looks = known.get(view);
  if (!looks) known.set(view, (looks = new Map()));
  let look = looks.get(room);
  if (!look) looks.set(room, (look = computeInitialLayout(view, room)));
  return look;
}

function computeInitialLayout(view: GraphView, room: Room): InitialLayout {
  const depths = boxesAtDepths(view, view.is_rolled).map((count, at) => ({ count, depth: at + 1 })).filter(({ count }) => count <= MANY);
  for (const { depth } of depths.reverse()) {
    const look = best(view, depth, room);
    if (look.scale >= EASY) return look;
  }
  return best(view, 1, room);
}

function best(view: GraphView, depth: number, room: Room): InitialLayout & { readonly scale: number } {
  const { picture } = folded(view, { open: [...toDepth(view, depth)].sort((a, b) => a - b), rolled: view.is_rolled, apart: [] });
  const at = (direction: Direction): InitialLayout & { readonly scale: number } => {
    const { width, height } = place(picture, direction);
    return { depth, direction, scale: Math.min(1, room.width / width, room.height / height) };
  };
  const right = at("right");
  if (right.scale >= EASY) return right;
  const down = at("down");
  return down.scale > right.scale * 1.15 ? down : right;
}
