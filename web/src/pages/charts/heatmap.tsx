// A heatmap: cells with numbers while there are few, pixels when there are many.

import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { gradient } from "../../lib/colors";
import { useEdges } from "../scroll-edges";
import { scaleEndNumber, shortNumber, exactNumber } from "../numbers";
import { cellColor, cellStyle, rampOf } from "../colors";
import { tipPlace, Tip, type Box, type TipPlace } from "../tooltip";
import { cellAfterKey, type Place } from "../grid-keys";
import type { Heatmap } from "../wire";

/** More cells than these are pixels. */
const MOST_CELLS = 2500;
/** More rows than these are scrolled. */
const MOST_ROWS = 60;
/** With more columns cells are narrower. */
const MANY_COLUMNS = 24;

export function HeatmapBlock({ block, isDark }: { block: Heatmap; isDark: boolean }) {
  const frame = useRef<HTMLDivElement>(null);
  const [at, setAt] = useState<Place | null>(null);
  const [tip, setTip] = useState<TipPlace | null>(null);
  const { row_names: rows, column_names: columns, is_diverging: isSigned, is_share: isShare } = block;
  const isLarge = rows.length * columns.length > MOST_CELLS;
  useEdges(frame, ".heatmap");
  const look = (place: Place | null): void => {
    setAt(place);
    setTip(place && frame.current ? tipPlace(boxOf(frame.current, place, rows.length, columns.length), frame.current.getBoundingClientRect(), innerHeight) : null);
  };
  if (!rows.length || !columns.length) return <p class="quiet">No cells.</p>;
  const key = (event: KeyboardEvent): void => {
    const next = cellAfterKey(event.key, at, rows.length, columns.length);
    if (!next && !(event.key === "Escape" && at)) return;
    if (next) cellOf(frame.current!, next)?.scrollIntoView({ block: "nearest", inline: "nearest" });
    look(next);
    event.preventDefault();
    event.stopPropagation();
  };
  const Cells = isLarge ? Pixels : Grid;
  return (
    <>
      <div class="block-frame" ref={frame}>
        <div class={`heatmap${!isLarge && rows.length > MOST_ROWS ? " long" : ""}`} role="group" aria-label={about(block)} tabIndex={0} onKeyDown={key} onPointerLeave={() => look(null)} onBlur={() => look(null)}
          onScroll={() => look(at)}>
          <Cells block={block} isDark={isDark} at={at} onAt={look} />
        </div>
        <Tip at={tip}>
          {at && (
            <>
              <div class="tip-head"><b>{rows[at[0]]}</b> × <b>{columns[at[1]]}</b></div>
              <div class="tip-line on"><b>{exactNumber(block.values[at[0]][at[1]], isShare)}</b></div>
              {block.notes.length > 0 && <span class="heatmap-note">{block.notes[at[0]][at[1]]}</span>}
            </>
          )}
        </Tip>
      </div>
      <div class="block-readout"><span class="block-ramp">{scaleEndNumber(block.low ?? 0, isShare)}<i style={{ background: gradient(rampOf(isSigned, isDark)) }} />{scaleEndNumber(block.high ?? 0, isShare)}</span></div>
    </>
  );
}

interface CellsProps {
  readonly block: Heatmap;
  readonly isDark: boolean;
  readonly at: Place | null;
  onAt(place: Place | null): void;
}

function Grid({ block, isDark, at, onAt }: CellsProps) {
  const { row_names: rows, column_names: columns, values, texts, shows_numbers: hasNumbers, is_share: isShare } = block;
  const hasTexts = texts.length > 0;
  const isSteep = Math.max(...columns.map((name) => name.length)) > (hasTexts ? 11 : hasNumbers ? 7 : 3);
  const over = (event: PointerEvent): void => {
    const cell = (event.target as Element).closest<HTMLElement>("td");
    if (cell) onAt([Number(cell.dataset.row), Number(cell.dataset.column)]);
  };
  return (
    <table class={`${hasTexts ? "worded" : hasNumbers ? "numbered" : columns.length > MANY_COLUMNS ? "dense" : ""}${isSteep ? " steep" : ""}`} onPointerOver={over}>
      <thead><tr><th />{columns.map((name, column) => <th key={column} scope="col" class={at?.[1] === column ? "at" : ""} title={name}><span>{name}</span></th>)}</tr></thead>
      <tbody>
        {rows.map((name, row) => (
          <tr key={row}>
            <th scope="row" class={at?.[0] === row ? "at" : ""} title={name}>{name}</th>
            {values[row].map((value, column) => (
              <td key={column} data-row={row} data-column={column} class={at?.[0] === row && at[1] === column ? "at" : ""}
                style={cellStyle(value, block, isDark) ?? undefined}>
                {hasTexts ? <><span>{texts[row][column]}</span>{hasNumbers && <small>{shortNumber(value, isShare)}</small>}</> : hasNumbers ? shortNumber(value, isShare) : ""}
              </td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function Pixels({ block, isDark, at, onAt }: CellsProps) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const [rows, columns] = [block.row_names.length, block.column_names.length];
  useLayoutEffect(() => {
    const context = canvas.current!.getContext("2d")!;
    const image = context.createImageData(columns, rows);
    block.values.forEach((line, row) => line.forEach((value, column) => {
      const color = cellColor(value, block, isDark);
      image.data.set(color ? [...color, 255] : [0, 0, 0, 0], 4 * (row * columns + column));
    }));
    context.putImageData(image, 0, 0);
  }, [block, isDark]);
  const over = (event: PointerEvent): void => {
    const { left, top, width, height } = canvas.current!.getBoundingClientRect();
    const [x, y] = [(event.clientX - left) / width, (event.clientY - top) / height];
    onAt([Math.max(0, Math.min(rows - 1, Math.floor(y * rows))), Math.max(0, Math.min(columns - 1, Math.floor(x * columns)))]);
  };
  return (
    <div class="heatmap-pixels" style={{ aspectRatio: `${columns} / ${rows}` }} onPointerMove={over}>
      <canvas ref={canvas} width={columns} height={rows} />
      {at && <i style={{ left: `${(100 * at[1]) / columns}%`, top: `${(100 * at[0]) / rows}%`, width: `${100 / columns}%`, height: `${100 / rows}%` }} />}
    </div>
  );
}

function cellOf(frame: HTMLElement, [row, column]: Place): HTMLElement | null {
  return frame.querySelector<HTMLElement>(`td[data-row="${row}"][data-column="${column}"]`);
}

/** Where a cell is in the window, be it an element or a pixel. */
function boxOf(frame: HTMLElement, place: Place, rows: number, columns: number): Box {
  const cell = cellOf(frame, place);
  if (cell) return cell.getBoundingClientRect();
  const { left, top, width, height } = frame.querySelector("canvas")!.getBoundingClientRect();
  const [row, column] = place;
  return { left: left + (width * column) / columns, right: left + (width * (column + 1)) / columns, top: top + (height * row) / rows, bottom: top + (height * (row + 1)) / rows };
}

function about({ title, row_names, column_names, low, high, is_share }: Heatmap): string {
  return `${title || "Heatmap"}. ${row_names.length} rows, ${column_names.length} columns, from ${exactNumber(low, is_share)} to ${exactNumber(high, is_share)}`;
}
