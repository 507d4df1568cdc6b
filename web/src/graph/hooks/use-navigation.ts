// Navigation that the page and the viewer share: go to a box, open a module, step through search matches.

import { useRef } from "preact/hooks";
import type { GraphCanvas } from "../../canvas";
import type { Hit } from "../../lib/search";
import type { GraphView } from "../../lib/wire";
import type { Drawn } from "../decorate";
import type { Move } from "../graph-pane";
import type { Page } from "../context";
import { around, inRun, reduce, type Action, type State } from "../state";
import { visible } from "./use-picture";

interface Held<T> {
  current: T;
}

interface Around {
  readonly view: GraphView;
  readonly state: State;
  readonly drawn: Drawn;
  readonly hits: readonly Hit[];
  readonly canvas: Held<GraphCanvas | null>;
  /** What the camera does when the graph is first drawn. */
  readonly first: Move;
  act(action: Action): void;
}

export interface Moves extends Pick<Page, "go" | "toggle" | "part" | "step" | "fit"> {
  /** What the camera does when the next picture is shown. */
  readonly move: Held<Move>;
  takeMove(): Move;
  /** A chevron was clicked, or a stand-in. */
  open(key: string): void;
  /** The button of a block among identical ones was clicked. */
  partOrNot(key: string): void;
}

export function useMoves({ view, state, drawn, hits, canvas, first, act }: Around): Moves {
  const move = useRef<Move>(first);
  const moves: Moves = {
    move,
    go(key) {
      const isOpen = reduce(view, state, { do: "reveal", key }) === state;
      act({ do: "reveal", key });
      act({ do: "select", key });
      const target = visible(drawn, key);
      if (isOpen && target) canvas.current?.focus(target, { zoom: true, animate: true });
      else move.current = { focus: key };
    },
    toggle(group) {
      move.current = { anchor: `g${group}` };
      act({ do: "toggle", group });
    },
    part(run, is) {
      const first = view.runs[run].groups[0];
      const own = inRun(view, state.selection, run);
      const isSame = own === null || own === `g${first}` || around(view, own).includes(first);
      move.current = isSame ? { anchor: own ?? `g${first}` } : { focus: own };
      act({ do: "apart", run, is });
    },
    step(by) {
      if (!hits.length) return;
      const hit = (Math.max(state.hit, by > 0 ? -1 : 0) + by + hits.length) % hits.length;
      act({ do: "hit", hit });
      moves.go(hits[hit].key);
    },
    fit: () => canvas.current?.fit(undefined, { animate: true }),
    takeMove() {
      const { focus, ...rest } = move.current;
      move.current = {};
      return focus ? { ...rest, focus: visible(drawn, focus) ?? undefined } : rest;
    },
    open(key) {
      const [stoodFor] = drawn.picture.boxes.find((box) => box.key === key)?.stands_for ?? [];
      if (key.startsWith("g")) moves.toggle(Number(key.slice(1)));
      else if (stoodFor) moves.go(stoodFor);
    },
    partOrNot(key) {
      const run = view.groups.run[Number(key.slice(1))];
      moves.part(run, !state.apart.has(run));
    },
  };
  return moves;
}
