// The props that every panel about a run receives.

import type { RunView } from "../../lib/wire";
import type { Choice } from "../choice";
import type { Client } from "../data/client";
import type { Action, State } from "../state";

/** A run on the page, with the color by which it is known everywhere. */
export interface ShownRun {
  readonly view: RunView;
  /** A CSS color that no other run on the page has. */
  readonly color: string;
  /** By its place on the page: A for the first. */
  readonly letter: string;
  /** Its name without what the names of all runs on the page share. */
  readonly shortName: string;
}

export interface PanelProps {
  /** The selected run: that of the chip clicked last. */
  readonly run: RunView;
  /** All runs that are on the page, `run` among them, in the order of their chips: for curves. */
  readonly runs: readonly ShownRun[];
  /** What the user selected. */
  readonly state: State;
  /** What this run shows of it: step, row and so on. Read this, not the selections in `state`. */
  readonly choice: Choice;
  readonly act: (action: Action) => void;
  readonly client: Client;
  readonly isDark: boolean;
}
