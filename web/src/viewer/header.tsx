// Header of the viewer: runs, tabs, live state, buttons.

import { useEffect, useRef, useState } from "preact/hooks";
import { IconButton } from "../graph/controls";
import { Icon, Logo } from "../graph/icons";
import { counted } from "../lib/formatting";
import type { RunItem } from "../lib/wire";
import { RANK } from "./data/api";
import type { Runs } from "./data/use-runs";
import type { Action, State } from "./state";
import { tabOf, type Tab } from "./tabs";

/** Up to this many runs, each has a chip, shown or not. */
const FEW = 3;
const STATES: Readonly<Record<RunItem["state"], string>> = { live: "recording", ended: "", killed: "stopped early", unknown: "" };

interface Props {
  readonly items: readonly RunItem[];
  readonly tabs: readonly Tab[];
  /** Ids of those on the page. */
  readonly shown: readonly string[];
  /** Color and letter of those, by id; other runs are gray. */
  readonly looks: Runs["looks"];
  readonly active: string;
  /** Id → why it cannot be shown. */
  readonly errors: ReadonlyMap<string, string>;
  readonly state: State;
  /** The selected step. */
  readonly step: number;
  readonly act: (action: Action) => void;
  onPalette(): void;
  onTheme(): void;
  onHelp(): void;
  onFollow(): void;
}

export function Header(props: Props) {
  const { items, state, act } = props;
  const active = items.find(({ id }) => id === props.active);
  return (
    <header class="header viewer-header">
      <div class="logo" title="Cutaway"><Logo /><span>Cutaway</span></div>
      <Chips {...props} />
      <nav class="tabs" role="tablist" aria-label="Views" onKeyDown={walk}>
        {props.tabs.map((tab) => (
          <button type="button" role="tab" id={`tab-${tab}`} key={tab} aria-selected={state.tab === tab} aria-controls="panel" tabIndex={state.tab === tab ? 0 : -1}
            title={`${tabOf(tab).title} (${tabOf(tab).key})`} onClick={() => act({ do: "tab", tab })}>{tabOf(tab).title}</button>
        ))}
      </nav>
      <div class="header-end">
        {active && <Live item={active} isFollowing={state.step === null} step={props.step} onFollow={props.onFollow} />}
        <button type="button" class="palette-button" title="Search tensors, steps, runs and commands (Ctrl + K)" onClick={props.onPalette}>
          <Icon name="search" /><span>Search</span> <kbd>{isMac() ? "⌘K" : "Ctrl K"}</kbd>
        </button>
        <Share />
        <IconButton icon="theme" title="Toggle dark mode (t)" onClick={props.onTheme} />
        <button type="button" class="icon-button" title="Keyboard shortcuts (?)" aria-label="Help" onClick={props.onHelp}>?</button>
      </div>
    </header>
  );
}

function walk(event: KeyboardEvent): void {
  const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (!by) return;
  const tabs = [...(event.currentTarget as HTMLElement).querySelectorAll<HTMLElement>("[role=tab]")];
  const next = tabs[(tabs.findIndex((tab) => tab === document.activeElement) + by + tabs.length) % tabs.length];
  next.focus();
  next.click();
  event.preventDefault();
  event.stopPropagation();
}

function isMac(): boolean {
  return /Mac|iPhone|iPad/.test(navigator.platform);
}

function Chips({ items, shown, looks, active, errors, act }: Props) {
  const [isOpen, setOpen] = useState(false);
  // In the order of their letters; if every run has a chip, each stays where it is.
  const chips = items.length <= FEW ? items : shown.flatMap((id) => items.find((item) => item.id === id) ?? []);
  const isCompact = chips.length > FEW;
  return (
    <div class="chips">
      <div class="chip-row">
        {chips.map((item) => (
          <Chip key={item.id} item={item} look={looks.get(item.id)} isCompact={isCompact && item.id !== active} letter={shown.length > 1 ? looks.get(item.id)?.letter ?? "" : ""} isShown={shown.includes(item.id)} isActive={item.id === active}
            isOnly={shown.length < 2} error={errors.get(item.id) ?? ""} act={act} />
        ))}
      </div>
      {items.length > FEW && (
        <button type="button" class="chip more" aria-expanded={isOpen} title="All runs in this folder" onClick={() => setOpen(!isOpen)}>
          {items.length - chips.length > 0 ? `+ ${items.length - chips.length}` : "runs"}<Icon name="down" />
        </button>
      )}
      {isOpen && <RunList items={items} shown={shown} looks={looks} active={active} act={act} onClose={() => setOpen(false)} />}
    </div>
  );
}

/** The dot of a run in its color; with several runs on the page it holds the letter of the run. */
function RunMark({ letter }: { letter: string }) {
  return <i class={`chip-mark${letter ? " lettered" : ""}`}>{letter}</i>;
}

function Chip(props: { item: RunItem; look: ReturnType<Props["looks"]["get"]>; isCompact: boolean; letter: string; isShown: boolean; isActive: boolean; isOnly: boolean; error: string; act: Props["act"] }) {
  const { item, look, isCompact, letter, isShown, isActive, isOnly, error, act } = props;
  const trouble = error || item.damage[0] || "";
  return (
    <span class={`chip${isActive ? " active" : ""}${isShown ? "" : " off"}${isCompact ? " compact" : ""}`} style={{ "--own": look?.color ?? "var(--soft)" }}>
      <button type="button" class="chip-dot" aria-pressed={isShown} disabled={isShown && isOnly}
        title={isShown ? (isOnly ? "The only run shown" : `Hide ${item.name}`) : `Overlay ${item.name}`}
        aria-label={`Show ${item.name}`} onClick={() => act({ do: "toggle run", id: item.id })}><RunMark letter={letter} /></button>
      <button type="button" class="chip-name" aria-label={item.name} aria-current={isActive} title={about(item, trouble)}
        onClick={({ shiftKey, ctrlKey, metaKey }) => act({ do: shiftKey || ctrlKey || metaKey ? "toggle run" : "run", id: item.id })}>
        {isCompact ? <><RunMark letter={letter} /><span>{item.name}</span></> : look?.shortName ?? item.name}
      </button>
      {trouble && <span class="chip-warn" title={trouble}><Icon name="warn" /></span>}
    </span>
  );
}

function about({ path, n_steps, n_tensors, ranks, id, state }: RunItem, trouble: string): string {
  const rank = ranks.length > 1 ? `rank ${id.split(RANK)[1] ?? ranks[0]} of ${counted(ranks.length, "rank")}` : "";
  const facts = [path, `${counted(n_steps, "step")}, ${counted(n_tensors, "tensor")}`, rank, STATES[state]].filter(Boolean).join(" · ");
  return [facts, trouble, "Shift + click to overlay or hide it"].filter(Boolean).join("\n");
}

/** All runs of the folder, with checkboxes to show and hide them. */
function RunList({ items, shown, looks, active, act, onClose }: Pick<Props, "items" | "shown" | "looks" | "active" | "act"> & { onClose(): void }) {
  const [query, setQuery] = useState("");
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => {
    box.current?.querySelector("input")?.focus();
    const shut = (event: Event): void => {
      if (!box.current?.parentElement?.contains(event.target as Node)) onClose();
    };
    addEventListener("pointerdown", shut, true);
    return () => removeEventListener("pointerdown", shut, true);
  }, []);
  const words = query.toLowerCase().split(/\s+/);
  const found = items.filter(({ name, path }) => words.every((word) => `${name} ${path}`.toLowerCase().includes(word)));
  return (
    <div class="run-list" role="dialog" aria-label="Runs" ref={box} onKeyDown={(event) => {
      if (event.key !== "Escape") return;
      event.stopPropagation();
      onClose();
    }}>
      <input type="text" placeholder="Search runs" aria-label="Search runs" value={query} spellcheck={false} onInput={(event) => setQuery(event.currentTarget.value)} />
      <ul>
        {found.slice(0, 300).map((item) => (
          <li key={item.id} class={item.id === active ? "active" : ""} style={{ "--own": looks.get(item.id)?.color ?? "var(--line)" }}>
            <label title={item.path}>
              <input type="checkbox" checked={shown.includes(item.id)} disabled={shown.length < 2 && shown.includes(item.id)}
                onChange={() => act({ do: "toggle run", id: item.id })} />
              <RunMark letter={shown.length > 1 ? looks.get(item.id)?.letter ?? "" : ""} />
            </label>
            <button type="button" onClick={() => { act({ do: "run", id: item.id }); onClose(); }}>
              <b>{item.name}</b> <span class="quiet">{counted(item.n_steps, "step")}{item.state === "live" ? " · recording" : item.state === "killed" ? " · stopped early" : ""}</span>
            </button>
          </li>
        ))}
      </ul>
      {!found.length && <p class="quiet">No matches</p>}
    </div>
  );
}

/** Whether the run is recording, and whether the page follows it. */
function Live({ item, isFollowing, step, onFollow }: { item: RunItem; isFollowing: boolean; step: number; onFollow(): void }) {
  const last = item.last_step === null ? "" : ` ${item.last_step.toLocaleString("en")}`;
  if (item.state === "live") {
    const text = isFollowing ? `following step ${step < 0 ? "…" : step.toLocaleString("en")}` : `live at step${last}`;
    return (
      <button type="button" class={`live${isFollowing ? " on" : ""}`} aria-pressed={isFollowing} onClick={onFollow}
        title={isFollowing ? "Following the newest step. Click to stay at this one (l)" : "This run is still recording. Click to follow it (l)"}>
        <i />{text}
      </button>
    );
  }
  const stateText = { ended: "ended at step", killed: "stopped at step", unknown: "last seen at step" }[item.state];
  const title = { ended: "The run has ended.", killed: "The process that wrote this run died before closing it. Everything it wrote is shown.",
    unknown: "Another machine may still be writing this run. New steps appear here." }[item.state];
  return <span class={`live ended ${item.state}`} title={title}>{item.state === "killed" && <Icon name="warn" />}{last ? `${stateText}${last}` : "no steps yet"}</span>;
}

/** The URL shows the same view to anyone who can reach the server. */
function Share() {
  const [isDone, setDone] = useState(false);
  const copy = (): void => {
    void navigator.clipboard?.writeText(location.href).then(() => {
      setDone(true);
      setTimeout(() => setDone(false), 1500);
    }, () => undefined);
  };
  return <button type="button" class="share" title="Copy a link to this view" onClick={copy}>{isDone ? "Copied" : "Share"}</button>;
}
