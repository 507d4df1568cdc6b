// A sortable table with numbers, bars and links.

import { useContext, useMemo, useRef, useState } from "preact/hooks";
import { VirtualTable, type Column as Drawn } from "../viewer/virtual-table";
import { useEdges } from "./scroll-edges";
import { LinksContext, type Links } from "./links";
import { largest, percent, raw, shortNumber, exactNumber, type Maybe } from "./numbers";
import { sideOf } from "./colors";
import type { Column, Table } from "./wire";

const ROW = 26;
/** A taller table is scrolled. */
const MOST_HEIGHT = 460;

export function TableBlock({ block }: { block: Table }) {
  const [selected, setSelected] = useState<number | null>(null);
  const frame = useRef<HTMLDivElement>(null);
  useEdges(frame, ".table");
  const links = useContext(LinksContext);
  const columns = useMemo(() => {
    const widths = block.columns.map(({ name, kind }, place) => (kind === "text" ? widthOf(block.rows.map((row) => String(row[place] ?? "")), name) : 0));
    const flexible = widths.indexOf(Math.max(...widths)); // one takes the room that is left
    return block.columns.map((column, place) => drawn(column, place, block, { width: widths[place], isFlexible: place === flexible }, links));
  }, [block, links]);
  const go = (event: KeyboardEvent): void => {
    if (event.key !== "Enter" || selected === null || (event.target as Element).tagName === "BUTTON") return;
    const cells = block.columns.map(({ name, kind }, place) => (kind === "text" ? links(String(block.rows[selected][place] ?? ""), name) : null));
    const lead = cells.find((each) => each !== null);
    if (!lead) return;
    event.preventDefault();
    event.stopPropagation();
    lead();
  };
  return (
    <div class="block-table block-frame" ref={frame} onKeyDown={go} style={{ height: `${Math.min(MOST_HEIGHT, 34 + ROW * Math.max(2, block.rows.length))}px` }}>
      <VirtualTable label={block.title || "Table"} columns={columns} rows={block.rows.length} selected={selected} onSelect={setSelected} empty="No rows." />
    </div>
  );
}

/** Wider columns of text give way to others. */
const NARROW = 130;

function drawn({ name, kind, about }: Column, place: number, { rows }: Table, room: { width: number; isFlexible: boolean }, links: Links): Drawn {
  const key = `${place} ${name}`; // two columns may have one name
  const shared = { name: key, plain: name, title: name, about: about || undefined };
  if (kind === "text") {
    const text = (row: number): string => String(rows[row][place] ?? "");
    const lead = (row: number): (() => void) | null => links(text(row), name);
    const draw = (row: number) => (lead(row) ? <button type="button" class="link cell-link" tabIndex={-1} title={`Go to ${text(row)}`} onClick={() => lead(row)?.()}>{text(row)}</button> : text(row));
    return { ...shared, text, draw, by: text, ...(room.isFlexible || room.width > NARROW ? { least: room.width } : { width: room.width }) };
  }
  const value = (row: number): Maybe => rows[row][place] as Maybe;
  const most = largest(rows.map((row) => row[place] as Maybe));
  const isSigned = rows.some((row) => ((row[place] as Maybe) ?? 0) < 0);
  return {
    ...shared, isNumber: true, ...(kind === "bar" ? { least: 150 } : { width: Math.max(84, 22 + 7 * Math.min(18, name.length)) }),
    text: (row) => raw(value(row)),
    tooltip: (row) => exactNumber(value(row), kind === "share"),
    by: (row) => value(row) ?? NaN,
    draw: (row) => (kind === "bar" ? <Bar value={value(row)} most={most} isSigned={isSigned} /> : kind === "share" ? percent(value(row)) : shortNumber(value(row))),
  };
}

function widthOf(texts: readonly string[], name: string): number {
  return 24 + 7.3 * Math.min(30, Math.max(name.length, 6, ...texts.slice(0, 200).map((text) => text.length)));
}

function Bar({ value, most, isSigned }: { value: Maybe; most: number; isSigned: boolean }) {
  return (
    <span class="cell-bar">
      {value === null ? <i hidden /> : <i class={sideOf(value, isSigned)} style={{ width: `${most ? (100 * Math.abs(value)) / most : 0}%` }} />}
      <span>{shortNumber(value)}</span>
    </span>
  );
}
