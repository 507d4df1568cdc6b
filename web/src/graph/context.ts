// The context that all components of the graph page share: view, state, actions.

import { createContext } from "preact";
import { useContext } from "preact/hooks";
import type { Host } from "../lib/host";
import type { Adjacency } from "../lib/reachability";
import type { Hit } from "../lib/search";
import type { GraphView } from "../lib/wire";
import type { BoxMeasure, Drawn } from "./decorate";
import type { Action, State } from "./state";

export interface Page {
  readonly view: GraphView;
  readonly host: Host;
  readonly state: State;
  readonly drawn: Drawn;
  readonly ways: Adjacency;
  readonly color: BoxMeasure | null;
  readonly size: BoxMeasure | null;
  readonly hits: readonly Hit[];
  readonly isDark: boolean;
  readonly isCompact: boolean;
  act(action: Action): void;
  /** Open what is around a box or frame, select it and bring it into view. */
  go(key: string): void;
  /** Fold or open a group, which keeps its place on the screen. */
  toggle(group: number): void;
  /** Show the blocks of a run one by one, or once. */
  part(run: number, is: boolean): void;
  /** Go to the next or previous match. */
  step(by: number): void;
  fit(): void;
}

export const PageContext = createContext<Page | null>(null);

/** The page around a component. */
export function usePage(): Page {
  const page = useContext(PageContext);
  if (!page) throw new Error("usePage() was called outside a graph page");
  return page;
}
