// Tables of per-unit and per-sample statistics.

import { useMemo } from "preact/hooks";
import { titleOf, zText } from "../../lib/values/statistics";
import { counted, exact, short } from "../../lib/formatting";
import type { SampleItem, TableView, TensorView } from "../../lib/wire";
import type { Matrix } from "../../lib/values/node-colors";
import { samplesQuery, samplesTableQuery, unitsQuery } from "../data/api";
import type { PanelProps } from "../panels/props";
import { useQuery } from "../data/use-query";
import { VirtualTable, type Column } from "../virtual-table";
import { Fold } from "./fold";

const ROW = 24;
const HIGHEST = 300;

export function Tables(props: PanelProps & { tensor: TensorView }) {
  const { units, samples, about_units: remark } = props.tensor;
  return (
    <>
      {units && <Fold title="Units" aside={about(units, "unit")}>{() => <>{remark && <p class="quiet">{remark}</p>}<Units {...props} table={units} /></>}</Fold>}
      {!units && remark && <Fold title="Units" aside="not available">{() => <p class="quiet">{remark}</p>}</Fold>}
      {samples && <Fold title="Samples" aside={about(samples, "sample")}>{() => <Samples {...props} table={samples} />}</Fold>}
    </>
  );
}

function about({ n_rows, source }: TableView, what: string): string {
  return `${counted(n_rows, what)}, ${source === "batch" ? "over the whole batch" : "of the kept values"}`;
}

function Units({ run, client, tensor, table }: PanelProps & { tensor: TensorView; table: TableView }) {
  const { value, error } = useQuery(client, unitsQuery(run.item.id, tensor.row, tensor.step));
  const columns = useMemo(() => (value ? [indexColumn("unit"), ...columnsOf(value, table)] : []), [value, table]);
  const order = useMemo(() => (value ? outliersFirst(value) : null), [value]);
  return <LoadedTable error={error} columns={columns} n={table.n_rows} label="Units" order={order} what="unit" />;
}

function Samples({ run, client, tensor, table, choice, act }: PanelProps & { tensor: TensorView; table: TableView }) {
  const { value, error } = useQuery(client, samplesTableQuery(run.item.id, tensor.row, tensor.step));
  const { value: known } = useQuery(client, samplesQuery(run.item.id, tensor.step));
  const nKept = known?.n_kept ?? 0;
  const columns = useMemo(() => (value ? [indexColumn("sample"), ...contentColumns(known?.items ?? []), ...columnsOf(value, table).map((column) => (known?.items.length ? { ...column, width: 76 } : column))] : []), [value, known, table]);
  const order = useMemo(() => (value ? outliersFirst(value) : null), [value]);
  return (
    <>
      <LoadedTable error={error} columns={columns} n={table.n_rows} label="Samples" selected={choice.sample} order={order} what="sample"
        onSelect={(sample) => act({ do: "sample", sample: sample === choice.sample || sample >= nKept ? null : sample })} />
      {nKept > 0 && <p class="quiet">Click a sample to select it; click it again for the whole batch{nKept < table.n_rows ? `. Only the first ${nKept} were kept` : ""}.</p>}
    </>
  );
}

function indexColumn(name: string): Column {
  return { name, title: name, width: 28 + 7 * name.length, isNumber: true, text: String, by: (row) => row };
}

function contentColumns(items: readonly SampleItem[]): Column[] {
  const words = (row: number): string => [items[row]?.label, items[row]?.text || items[row]?.id].filter(Boolean).join(" · ");
  return items.some((_, row) => words(row)) ? [{ name: "what", title: "content", least: 84, text: words, by: words }] : [];
}

/** The columns of numbers. */
function columnsOf(matrix: Matrix, { columns, n_rows }: TableView): Column[] {
  const { values, z, n_rows: n, n_columns: across } = matrix;
  // The array may be transposed: one row per line of the table, or one per column.
  const isTurned = n === columns.length && across === n_rows && n !== across;
  return columns.map((name, place) => {
    const spot = (row: number): number => (isTurned ? place * across + row : row * across + place);
    const at = (row: number): number => values[spot(row)];
    const zAt = (row: number): number => z?.[spot(row)] ?? NaN;
    return {
      name, title: titleOf(name), isNumber: true, least: 70, text: (row) => exact(at(row)), by: at, draw: (row) => short(at(row)),
      mark: (row) => (Number.isFinite(at(row)) && Number.isNaN(zAt(row)) ? "" : "bad"),
      tooltip: (row) => (Number.isNaN(zAt(row)) ? exact(at(row)) : `${exact(at(row))}: z-score ${zText(zAt(row))} among the rows of this table`),
    };
  });
}

interface LoadedTableProps {
  readonly error: string | null;
  readonly columns: readonly Column[];
  readonly n: number;
  readonly label: string;
  readonly selected?: number | null;
  readonly onSelect?: (row: number) => void;
  /** The rows in their order, and how many of the first are outliers. */
  readonly order: { readonly rows: Int32Array; readonly n: number } | null;
  /** What a row is. */
  readonly what: string;
}

/** Rows with an unusual or broken number come first, the strongest of them before the others; the rest in order. */
export function outliersFirst({ n_rows: n, n_columns: across, values, z }: Matrix): { rows: Int32Array; n: number } {
  const strength = Float64Array.from({ length: n }, (_, row) => {
    let most = 0;
    for (let column = 0; column < across; column++) {
      if (!Number.isFinite(values[row * across + column])) return Infinity;
      most = Math.max(most, Math.abs(z?.[row * across + column] ?? 0) || 0);
    }
    return most;
  });
  const rows = Int32Array.from({ length: n }, (_, row) => row).sort((a, b) => (strength[a] === strength[b] ? a - b : strength[b] - strength[a]));
  return { rows, n: strength.reduce((sum, own) => sum + (own > 0 ? 1 : 0), 0) };
}

function LoadedTable({ error, columns, n, label, selected, onSelect, order, what }: LoadedTableProps) {
  if (error !== null) return <p class="note">{error}</p>;
  if (!columns.length) return <p class="note loading">Loading…</p>;
  return (
    <>
      {order !== null && order.n > 0 && order.n < n && <p class="quiet">{counted(order.n, `${what} is`, `${what}s are`)} unusual among the {n.toLocaleString("en")} and {order.n === 1 ? "comes" : "come"} first.</p>}
      <div class="tensor-table" style={{ height: `${Math.min(HIGHEST, 32 + ROW * n + 12)}px` }}>
        <VirtualTable label={label} columns={columns} rows={order?.rows ?? n} rowHeight={ROW} selected={selected} onSelect={onSelect} />
      </div>
    </>
  );
}
