// The Notes tab: searchable notes, configuration, and damage.

import { useMemo, useState } from "preact/hooks";
import { Icon } from "../../graph/icons";
import type { NoteView } from "../../lib/wire";
import { Hint } from "../hint";
import type { PanelProps } from "./props";
import { isBad } from "../charts/step-slider";
import { useNarrow } from "../use-narrow";
import { VirtualTable, type Column } from "../virtual-table";

const KEPT = "notes";

export function NotesPanel({ run, state, choice, act }: PanelProps) {
  const [query, setQuery] = useState(state.kept[KEPT] ?? "");
  const { notes } = run;
  const rows = useMemo(() => searchNotes(notes, query), [notes, query]);
  const isNarrow = useNarrow();
  const columns = useMemo(() => columnsOf(notes, isNarrow), [notes, isNarrow]);
  const search = (text: string): void => {
    setQuery(text);
    act({ do: "keep", name: KEPT, text });
  };
  const [pressed, setPressed] = useState(-1);
  const isHere = (row: number): boolean => notes[row]?.step === choice.step;
  const selected = rows.includes(pressed) && (isHere(pressed) || notes[pressed].step === null) ? pressed : rows.find(isHere) ?? null;
  const select = (row: number): void => {
    setPressed(row);
    const { step } = notes[row];
    if (step !== null) act({ do: "step", step });
  };
  return (
    <div class="two-panes notes-panel">
      <section class="pane" aria-label="Notes">
        <div class="panel-bar">
          <div class="search" role="search">
            <Icon name="search" />
            <input type="text" placeholder="Search notes" aria-label="Search notes" value={query} spellcheck={false} onInput={(event) => search(event.currentTarget.value)} />
            <span class="search-count">{rows.length.toLocaleString("en")}{rows.length < notes.length && ` of ${notes.length.toLocaleString("en")}`}</span>
          </div>
          {selected !== null && isHere(selected) && <button type="button" class="button" onClick={() => act({ do: "tab", tab: "tensors" })}>Tensors at step {choice.step.toLocaleString("en")}</button>}
        </div>
        <Damage run={run} />
        {notes.length ? (
          <VirtualTable label="Notes" columns={columns} rows={rows} selected={selected}
            onSelect={select} empty="No matches" />
        ) : (
          <Hint title="No notes in this run">
            <p>Add a note in the training loop; it appears here and on the step slider:</p>
            <pre class="value-text">run.note("learning rate halved")</pre>
          </Hint>
        )}
        {selected !== null && <FullNote note={notes[selected]} />}
      </section>
      <aside class="pane facts-pane" aria-label="Configuration">
        <Facts title="Configuration" facts={run.config} empty="Not recorded. Pass config={…} to cutaway.record()." />
        <Facts title="Environment" facts={run.environment} empty="Not recorded." />
      </aside>
    </div>
  );
}

/** Rows whose note has all words in it. */
export function searchNotes(notes: readonly NoteView[], query: string): Int32Array {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  const fits = ({ text, level, step }: NoteView): boolean => {
    const whole = `${text} ${level} ${step ?? ""}`.toLowerCase();
    return words.every((word) => whole.includes(word));
  };
  return Int32Array.from(notes.flatMap((note, row) => (fits(note) ? [row] : [])));
}

/** The full text of the selected note, which the table may cut. */
function FullNote({ note: { step, level, text, about, time } }: { note: NoteView }) {
  return (
    <div class="note-whole" aria-label="Selected note">
      <p class="quiet">{step === null ? "" : `step ${step.toLocaleString("en")} · `}{level}{level && " · "}{when(time)}{Object.keys(about).length > 0 && ` · ${formatAbout(about)}`}</p>
      <p>{text}</p>
    </div>
  );
}

/** In narrow windows, only the selected note shows its time and fields. */
function columnsOf(notes: readonly NoteView[], isNarrow: boolean): Column[] {
  const about: Column = { name: "about", title: "about", width: 180, text: (row) => formatAbout(notes[row].about), by: (row) => formatAbout(notes[row].about) };
  return [
    { name: "step", title: "step", width: isNarrow ? 64 : 84, isNumber: true, text: (row) => notes[row].step?.toLocaleString("en") ?? "", by: (row) => notes[row].step ?? -1 },
    { name: "level", title: "level", width: 84, text: (row) => notes[row].level, by: (row) => notes[row].level, mark: (row) => (isBad(notes[row]) ? "bad" : "") },
    { name: "text", title: "note", text: (row) => notes[row].text, by: (row) => notes[row].text },
    ...(!isNarrow && notes.some((note) => Object.keys(note.about).length) ? [about] : []),
    ...(isNarrow ? [] : [{ name: "time", title: "time", width: 172, isNumber: true, text: (row: number) => when(notes[row].time), copy: (row: number) => when(notes[row].time), by: (row: number) => notes[row].time }]),
  ];
}

function formatAbout(about: Readonly<Record<string, unknown>>): string {
  return Object.entries(about).map(([name, value]) => `${name} ${plain(value)}`).join(" · ");
}

function when(time: number): string {
  return new Date(time * 1000).toLocaleString("sv").slice(0, 19);
}

/** What is damaged, and what could not be written. */
function Damage({ run }: Pick<PanelProps, "run">) {
  if (!run.damage.length && !run.lost.length) return null;
  return (
    <div class="note failure troubles" role="alert">
      {run.damage.slice(0, 20).map((message) => <p key={message}>Damage: {message}</p>)}
      {run.damage.length > 20 && <p>Damage: {run.damage.length - 20} more. Run cutaway verify to list all.</p>}
      {run.lost.slice(0, 20).map(({ text }, i) => <p key={i}>Lost: {text}</p>)}
    </div>
  );
}

function Facts({ title, facts, empty }: { title: string; facts: Readonly<Record<string, unknown>>; empty: string }) {
  const entries = flat(facts);
  return (
    <details class="card" open>
      <summary><span>{title}</span></summary>
      {entries.length ? (
        <dl class="fact-list">{entries.map(([name, value]) => <div key={name}><dt>{name}</dt><dd>{value}</dd></div>)}</dl>
      ) : <p class="quiet">{empty}</p>}
    </details>
  );
}

function flat(facts: Readonly<Record<string, unknown>>, before = ""): [string, string][] {
  return Object.entries(facts).flatMap(([name, value]): [string, string][] => {
    const whole = `${before}${name}`;
    return value && typeof value === "object" && !Array.isArray(value) && before.length < 60 && Object.keys(value).length
      ? flat(value as Record<string, unknown>, `${whole}.`) : [[whole, plain(value)]];
  });
}

function plain(value: unknown): string {
  return typeof value === "string" ? value : JSON.stringify(value) ?? "";
}
