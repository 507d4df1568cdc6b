// A matrix as colours: cells with numbers while they are few, pixels when they are many.

import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { gradient } from "../lib/colours";
import { full, said } from "./numbers";
import { cellColour, cellTint, rampOf } from "./tints";
import { after, type Place } from "./walking";
import type { Heatmap } from "./wire";

/** More cells than these are pixels. */
const MOST_CELLS = 2500;

export function HeatmapPlate({ plate, isDark }: { plate: Heatmap; isDark: boolean }) {
  const [at, setAt] = useState<Place | null>(null);
  const { row_names: rows, column_names: columns, is_diverging: isSigned } = plate;
  const [low, high] = [plate.low ?? 0, plate.high ?? 0];
  if (!rows.length || !columns.length) return <p class="quiet">No cells.</p>;
  const isLarge = rows.length * columns.length > MOST_CELLS;
  const key = (event: KeyboardEvent): void => {
    const next = after(event.key, at, rows.length, columns.length);
    if (!next) return;
    setAt(next);
    event.preventDefault();
    event.stopPropagation();
  };
  const Cells = isLarge ? Pixels : Grid;
  return (
    <>
      <div class="heatmap" role="group" aria-label={about(plate)} tabIndex={0} onKeyDown={key} onPointerLeave={() => setAt(null)} onBlur={() => setAt(null)}>
        <Cells plate={plate} isDark={isDark} at={at} onAt={setAt} />
      </div>
      <div class="plate-said" aria-live="polite">
        {at ? <><b>{rows[at[0]]}</b> × <b>{columns[at[1]]}</b> {full(plate.values[at[0]][at[1]])}{plate.notes.length > 0 && <span class="heatmap-note">{plate.notes[at[0]][at[1]]}</span>}</> : (
          <span class="plate-ramp">{said(low)}<i style={{ background: gradient(rampOf(isSigned, isDark)) }} />{said(high)}</span>
        )}
      </div>
    </>
  );
}

interface CellsProps {
  readonly plate: Heatmap;
  readonly isDark: boolean;
  readonly at: Place | null;
  onAt(place: Place | null): void;
}

function Grid({ plate, isDark, at, onAt }: CellsProps) {
  const { row_names: rows, column_names: columns, values, texts, shows_numbers: hasNumbers } = plate;
  const hasTexts = texts.length > 0;
  const isSteep = Math.max(...columns.map((name) => name.length)) > (hasTexts ? 11 : hasNumbers ? 7 : 3);
  const over = (event: PointerEvent): void => {
    const cell = (event.target as Element).closest<HTMLElement>("td");
    if (cell) onAt([Number(cell.dataset.row), Number(cell.dataset.column)]);
  };
  return (
    <table class={`${hasTexts ? "worded" : hasNumbers ? "numbered" : ""}${isSteep ? " steep" : ""}`} onPointerOver={over}>
      <thead><tr><th />{columns.map((name, column) => <th key={column} scope="col" class={at?.[1] === column ? "at" : ""} title={name}><span>{name}</span></th>)}</tr></thead>
      <tbody>
        {rows.map((name, row) => (
          <tr key={row}>
            <th scope="row" class={at?.[0] === row ? "at" : ""} title={name}>{name}</th>
            {values[row].map((value, column) => (
              <td key={column} data-row={row} data-column={column} class={at?.[0] === row && at[1] === column ? "at" : ""}
                style={cellTint(value, plate, isDark) ?? undefined}>
                {hasTexts ? <><span>{texts[row][column]}</span>{hasNumbers && <small>{said(value)}</small>}</> : hasNumbers ? said(value) : ""}
              </td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function Pixels({ plate, isDark, at, onAt }: CellsProps) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const [rows, columns] = [plate.row_names.length, plate.column_names.length];
  useLayoutEffect(() => {
    const context = canvas.current!.getContext("2d")!;
    const image = context.createImageData(columns, rows);
    plate.values.forEach((line, row) => line.forEach((value, column) => {
      const colour = cellColour(value, plate, isDark);
      image.data.set(colour ? [...colour, 255] : [0, 0, 0, 0], 4 * (row * columns + column));
    }));
    context.putImageData(image, 0, 0);
  }, [plate, isDark]);
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

function about({ title, row_names, column_names, low, high }: Heatmap): string {
  return `${title || "Heatmap"}. ${row_names.length} rows, ${column_names.length} columns, from ${full(low)} to ${full(high)}`;
}
