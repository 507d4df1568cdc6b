// The tabs of the viewer, in one table. Keys, help, palette, address and header read it: a new tab is its panel file and one line here.
//
// The table is read while modules load, so nothing that a panel imports may import this file (types excepted).

import type { JSX } from "preact";
import type { RunItem, RunView, Topic } from "../lib/wire";
import type { Client } from "./data/client";
import { onTab } from "./data/pages";
import { GraphPanel } from "./graph/panel";
import { CurvesPanel } from "./panels/curves";
import { NetworkPanel } from "./panels/network";
import { NotesPanel } from "./panels/notes";
import { OpsPanel } from "./panels/ops";
import { OverviewPanel } from "./panels/overview";
import { PagesPanel } from "./panels/pages";
import type { PanelProps } from "./panels/props";
import { SplitPane } from "./split-pane";
import type { Action, State } from "./state";

interface Entry {
  /** In the address (`tab=`), and the name of the command that opens the tab. */
  readonly id: string;
  readonly title: string;
  readonly key: string;
}

/** A tab about the selected run. */
export interface RunTab extends Entry {
  /** Whether it has something to show before the first recorded step. */
  readonly needs: "run" | "step";
  /** Which selectors the bar shows: the step, also the tensor, or also the sample. */
  readonly selects: "step" | "tensor" | "sample";
  panel(props: PanelProps): JSX.Element;
}

/** A tab about something else in the folder, whichever run is selected. */
export interface FolderTab extends Entry {
  readonly needs: "trace" | "page";
  /** Of the pages that it lists. */
  readonly topic?: Topic;
  /** Whether the tab is hidden while the folder has nothing for it. */
  readonly isOptional?: boolean;
  panel(props: FolderProps): JSX.Element;
}

export interface FolderProps {
  /** All entries of the folder; null until loaded. */
  readonly items: readonly RunItem[] | null;
  /** The selected run and step; null and -1 for none. */
  readonly run: RunView | null;
  readonly step: number;
  readonly state: State;
  readonly act: (action: Action) => void;
  readonly client: Client;
  readonly isDark: boolean;
  onTheme(): void;
  onHelp(): void;
}

export const TABS = [
  { id: "start", title: "Start", key: "9", needs: "page", topic: "start", isOptional: true, panel: (props): JSX.Element => <PagesPanel topic="start" {...props} /> },
  { id: "tensors", title: "Tensors", key: "1", needs: "step", selects: "sample", panel: (props): JSX.Element => <SplitPane {...props}><GraphPanel {...props} /></SplitPane> },
  { id: "ops", title: "Ops", key: "2", needs: "trace", panel: (props): JSX.Element => <OpsPanel {...props} /> },
  { id: "curves", title: "Curves", key: "3", needs: "run", selects: "tensor", panel: (props): JSX.Element => <CurvesPanel {...props} /> },
  { id: "overview", title: "Overview", key: "4", needs: "step", selects: "sample", panel: (props): JSX.Element => <SplitPane {...props}><OverviewPanel {...props} /></SplitPane> },
  { id: "network", title: "Network", key: "5", needs: "run", selects: "step", panel: (props): JSX.Element => <NetworkPanel {...props} /> },
  { id: "notes", title: "Notes", key: "6", needs: "run", selects: "step", panel: (props): JSX.Element => <NotesPanel {...props} /> },
  { id: "neurons", title: "Neurons", key: "7", needs: "page", topic: "neurons", panel: (props): JSX.Element => <PagesPanel topic="neurons" {...props} /> },
  { id: "language", title: "Language", key: "8", needs: "page", topic: "language", isOptional: true, panel: (props): JSX.Element => <PagesPanel topic="language" {...props} /> },
] as const satisfies readonly (RunTab | FolderTab)[];

/** The id of a tab. */
export type Tab = (typeof TABS)[number]["id"];

export const TAB_IDS: readonly Tab[] = TABS.map(({ id }) => id);

const BY_ID = new Map<Tab, RunTab | FolderTab>(TABS.map((tab) => [tab.id, tab]));

export function tabOf(id: Tab): RunTab | FolderTab {
  return BY_ID.get(id)!;
}

export function isRunTab(tab: RunTab | FolderTab): tab is RunTab {
  return "selects" in tab;
}

/** Whether the folder has something for a tab that is not about a run. */
export function hasContent({ topic }: FolderTab, items: readonly RunItem[]): boolean {
  return topic ? onTab(items, topic).length > 0 : items.some(({ kind }) => kind === "trace");
}

/** The tabs that show what else lies in a folder. */
export function folderTabs(items: readonly RunItem[]): Tab[] {
  return TAB_IDS.filter((id) => {
    const tab = tabOf(id);
    return !isRunTab(tab) && hasContent(tab, items);
  });
}

/** The tabs in the header: an optional one only where it has content or is open. */
export function visibleTabs(items: readonly RunItem[], open: Tab): Tab[] {
  return TAB_IDS.filter((id) => {
    const tab = tabOf(id);
    return isRunTab(tab) || !tab.isOptional || id === open || hasContent(tab, items);
  });
}

/** The initial tab of a folder: its start page. Without one and without runs, the last tab with content, pages before traces. Null for the default tab. */
export function firstTab(items: readonly RunItem[]): Tab | null {
  if (onTab(items, "start").length) return "start";
  return items.some(({ kind }) => kind === "run") ? null : folderTabs(items).at(-1) ?? null;
}
