// The props that every panel about a run receives.

import type { RunView } from "../../lib/wire";
import type { Choice } from "../choice";
import type { Client } from "../data/client";
import type { Action, State } from "../state";

/** A run on the page, with the color by which it is known everywhere. */
export interface ShownRun {
  readonly view: RunView;
  /** A CSS color: `var(--run-0)`… */
  readonly color: string;
  /** … and the strokes of its lines, for those who cannot tell colors apart; solid if nothing is said. */
  readonly dash?: readonly number[];
}

export interface PanelProps {
  /** The run that is looked at: that of the last chip that was clicked. */
  readonly run: RunView;
  /** All runs that are on the page, `run` among them, in the order of their chips: for curves. */
  readonly runs: readonly ShownRun[];
  /** What the reader asked for. */
  readonly state: State;
  /** What of it there is in this run: the step, the row… to show. Read this, not the wishes in `state`. */
  readonly choice: Choice;
  readonly act: (action: Action) => void;
  readonly client: Client;
  readonly isDark: boolean;
}
