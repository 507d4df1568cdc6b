// The viewer: header, selectors, tabs, timeline, palette and help around the panels.

import { useEffect, useLayoutEffect, useMemo, useReducer, useRef, useState } from "preact/hooks";
import { takesKeys } from "../graph/keyboard";
import { useTheme } from "../graph/hooks/use-theme";
import type { RunView } from "../lib/wire";
import "../style/index.css";
import "../style/viewer/index.css";
import "../style/viewer/bars.css";
import "../style/viewer/panels.css";
import "../style/viewer/narrow.css";
import { fromHash, useAddress } from "./address";
import { foldersQuery, matrixQuery, samplesQuery, tensorQuery, type Paint } from "./data/api";
import { toggleInspector } from "./split-pane";
import { choose, stepBy, type Choice } from "./choice";
import type { Client } from "./data/client";
import { Header } from "./header";
import { ViewerHelp } from "./help";
import { Failure, Hint } from "./hint";
import { paintOf } from "./inspector/paint";
import { commandOf, type Command } from "./keys";
import { makePerfMarks } from "./perf-marks";
import { Palette } from "./palette";
import type { PanelProps } from "./panels/props";
import { makeHoverSync } from "./hover-sync";
import { Toast, useToast } from "./toast";
import { perform, type CommandContext } from "./commands";
import { Selectors } from "./selectors";
import { spanOf } from "./charts/step-slider";
import { reduce, type Action, type State } from "./state";
import { Timeline } from "./charts/timeline";
import { TabPanel } from "./panels/tab-panel";
import { firstTab, folderTabs, isRunTab, TAB_IDS, tabOf, visibleTabs, type FolderProps, type Tab } from "./tabs";
import { useQuery } from "./data/use-query";
import { useRuns } from "./data/use-runs";
import { BAR } from "./filters/address";
import { FilterBar } from "./filters/bar";
import { useFilter } from "./filters/use-filter";
import { useTimelineSpikes } from "./spike/use-timeline-spikes";

const THEME = "cutaway.theme";

export function Viewer({ client }: { client: Client }) {
  const [element, setElement] = useState<HTMLElement | null>(null);
  return (
    <div class="viewer" ref={setElement} tabIndex={-1}>
      {element && <ViewerContent client={client} element={element} />}
    </div>
  );
}

function ViewerContent({ client, element }: { client: Client; element: HTMLElement }) {
  const [state, dispatch] = useReducer<State, Action, null>(reduce, null, () => fromHash(location.hash));
  const [open, setOpen] = useState<"palette" | "help" | null>(null);
  const { isDark, turn } = useStoredTheme(element);
  const perfMarks = useMemo(() => makePerfMarks(client), [client]);
  useEffect(() => () => perfMarks.end(), [perfMarks]);
  const known = useRuns(client, state);
  const { run, runs, items, shown, active } = known;

  const newest = useRef({ state, known });
  newest.current = { state, known };
  const act = useMemo(() => (action: Action): void => {
    if (action.do !== "keep") perfMarks.selected();
    const { state: now, known: { run: of, shown: on, active: at } } = newest.current;
    // Pin the shown runs, so that new runs in the folder do not change the page.
    if (!now.runs.length && on.length && action.do !== "restore") dispatch({ do: "stay", runs: on, active: at });
    dispatch(action.do === "step" && of ? { ...action, ofAnyKind: isOtherKind(of, now, action.step) } : action);
  }, [perfMarks]);
  // A folder without runs opens on a tab that has content.
  const isOpening = useRef(!location.hash);
  useEffect(() => {
    if (!items) return;
    const tab = isOpening.current ? firstTab(items) : null;
    isOpening.current = false;
    if (tab) dispatch({ do: "tab", tab });
  }, [items]);
  useAddress(state, (to) => act({ do: "restore", state: to }));
  useLayoutEffect(() => perfMarks.rendered());

  const step = useMemo(() => (run ? choose(run, state).step : -1), [run, state]);
  // Samples load at once only if one is selected, else once the step has settled.
  const settled = useSettled(step);
  const at = state.sample === null ? settled : step;
  const samples = useQuery(client, run && run.steps.includes(at) && run.has_values ? samplesQuery(run.item.id, at) : null).value;
  const nKept = samples?.n_kept ?? 0;
  const filtered = useFilter(client, run, state);
  const { left } = filtered;
  const choice = useMemo(() => (run ? { ...choose(run, state, samples ? nKept : Infinity), left } : null), [run, state, samples, nKept, left]);
  const spikes = useTimelineSpikes({ run, state, act, client });
  usePrefetch(client, run, choice, paintOf(state.kept));
  useEffect(() => {
    document.title = run ? `${run.item.name}${step >= 0 ? ` · step ${step.toLocaleString("en")}` : ""} · Cutaway` : "Cutaway";
  }, [run, step]);

  const hoverSync = useMemo(makeHoverSync, []);
  const typing = useMemo(makeStepInput, []);
  const span = useMemo(() => spanOf(runs.map(({ view }) => view)), [runs]);
  const { message, notify } = useToast();
  const running: CommandContext | null = run && choice && {
    run, state: shown.length ? { ...state, runs: shown, active } : state, choice, nKept: run.has_values && !samples ? null : nKept, act, turn,
    help: () => setOpen("help"), palette: () => setOpen("palette"), inspector: () => act(toggleInspector(state, choice)), notify,
    onType: typing.listen, type: typing.begin, left: filtered, spikes,
    filter: () => act({ do: "keep", name: BAR, text: "open" }),
  };
  const command = (asked: Command): boolean => {
    if (asked === "search") {
      const field = element.querySelector<HTMLInputElement>(".tab-panel:not([hidden]) [role=search] input");
      if (field) field.select();
      else setOpen("palette");
      return true;
    }
    if (running) return perform(asked, running);
    const tab = TAB_IDS.find((each) => each === asked);
    if (tab) act({ do: "tab", tab });
    if (asked === "palette" || asked === "help") setOpen(asked);
    else if (asked === "theme") turn();
    return true;
  };
  useCommands(element, state.tab, command);

  // After the list, whose search it is about.
  const stopped = useQuery(client, items ? foldersQuery() : null).value?.stopped ?? [];
  const tabs = visibleTabs(items ?? [], state.tab);
  const isOfRun = isRunTab(tabOf(state.tab));
  const props: PanelProps | null = run && choice && { run, runs, state, choice, act, client, isDark };
  return (
    <>
      <Header items={known.chips} tabs={tabs} shown={shown} looks={known.looks} active={active} errors={known.errors} state={state} step={step} act={act}
        onPalette={() => setOpen("palette")} onHelp={() => setOpen("help")} onTheme={turn} onFollow={() => command("follow")} />
      {!known.isConnected && <div class="banner" role="alert"><span class="banner-text">The server is not responding. Loaded data stays visible, and the page reconnects by itself. Is cutaway view still running?</span></div>}
      {stopped.map((sentence) => <div class="banner" role="status" key={sentence}><span class="banner-text">Not all folders were searched: {sentence}</span></div>)}
      {running && isOfRun && <Selectors running={running} items={items ?? []} samples={samples} span={span} hoverSync={hoverSync} isDark={isDark} />}
      {props && isOfRun && <FilterBar {...props} left={filtered} />}
      <main class="tab-panels" id="panel">
        <Tabs props={props} folder={{ items, run, step, state, act, client, isDark, onTheme: turn, onHelp: () => setOpen("help") }} reason={reasonOf(known, act)} />
      </main>
      {props && isOfRun && <Timeline {...props} span={span} hoverSync={hoverSync} />}
      <Toast message={message} />
      {open === "help" && <ViewerHelp tab={state.tab} onClose={() => setOpen(null)} />}
      {open === "palette" && (
        <Palette run={run} items={known.chips} tabs={tabs} onClose={() => setOpen(null)}
          onDo={(actions) => actions.forEach((each) => (typeof each === "string" ? command(each) : act(each)))} />
      )}
    </>
  );
}

/** The open tab, and those that were open before, hidden. */
function Tabs({ props, folder, reason }: { props: PanelProps | null; folder: FolderProps; reason: preact.VNode }) {
  const content = (id: Tab): preact.VNode => {
    const tab = tabOf(id);
    if (!isRunTab(tab)) return tab.panel(folder);
    if (!props) return reason;
    return tab.needs === "step" && !props.run.steps.length ? <NoSteps run={props.run} /> : tab.panel(props);
  };
  return <>{TAB_IDS.map((id) => <TabPanel key={id} name={tabOf(id).title} isShown={folder.state.tab === id}>{content(id)}</TabPanel>)}</>;
}

/** Connects the command that opens the step input with the component that owns it. */
function makeStepInput(): { begin(): void; listen(call: () => void): () => void } {
  const calls = new Set<() => void>();
  return {
    begin: () => calls.forEach((call) => call()),
    listen(call) {
      calls.add(call);
      return () => calls.delete(call);
    },
  };
}

function NoSteps({ run }: { run: RunView }) {
  return (
    <Hint title="No steps recorded yet" isQuiet={run.item.state === "live"}>
      <p>{run.item.state === "live" ? "The run has started. Its first step appears here once it is recorded." : "The run ended before it recorded a step. Notes and Curves show what was logged."}</p>
    </Hint>
  );
}

/** Why there is no run to show. */
function reasonOf({ items, error, errors, active, chips, shown }: ReturnType<typeof useRuns>, act: (action: Action) => void): preact.VNode {
  const own = errors.get(active);
  if (error) return <Failure what="This folder" error={error} />;
  if (own) return <Failure what={chips.find(({ id }) => id === active)?.name ?? active} error={own} />;
  if (!items) return <Hint title="Loading runs…" isQuiet />;
  if (shown.length) return <Hint title="Loading run…" isQuiet />;
  const elsewhere = folderTabs(items);
  return (
    <Hint title="No runs in this folder yet">
      {elsewhere.length > 0 && (
        <p class="elsewhere">This folder has data on {elsewhere.map((tab) => <button type="button" class="button" key={tab} onClick={() => act({ do: "tab", tab })}>{tabOf(tab).title}</button>)}</p>
      )}
      <p>Record a training run in this folder to see it here live:</p>
      <pre class="value-text">{'with cutaway.record("runs/first", model, every=10) as run:\n    for batch in data:\n        with run.step():\n            …'}</pre>
    </Hint>
  );
}

function isOtherKind(run: RunView, { kind }: State, step: number): boolean {
  if (kind === null) return false;
  const place = run.steps.indexOf(step);
  return place >= 0 && run.kinds[run.kind_of[place]] !== kind;
}

/** Prefetch neighboring steps: they are likely to be selected next. */
function usePrefetch(client: Client, run: RunView | null, choice: Choice | null, paint: Paint): void {
  const key = run && choice && choice.place >= 0 ? [run.item.id, choice.place, choice.kind, choice.row?.row, choice.sample, paint.scale, paint.tile].join() : "";
  useEffect(() => {
    if (!key || !run || !choice) return undefined;
    const timer = setTimeout(() => {
      const places = [1, -1, 2, -2, 3].map((by) => stepBy(run, choice.place, by, choice.kind, choice.left)).filter((place) => place !== choice.place);
      const steps = [...new Set(places)].map((place) => run.steps[place]);
      const id = run.item.id;
      client.prefetch(steps.flatMap((step) => [
        matrixQuery(id, step),
        ...(choice.row ? [tensorQuery(id, choice.row.row, step, choice.sample, paint)] : []),
        ...(choice.sample !== null ? [samplesQuery(id, step)] : []),
      ]));
    }, 40);
    return () => clearTimeout(timer);
  }, [client, key]);
}

/** A number, once it has stayed the same for a while. */
function useSettled(value: number): number {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), 200);
    return () => clearTimeout(timer);
  }, [value]);
  return settled;
}

/** The theme that the user chose last. */
function useStoredTheme(element: HTMLElement): { isDark: boolean; turn(): void } {
  const { isDark, turn } = useTheme(element);
  return {
    isDark,
    turn() {
      turn();
      try {
        localStorage.setItem(THEME, element.closest<HTMLElement>(".cutaway")?.dataset.theme ?? "");
      } catch {
        // Local storage may be disabled; then nothing is remembered.
      }
    },
  };
}

/** Set the theme that was chosen last. */
export function restoreTheme(root: HTMLElement): void {
  try {
    const theme = localStorage.getItem(THEME);
    if (theme === "light" || theme === "dark") root.dataset.theme = theme;
  } catch {
    // Local storage may be disabled; then the system preference applies.
  }
}

function useCommands(element: HTMLElement, tab: Tab, run: (command: Command) => boolean): void {
  const newest = useRef({ tab, run });
  newest.current = { tab, run };
  useEffect(() => {
    const hear = (event: KeyboardEvent): void => {
      if (event.defaultPrevented) return;
      const at = event.composedPath()[0];
      const isTyping = takesKeys(at instanceof Element ? at : null, event.key);
      const command = commandOf(event, isTyping, newest.current.tab);
      // While a dialog is open, only the palette shortcut works.
      if (!command || (element.querySelector("[aria-modal=true]") && command !== "palette")) return;
      if (newest.current.run(command)) event.preventDefault();
    };
    addEventListener("keydown", hear);
    return () => removeEventListener("keydown", hear);
  }, [element]);
}
