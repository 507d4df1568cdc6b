// A virtual table: renders only visible rows; sortable, keyboard navigation, copies as text.

import { Component, type ComponentChildren } from "preact";
import { useEffect, useId, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { IconButton } from "../graph/controls";
import { copyText } from "../lib/clipboard";
import { plainNumber } from "../lib/formatting";
import { heightOf, sortRows, rowAfter, scrollTo, toTsv, upTo, windowAt } from "../lib/virtual-rows";
import "../style/viewer/table.css";

export interface Column {
  /** Key of the sort order. */
  readonly name: string;
  /** A function creates the element each time: a stored element would keep its whole former tree alive (Preact). */
  readonly title: string | (() => ComponentChildren);
  /** The title where only text will do; `name` if it is missing. */
  readonly plain?: string;
  /** Tooltip of the title. */
  readonly about?: string;
  /** In pixels; a column without one takes the room that is left. */
  readonly width?: number;
  /** … but not less than this. */
  readonly least?: number;
  /** Numbers stand to the right, in figures of one width. */
  readonly isNumber?: boolean;
  /** Text of a cell. */
  text(row: number): string;
  /** Text of a cell that is copied; default: the number of a number column, else its text. */
  copy?(row: number): string;
  /** Tooltip of a cell; default: its text. */
  tooltip?(row: number): string;
  /** What rows are sorted by; without it the column cannot be sorted. */
  by?(row: number): number | string;
  /** Content rendered instead of the text. */
  draw?(row: number): ComponentChildren;
  /** Additional classes of a cell: `bad` for an outlier. */
  mark?(row: number): string;
}

export interface Sorting {
  readonly column: string;
  readonly isDown: boolean;
}

interface Props {
  /** What the table holds, for screen readers. */
  readonly label: string;
  readonly columns: readonly Column[];
  /** Row numbers, which are passed to the columns; or their count, for rows from 0. */
  readonly rows: Int32Array | number;
  readonly sorting?: Sorting | null;
  /** Not given: the table sorts by itself. */
  readonly onSort?: (sorting: Sorting | null) => void;
  readonly selected?: number | null;
  readonly onSelect?: (row: number) => void;
  readonly rowHeight?: number;
  /** Shown when there are no rows. */
  readonly empty?: ComponentChildren;
  /** Changes when cells may have changed although columns and rows are the same. */
  readonly version?: unknown;
}

const ROW = 26;
const LEAST = 90;

export function VirtualTable(props: Props) {
  const { columns, rows, label, selected = null, rowHeight = ROW } = props;
  const [own, setOwn] = useState<Sorting | null>(null);
  const sorting = props.onSort ? props.sorting ?? null : own ?? props.sorting ?? null;
  const all = useMemo(() => (typeof rows === "number" ? upTo(rows) : rows), [rows]);
  const order = useMemo(() => {
    const by = columns.find(({ name }) => name === sorting?.column)?.by;
    return by ? sortRows(all, by, sorting!.isDown) : all;
  }, [all, columns, sorting?.column, sorting?.isDown, props.version]);
  const place = useMemo(() => (selected === null ? -1 : order.indexOf(selected)), [order, selected]);
  const id = useId();
  const scroller = useRef<HTMLDivElement>(null);
  const [view, setView] = useState({ scrolled: 0, height: 600 });
  useLayoutEffect(() => {
    const element = scroller.current!;
    const take = (): void => setView({ scrolled: element.scrollTop, height: bodyHeight(element) });
    const observer = new ResizeObserver(take);
    observer.observe(element);
    take();
    return () => observer.disconnect();
  }, []);
  const reveal = (row: number): void => {
    const element = scroller.current!;
    const to = scrollTo(row, element.scrollTop, bodyHeight(element), rowHeight, order.length);
    if (to !== element.scrollTop) element.scrollTop = to;
  };
  // Scroll to a row selected elsewhere; a clicked row is in view already.
  useEffect(() => {
    if (place >= 0) reveal(place);
  }, [selected, sorting?.column, sorting?.isDown]);

  const sort = (column: Column): void => {
    if (!column.by) return;
    const isSame = sorting?.column === column.name;
    const first = column.isNumber ?? false; // of numbers the largest come first, of names the first
    const next = !isSame ? { column: column.name, isDown: first } : sorting!.isDown === first ? { column: column.name, isDown: !first } : null;
    (props.onSort ?? setOwn)(next);
    if (scroller.current) scroller.current.scrollTop = 0;
  };
  const copy = (lines: Iterable<number>): void => {
    const titles = columns.map(({ plain, name }) => plain ?? name);
    void copyText(toTsv(titles, lines, (row, column) => copiedCell(columns[column], row)));
  };
  const key = (event: KeyboardEvent): void => {
    if ((event.target as Element).closest("[role=columnheader]")) return;
    if ((event.ctrlKey || event.metaKey) && event.key === "c" && place >= 0 && getSelection()?.isCollapsed !== false) {
      copy([order[place]]);
      event.preventDefault();
      return;
    }
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const next = rowAfter(event.key, place, order.length, Math.floor(view.height / rowHeight));
    if (next === null) return;
    event.preventDefault();
    event.stopPropagation();
    reveal(next);
    props.onSelect?.(order[next]);
  };
  // Tooltips are set on hover: a title attribute for every rendered cell would take longer than all the rest.
  const point = (event: PointerEvent): void => {
    const cell = (event.target as Element).closest<HTMLElement>(".cell");
    const at = Number(cell?.parentElement?.getAttribute("aria-rowindex") ?? 0) - 2;
    const column = cell ? columns[[...cell.parentElement!.children].indexOf(cell)] : undefined;
    if (cell && column && at >= 0 && at < order.length) cell.title = (column.tooltip ?? column.text)(order[at]);
  };
  const { first, end, top } = windowAt(view.scrolled, view.height, rowHeight, order.length);
  const widths = columns.map(({ width, least = LEAST }) => (width ? `${width}px` : `minmax(${least}px, 1fr)`)).join(" ");
  const least = columns.reduce((sum, { width, least = LEAST }) => sum + (width ?? least), 0);
  const lines = [];
  for (let at = first; at < end; at++) {
    lines.push(<TableRow key={at % (end - first + 1)} id={`${id}-${at}`} at={at} row={order[at]} columns={columns} isSelected={order[at] === selected}
      onSelect={props.onSelect} version={props.version} />);
  }
  return (
    <div class="table" role="grid" aria-label={label} aria-rowcount={order.length + 1} tabIndex={0} ref={scroller} onKeyDown={key} onPointerOver={point}
      aria-activedescendant={place >= first && place < end ? `${id}-${place}` : undefined}
      style={{ "--columns": widths, "--row": `${rowHeight}px` }}
      onScroll={(event) => setView({ scrolled: event.currentTarget.scrollTop, height: bodyHeight(event.currentTarget) })}>
      <div class="table-head" role="row" style={{ minWidth: `${least}px` }}>
        {columns.map((column) => <Head key={column.name} column={column} sorting={sorting} onSort={() => sort(column)} />)}
        <span class="table-copy"><IconButton icon="copy" title="Copy table as text" onClick={() => copy(order)} /></span>
      </div>
      {order.length === 0 && <div class="table-empty quiet">{props.empty ?? "No matches"}</div>}
      <div class="table-body" style={{ height: `${heightOf(order.length, rowHeight)}px`, minWidth: `${least}px` }}>
        <div class="table-rows" style={{ transform: `translateY(${top}px)` }}>{lines}</div>
      </div>
    </div>
  );
}

/** A cell for other programs: of a number column the number, because its text is rounded, scaled or grouped for people. */
export function copiedCell(column: Column, row: number): string {
  if (column.copy) return column.copy(row);
  const [text, value] = [column.text(row), column.isNumber ? column.by?.(row) : undefined];
  if (typeof value !== "number") return text;
  // An empty cell, or a dash, is a missing value, and not the number that it sorts by.
  return text === "" || text === "–" ? "" : plainNumber(value);
}

/** What is left for rows below the titles, which stay. */
function bodyHeight(element: HTMLElement): number {
  return Math.max(0, element.clientHeight - ((element.firstElementChild as HTMLElement | null)?.offsetHeight ?? 0));
}

function Head({ column, sorting, onSort }: { column: Column; sorting: Sorting | null; onSort(): void }) {
  const isOn = sorting?.column === column.name;
  const title = typeof column.title === "function" ? column.title() : column.title;
  const way = !isOn ? "none" : sorting!.isDown ? "descending" : "ascending";
  return (
    <span class={`table-title${column.isNumber ? " number" : ""}${isOn ? " on" : ""}`} role="columnheader" aria-sort={column.by ? way : undefined}>
      {column.by ? (
        <button type="button" title={column.about ?? `Sort by ${column.plain ?? column.name}`} onClick={onSort}>
          {title}<i aria-hidden="true">{isOn ? (sorting!.isDown ? "↓" : "↑") : ""}</i>
        </button>
      ) : <span title={column.about}>{title}</span>}
    </span>
  );
}

interface TableRowProps {
  readonly id: string;
  readonly at: number;
  readonly row: number;
  readonly columns: readonly Column[];
  readonly isSelected: boolean;
  readonly onSelect?: (row: number) => void;
  readonly version: unknown;
}

/** Rerendered only when its content changes: scrolling moves rows and changes few. (Caching rendered cells instead would leak:
 * each keeps its whole former tree alive.) */
class TableRow extends Component<TableRowProps> {
  shouldComponentUpdate(next: TableRowProps): boolean {
    const { at, row, columns, isSelected, version } = this.props;
    return at !== next.at || row !== next.row || columns !== next.columns || isSelected !== next.isSelected || version !== next.version;
  }

  render({ id, at, row, columns, isSelected }: TableRowProps) {
    return (
      <div class={`table-row${isSelected ? " selected" : ""}${at % 2 ? " odd" : ""}`} role="row" id={id} aria-rowindex={at + 2}
        aria-selected={isSelected} onClick={() => this.props.onSelect?.(this.props.row)}>
        {columns.map((column) => {
          const mark = column.mark?.(row) ?? "";
          return (
            <span role="gridcell" key={column.name} class={`cell${column.isNumber ? " number" : ""}${mark ? ` ${mark}` : ""}`}>
              {column.draw ? column.draw(row) : column.text(row)}
            </span>
          );
        })}
      </div>
    );
  }
}
