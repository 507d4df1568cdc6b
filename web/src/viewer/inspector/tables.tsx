// Tables of per-unit and per-sample statistics.

import { useMemo } from "preact/hooks";
import { titleOf } from "../../lib/values/statistics";
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
  return <LoadedTable error={error} columns={columns} n={table.n_rows} label="Units" />;
}

function Samples({ run, client, tensor, table, choice, act }: PanelProps & { tensor: TensorView; table: TableView }) {
  const { value, error } = useQuery(client, samplesTableQuery(run.item.id, tensor.row, tensor.step));
  const { value: known } = useQuery(client, samplesQuery(run.item.id, tensor.step));
  const nKept = known?.n_kept ?? 0;
  const columns = useMemo(() => (value ? [indexColumn("sample"), ...contentColumns(known?.items ?? []), ...columnsOf(value, table).map((column) => (known?.items.length ? { ...column, width: 76 } : column))] : []), [value, known, table]);
  return (
    <>
      <LoadedTable error={error} columns={columns} n={table.n_rows} label="Samples" selected={choice.sample}
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
function columnsOf({ values, n_rows: n, n_columns: across }: Matrix, { columns, n_rows }: TableView): Column[] {
  // The array may be transposed: one row per line of the table, or one per column.
  const isTurned = n === columns.length && across === n_rows && n !== across;
  return columns.map((name, place) => {
    const at = (row: number): number => (isTurned ? values[place * across + row] : values[row * across + place]);
    return {
      name, title: titleOf(name), isNumber: true, least: 70, text: (row) => exact(at(row)), by: at, draw: (row) => short(at(row)),
      mark: (row) => (Number.isFinite(at(row)) ? "" : "bad"),
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
}

function LoadedTable({ error, columns, n, label, selected, onSelect }: LoadedTableProps) {
  if (error !== null) return <p class="note">{error}</p>;
  if (!columns.length) return <p class="note loading">Loading…</p>;
  return (
    <div class="tensor-table" style={{ height: `${Math.min(HIGHEST, 32 + ROW * n + 12)}px` }}>
      <VirtualTable label={label} columns={columns} rows={n} rowHeight={ROW} selected={selected} onSelect={onSelect} />
    </div>
  );
}
