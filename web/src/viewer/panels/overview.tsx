// The Overview tab: all tensors of a step in one table, with value ranges on one axis.

import type { RefObject } from "preact";
import { useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { Menu, Segments } from "../../graph/controls";
import { Icon } from "../../graph/icons";
import { axisOf } from "../../lib/charts/symlog";
import { rangeAt, type Range } from "../charts/quantile-range";
import { quantityTitle } from "../../lib/values/quantity";
import { aboutOf, isQuantile, selectableStatistics, statisticOf, titleOf } from "../../lib/values/statistics";
import { anomalyAt, statisticAt, type Matrix } from "../../lib/values/node-colors";
import { counted, exact, short } from "../../lib/formatting";
import type { RowView, RunView, StepMarks, TrainingMark, Unusual } from "../../lib/wire";
import { marksQuery, matrixQuery } from "../data/api";
import { choose, optionsOf, selectRow } from "../choice";
import { StateSign } from "../graph/color-legend";
import { Failure, Hint } from "../hint";
import type { PanelProps } from "./props";
import { AxisTitle, RangeBar } from "../charts/range-bar";
import { logName, scaleChoice } from "../charts/scale-menu";
import { useQuery } from "../data/use-query";
import { VirtualTable, type Column, type Sorting } from "../virtual-table";
import "../../style/viewer/overview.css";

const RANGES = "ranges";
const DOTS: Readonly<Record<string, string>> = { input: "input", parameter: "parametric", buffer: "buffer", target: "target", loss: "loss" };

export function OverviewPanel({ run, state, choice, act, client }: PanelProps) {
  const { value: matrix, error } = useQuery(client, choice.step < 0 ? null : matrixQuery(run.item.id, choice.step));
  const { value: marked } = useQuery(client, choice.step < 0 ? null : marksQuery(run.item.id, choice.step));
  const marks = useMemo(() => marksAt(run, marked?.step === choice.step ? marked : undefined), [run.rows, marked, choice.step]);
  const { ofs } = optionsOf(run);
  const [role, query] = [state.kept.role ?? "", state.kept.find ?? ""];
  const roles = useMemo(() => [...new Set(run.rows.map((row) => row.role))], [run.rows]);
  // The selection of the user, not the closest match for the selected tensor.
  const asked = choose(run, { ...state, node: null }).of;
  const here = state.kept.of === "all" ? "all" : asked;
  const rows = useMemo(() => chosen(run, { role, query, of: here }, marks), [run.rows, role, query, here, ofs, marks]);
  // What training does not reach keeps its row, also where its gradient was never recorded.
  const recorded = useMemo(() => (matrix ? rows.filter((row) => anomalyAt(matrix, row) !== "none" || marks.training.has(row)) : rows), [rows, matrix, marks]);
  const { isLog } = scaleChoice(state.kept, RANGES);
  const place = useRef<HTMLDivElement>(null);
  const isTight = useTight(place);
  const columns = useMemo(() => (matrix ? columnsOf(run, matrix, recorded, { isTight, isLog, marks, of: here }) : []), [run, matrix, recorded, isTight, isLog, marks, here]);
  const byNumber = useMemo(() => new Map(run.rows.map((row) => [row.row, row])), [run.rows]);
  const keep = (name: string, text: string): void => act({ do: "keep", name, text });
  const select = (number: number): void => act(selectRow(byNumber.get(number)!, state));
  if (choice.step < 0) return <Hint title="No steps recorded yet"><p>Tensors appear here after the first recorded step.</p></Hint>;
  if (error !== null) return <Failure what="This step" error={error} />;
  return (
    <div class="overview" ref={place}>
      <div class="overview-bar" role="toolbar" aria-label="Filters">
        <label class="search">
          <Icon name="search" />
          <input type="text" placeholder="attn weight" aria-label="Search tensors" spellcheck={false} autocomplete="off" value={query}
            onInput={(event) => keep("find", event.currentTarget.value)} />
        </label>
        {ofs.length > 1 && (
          <Segments name="Quantities" value={here === "all"} onChoose={(is) => keep("of", is ? "all" : "")} choices={[
            { value: false, text: quantityTitle(asked), title: "Only the quantity selected above" },
            { value: true, text: "everything", title: "Values, gradients and updates in one table" },
          ]} />
        )}
        <Menu name="Role" value={role} onChoose={(text) => keep("role", text)}
          choices={[["", "all roles"], ...roles.map((name) => [name, name] as const)]} />
        <Menu name="Scale of the ranges" value={isLog === null ? "" : isLog ? "1" : "0"} onChoose={(text) => keep(logName(RANGES), text)}
          choices={[["", "auto scale"], ["0", "linear scale"], ["1", "log scale"]]} />
        <span class="shown-count">{counted(recorded.length, "tensor")} at step {choice.step.toLocaleString("en")}</span>
      </div>
      <div class="overview-table">
        <VirtualTable label={`Tensors at step ${choice.step}`} columns={columns} rows={recorded} version={matrix}
          sorting={sortingOf(state.kept.sort)} onSort={(sorting) => keep("sort", sorting ? `${sorting.column} ${sorting.isDown ? "down" : "up"}` : "")}
          selected={choice.row?.row ?? null} onSelect={select}
          empty={rows.length ? "Not recorded at this step." : "No matches"} />
      </div>
      {marked && <p class="quiet unusual-help">Orange: unusual. {marked.help}</p>}
    </div>
  );
}

/** What stands out at a step, by row. */
interface RowMarks {
  readonly unusual: ReadonlyMap<string, Unusual>;
  /** Of all rows of a tensor. */
  readonly training: ReadonlyMap<number, TrainingMark>;
}

function marksAt(run: RunView, marked: StepMarks | undefined): RowMarks {
  const unusual = new Map((marked?.unusual ?? []).map((one) => [`${one.row} ${one.statistic}`, one]));
  const byRow = new Map((marked?.training ?? []).map((one) => [one.row, one]));
  const place = ({ site, iteration, pass_ }: RowView): string => `${site} ${iteration} ${pass_}`;
  const byTensor = new Map(run.rows.flatMap((row) => (byRow.has(row.row) ? [[place(row), byRow.get(row.row)!]] : [])));
  return { unusual, training: new Map(run.rows.flatMap((row) => (byTensor.has(place(row)) ? [[row.row, byTensor.get(place(row))!]] : []))) };
}

/** Width in pixels below which columns are compact. */
const TIGHT = 640;

function useTight(place: RefObject<HTMLElement | null>): boolean {
  const [isTight, setTight] = useState(false);
  useLayoutEffect(() => {
    const element = place.current;
    if (!element) return undefined;
    const take = (): void => setTight(element.clientWidth > 0 && element.clientWidth < TIGHT);
    const observer = new ResizeObserver(take);
    observer.observe(element);
    take();
    return () => observer.disconnect();
  }, [place.current]);
  return isTight;
}

function sortingOf(text: string | undefined): Sorting | null {
  const [, column, way] = /^(.+) (down|up)$/.exec(text ?? "") ?? [];
  return column ? { column, isDown: way === "down" } : null;
}

/** The rows that fit: all words in any of its names. A tensor without gradient or update stands there with its value. */
function chosen(run: RunView, { role, query, of }: { role: string; query: string; of: string }, { training }: RowMarks): Int32Array {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  const { ofs } = optionsOf(run);
  const has = new Set(run.rows.flatMap((row) => (row.of === of ? [`${row.site} ${row.iteration} ${row.pass_}`] : [])));
  const standsIn = (row: RowView): boolean => row.of === "value" && training.has(row.row) && !has.has(`${row.site} ${row.iteration} ${row.pass_}`);
  return Int32Array.from(run.rows.filter((row) => {
    if (!ofs.includes(row.of) || (of !== "all" && row.of !== of && !standsIn(row)) || (role && row.role !== role)) return false;
    const text = [row.site, row.title, row.node, row.part, row.of, ...row.names].join(" ").toLowerCase();
    return words.every((word) => text.includes(word));
  }), (row) => row.row);
}

/** Width of the dot and padding beside a name, in pixels. */
const ROOM = 34;
/** Of a letter in the column of names. */
const LETTER = 7.25;

interface ColumnOptions {
  readonly isTight: boolean;
  /** Whether ranges are drawn on a log scale; null to choose by their values. */
  readonly isLog: boolean | null;
  readonly marks: RowMarks;
  /** The quantity that the table shows; "all" for all. */
  readonly of: string;
}

function columnsOf(run: RunView, matrix: Matrix, rows: Int32Array, { isTight, isLog, marks, of: shown }: ColumnOptions): Column[] {
  const { statistics } = run;
  const isOther = (row: number): boolean => shown !== "all" && of(row).of !== shown;
  const states = [...rows].some((row) => marks.training.has(row));
  const byNumber = new Map(run.rows.map((row) => [row.row, row]));
  const of = (number: number): RowView => byNumber.get(number)!;
  const ranges = new Map([...rows].map((row) => [row, rangeAt(matrix, statistics, isOther(row) ? -1 : row)]));
  const names = selectableStatistics(statistics).filter((name) => !isQuantile(name) && name !== "count");
  const hasPasses = run.rows.some((row) => row.pass_ > 1);
  const hasIterations = run.rows.some((row) => row.iteration > 0);
  const longest = rows.reduce((most, row) => Math.max(most, label(of(row)).length), 0);
  const width = Math.max(110, Math.min(isTight ? 170 : 290, Math.ceil(longest * LETTER) + ROOM));
  const training: Column[] = states ? [{
    name: "training", title: "Training", plain: "training", width: isTight ? 130 : 180, text: (row: number) => marks.training.get(row)?.text ?? "", by: (row: number) => marks.training.get(row)?.text ?? "",
    draw: (row: number) => {
      const mark = marks.training.get(row);
      return mark ? <span class="state-words" title={mark.about}><StateSign state={mark.state} />{mark.text}</span> : "";
    },
    mark: () => "quiet",
  }] : [];
  return [
    {
      name: "tensor", title: "Tensor", width, text: (row) => label(of(row)), by: (row) => label(of(row)), mark: () => "name",
      draw: (row) => <><i class={`dot kind-${DOTS[of(row).role] ?? "plain"}`} title={of(row).role} />{lastCharacters(label(of(row)), Math.floor((width - ROOM) / LETTER))}</>,
    },
    ...(isTight ? [] : training),
    ...(shown === "all" && new Set(Array.from(rows, (row) => of(row).of)).size > 1 ? [{ name: "of", title: "Of", width: 110, text: (row: number) => quantityTitle(of(row).of), by: (row: number) => of(row).of, mark: () => "quiet" }] : []),
    ...(hasIterations ? [{
      name: "iteration", title: "Iter.", plain: "iteration", width: 52, isNumber: true, text: (row: number) => `${of(row).iteration || ""}`, by: (row: number) => of(row).iteration,
    }] : []),
    ...(hasPasses ? [{
      name: "pass", title: "Pass", plain: "pass", width: 52, isNumber: true, text: (row: number) => `${of(row).n_passes > 1 ? of(row).pass_ : ""}`, by: (row: number) => of(row).pass_,
    }] : []),
    rangeColumn(ranges, rows, isTight, isLog),
    ...names.map((name) => numberColumn(name, matrix, statistics, { unusual: marks.unusual, isOther })),
    ...(isTight ? training : []),
  ];
}

function label({ site, part, node, title }: RowView): string {
  return title || (part && node ? `${node} · ${part}` : site);
}

/** The end of a name says most. */
function lastCharacters(name: string, most: number): string {
  return name.length > most ? `…${name.slice(name.length - most + 1)}` : name;
}

function rangeColumn(ranges: ReadonlyMap<number, Range>, rows: Int32Array, isTight: boolean, isLog: boolean | null): Column {
  const axis = axisOf([...rows].flatMap((row) => Object.values(ranges.get(row)!)), isLog);
  const at = (row: number): Range => ranges.get(row)!;
  const most = ({ min, max }: Range): number => (Number.isNaN(max) ? NaN : Math.max(Math.abs(min), Math.abs(max)));
  return {
    name: "range", plain: "range", title: () => <AxisTitle axis={axis} gap={isTight ? 0.22 : 0.15} />, about: "min · p5 · median · p95 · max, on one axis. Sorts by largest magnitude.",
    text: (row) => [at(row).min, at(row).low, at(row).middle, at(row).high, at(row).max].map((value) => exact(value)).join(" "),
    by: (row) => most(at(row)), draw: (row) => <RangeBar axis={axis} range={at(row)} />, least: isTight ? 150 : 220, mark: () => "range",
  };
}

interface NumberOptions {
  readonly unusual: RowMarks["unusual"];
  /** Whether a row stands in for a gradient that its tensor does not have. */
  isOther(row: number): boolean;
}

function numberColumn(name: string, matrix: Matrix, statistics: readonly string[], { unusual, isOther }: NumberOptions): Column {
  const column = statistics.indexOf(name);
  const { unit, is_fault: isFault } = statisticOf(name);
  // The number of zeros is meaningful only relative to the number of elements.
  const isShare = unit === "elements" && !isFault && statistics.includes("count");
  const count = statistics.indexOf("count");
  const at = (row: number): number => (isOther(row) ? NaN : statisticAt(matrix, row, column) / (isShare ? statisticAt(matrix, row, count) : 1));
  const isNaNs = (row: number): boolean => !isOther(row) && anomalyAt(matrix, row) === "nan";
  const isBroken = (row: number): boolean => !isOther(row) && ["nan", "inf"].includes(anomalyAt(matrix, row));
  const cellText = (row: number, write: (value: number) => string): string =>
    (Number.isNaN(at(row)) ? (isNaNs(row) ? "NaN" : "–") : isShare ? `${write(100 * at(row))} %` : write(at(row)));
  return {
    name, title: titleOf(name), plain: name, about: aboutOf(name), width: Math.max(80, titleOf(name).length * 7 + 22), isNumber: true, by: at,
    text: (row) => cellText(row, exact), draw: (row) => cellText(row, short),
    tooltip: (row) => (isOther(row) ? "" : unusual.get(`${row} ${name}`)?.about) ?? cellText(row, exact),
    mark: (row) => {
      const value = at(row);
      if (isFault) return value > 0 && isBroken(row) ? "bad" : "quiet";
      if (!Number.isFinite(value)) return !isBroken(row) ? "quiet" : "bad";
      return unusual.has(`${row} ${name}`) && !isOther(row) ? "warn" : isShare && value >= 0.9 ? "warn" : "";
    },
  };
}
