// The page tabs (Start, Neurons, Language): a list of collections and results, and the page of the selected one.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { takesKeys } from "../../graph/keyboard";
import { Icon } from "../../graph/icons";
import { Menu } from "../../graph/controls";
import { LinksContext, type Links } from "../../pages/links";
import { BlocksBody, BlocksNav } from "../../pages/page";
import type { PageView } from "../../pages/wire";
import type { RunItem, Topic } from "../../lib/wire";
import "../../style/viewer/pages.css";
import { pageQuery, unitQuery } from "../data/api";
import type { Client } from "../data/client";
import { Failure, Hint } from "../hint";
import { editionOf, leadsTo, onTab, opens, sizeOf, typeName, UNIT, whenOf } from "../data/pages";
import type { Action } from "../state";
import type { FolderProps } from "../tabs";
import { UnitBar, unitAfterKey } from "./unit-bar";
import { useQuery } from "../data/use-query";
import { useNarrow } from "../use-narrow";
import { unitBeside, nameOf, unitOf } from "../../lib/unit-names";

/** A longer list can be searched. */
const FEW = 12;
/** Maximum number of rows for which neighboring units are prefetched. */
const MOST_ROWS_AHEAD = 100_000;

export function PagesPanel({ topic, items, state, act, client, isDark }: FolderProps & { readonly topic: Topic }) {
  const isNarrow = useNarrow();
  const own = useMemo(() => onTab(items ?? [], topic), [items, topic]);
  const asked = state.kept[topic] ?? "";
  // The first one shown stays, whatever else comes into the folder.
  const first = useRef("");
  if (!own.some(({ id }) => id === first.current)) first.current = own[0]?.id ?? "";
  const item = own.find(({ id }) => id === (asked || first.current)) ?? null;
  const links = useMemo((): Links => (text, column) => {
    const actions = leadsTo(items ?? [], text, column, asked);
    return actions && (() => actions.forEach(act));
  }, [items, asked, act]);
  if (!items) return <Hint title="Loading…" isQuiet />;
  if (!own.length && !asked) return <Empty topic={topic} />;
  const hasList = topic !== "start" || own.length > 1 || !item;
  const choose = (id: string): void => opens(topic, id, "").forEach(act);
  return (
    <div class={`pages-panel${hasList ? (isNarrow ? " narrow" : "") : " single"}`}>
      {hasList && (isNarrow ? <CompactList own={own} item={item} onChoose={choose} /> : <List own={own} item={item} onChoose={choose} />)}
      <LinksContext.Provider value={links}>
        {item ? <SelectedItem key={item.id} topic={topic} item={item} items={items} unit={state.kept[UNIT] ?? ""} act={act} client={client} isDark={isDark} /> : (
          <Hint title="Not found: deleted or moved"><p>Select another collection or result from the list.</p></Hint>
        )}
      </LinksContext.Provider>
    </div>
  );
}

const EMPTY_STATES: Readonly<Record<Topic, readonly [title: string, about: string, code: string]>> = {
  start: ["No start page in this folder", "Save a page with topic=\"start\" in this folder, and the viewer opens on it:",
    'Page("My runs", sections=[…], topic="start").save("runs/start")'],
  neurons: ["No neuron results in this folder", "Collect activations or save a ranking or another result in this folder to see it here:",
    'cutaway.collect(model, texts, tokenizer=tok, at="h.*", path="runs/acts")\ncutaway.neurons.rank(acts, labels).save("runs/ranking")'],
  language: ["No language model results in this folder", "Save a result, or a page with topic=\"language\", in this folder to see it here:",
    'Page("My page", sections=[…], topic="language").save("runs/page")'],
};

function Empty({ topic }: { topic: Topic }) {
  const [title, about, code] = EMPTY_STATES[topic];
  return <Hint title={title}><p>{about}</p><pre class="value-text">{code}</pre></Hint>;
}

interface ListProps {
  readonly own: readonly RunItem[];
  readonly item: RunItem | null;
  onChoose(id: string): void;
}

function List({ own, item, onChoose }: ListProps) {
  const [query, setQuery] = useState("");
  const words = query.toLowerCase().split(/\s+/);
  const found = own.filter((each) => words.every((word) => `${each.name} ${each.page?.title ?? ""} ${typeName(each.page?.type ?? "")}`.toLowerCase().includes(word)));
  const groups = [["Collections", "activations"], ["Results", "result"]].map(([title, kind]) => [title, found.filter((each) => each.kind === kind)] as const);
  return (
    <nav class="page-list" aria-label="Collections and results" onKeyDown={walk}>
      {own.length > FEW && (
        <div class="search"><Icon name="search" />
          <input type="text" placeholder="Filter list" aria-label="Filter list" value={query} spellcheck={false} onInput={(event) => setQuery(event.currentTarget.value)} />
        </div>
      )}
      {groups.map(([title, these]) => these.length > 0 && (
        <section key={title} aria-label={title}>
          <h3>{title}</h3>
          <ul>{these.map((each) => <Entry key={each.id} item={each} isOn={each === item} onChoose={onChoose} />)}</ul>
        </section>
      ))}
      {!found.length && <p class="quiet">No matches</p>}
    </nav>
  );
}

function Entry({ item, isOn, onChoose }: { item: RunItem; isOn: boolean; onChoose(id: string): void }) {
  const trouble = item.damage[0] ?? "";
  return (
    <li>
      <button type="button" aria-current={isOn} title={[item.path, trouble].filter(Boolean).join("\n")} onClick={() => onChoose(item.id)}>
        <b>{item.name}{trouble && <Icon name="warn" />}</b>
        {item.page?.title && <span>{item.page.title}</span>}
        <small>{sizeOf(item)}<time>{whenOf(item)}</time></small>
      </button>
    </li>
  );
}

/** The list as a menu, for narrow windows. */
function CompactList({ own, item, onChoose }: ListProps) {
  const named = ({ name, kind, page }: RunItem): string => `${name} · ${kind === "activations" ? "collection" : page ? typeName(page.type) : "result"}`;
  return (
    <div class="panel-bar page-menu">
      <Menu name="Collection or result" value={item?.id ?? ""} choices={[...(item ? [] : [["", "choose…"] as const]), ...own.map((each) => [each.id, named(each)] as const)]} onChoose={onChoose} />
      {item && <span class="quiet">{item.kind === "activations" ? sizeOf(item) : whenOf(item)}</span>}
    </div>
  );
}

/** Arrows go from entry to entry. */
function walk(event: KeyboardEvent): void {
  const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (!by) return;
  const buttons = [...(event.currentTarget as HTMLElement).querySelectorAll<HTMLElement>("li button")];
  const at = buttons.indexOf(document.activeElement as HTMLElement);
  const next = buttons[Math.max(0, Math.min(buttons.length - 1, at + by))];
  if (!next) return;
  next.focus();
  event.preventDefault();
  event.stopPropagation();
}

interface SelectedItemProps {
  readonly topic: Topic;
  readonly item: RunItem;
  readonly items: readonly RunItem[];
  /** The selected unit; "" for none. */
  readonly unit: string;
  readonly act: (action: Action) => void;
  readonly client: Client;
  readonly isDark: boolean;
}

/** The page of the selected entry; for a collection with the unit bar above it. */
function SelectedItem({ topic, item, items, unit: asked, act, client, isDark }: SelectedItemProps) {
  const place = useRef<HTMLDivElement>(null);
  const isCollection = item.kind === "activations" && topic === "neurons";
  const unit = isCollection ? asked : "";
  const edition = item.page?.edition ?? "";
  const editions = editionOf(item, items);
  const whole = useQuery(client, item.page ? pageQuery(item.id, edition) : null);
  const own = useQuery(client, item.page && unit ? unitQuery(item.id, unit, editions) : null);
  const { value, error, isOld } = unit ? own : whole;
  const sites = whole.value?.sites ?? [];
  const go = (name: string): void => opens(topic, item.id, name).forEach(act);
  useUnitKeys(place, isCollection ? (key) => {
    const next = unitAfterKey(sites, unit, key);
    if (next) go(next);
    return next !== null;
  } : null);
  useEffect(() => {
    const at = unitOf(unit);
    if (!at || isOld || !item.page || item.page.n_rows > MOST_ROWS_AHEAD) return;
    const next = [1, -1].flatMap((by) => unitBeside(sites, at, by) ?? []);
    client.prefetch(next.map((each) => unitQuery(item.id, nameOf(each), editions)));
  }, [client, unit, isOld, editions]);
  return (
    <div class={`blocks page-pane${isDark ? " dark" : ""}`} ref={place}>
      {isCollection && sites.length > 0 && <UnitBar sites={sites} unit={unit} onGo={go} />}
      {item.page && item.damage.length > 0 && <div class="note failure page-trouble" role="alert">{item.damage.slice(0, 5).map((message) => <p key={message}>{message}</p>)}</div>}
      {!item.page ? <Failure what={item.name} error={item.damage[0] ?? "It could not be opened."} />
        : error ? <Failure what={unit || item.name} error={error} />
        : value ? <PageContent view={value} isDark={isDark} isOld={isOld} />
        : <Hint title="Loading…" isQuiet />}
    </div>
  );
}

function PageContent({ view: { page }, isDark, isOld }: { view: PageView; isDark: boolean; isOld: boolean }) {
  const scroller = useRef<HTMLDivElement>(null);
  return (
    <>
      <div class="page-head"><h1 title={page.title}>{page.title}</h1><BlocksNav page={page} scroller={() => scroller.current} /></div>
      <div class={`blocks-body${isOld ? " old" : ""}`} ref={scroller} aria-busy={isOld}><BlocksBody key={page.title} page={page} isDark={isDark} /></div>
    </>
  );
}

/** Keys that go from unit to unit, wherever the focus is on this tab, unless something there takes them. */
function useUnitKeys(place: { readonly current: HTMLElement | null }, hear: ((key: string) => boolean) | null): void {
  const newest = useRef(hear);
  newest.current = hear;
  useEffect(() => {
    const listen = (event: KeyboardEvent): void => {
      const at = event.composedPath()[0];
      // Ignore keys while the tab is hidden or a dialog is open.
      const isOff = !place.current || place.current.closest("[hidden]") || place.current.closest(".viewer")?.querySelector("[aria-modal=true]");
      if (event.defaultPrevented || isOff || event.ctrlKey || event.metaKey || event.altKey || takesKeys(at instanceof Element ? at : null, event.key)) return;
      if (newest.current?.(event.key)) event.preventDefault();
    };
    addEventListener("keydown", listen);
    return () => removeEventListener("keydown", listen);
  }, []);
}
