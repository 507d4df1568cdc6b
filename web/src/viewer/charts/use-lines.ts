// Loads lines over steps for all shown runs.

import { useMemo, useRef } from "preact/hooks";
import { allKinds, linesOf, type StepLine } from "../../lib/charts/lines";
import type { RowView } from "../../lib/wire";
import { bandQuery, curveQuery, scalarQuery, type Query, type CurveData } from "../data/api";
import { counterpart, type PassFilter } from "../choice";
import type { Client } from "../data/client";
import type { ShownRun } from "../panels/props";
import { useQueries } from "../data/use-query";

export interface Lines {
  readonly lines: readonly StepLine[];
  readonly isLoading: boolean;
  /** One error message per run that failed to load. */
  readonly errors: readonly string[];
  /** Whether the seconds are known. */
  readonly hasSeconds: boolean;
}

export interface LinesOptions {
  readonly kind: string | null;
  readonly isByKind: boolean;
  readonly xName: "step" | "seconds";
}

interface RunQuery {
  readonly run: ShownRun;
  readonly query: Query<CurveData>;
}

/** One statistic of the tensor of a row, in every run that has it: of one pass if one is picked, else of all together. */
export function useTensorLines(client: Client, runs: readonly ShownRun[], row: RowView | null, stat: string, options: LinesOptions & { picked: PassFilter }): Lines {
  const { picked } = options;
  const wanted = runs.flatMap((run): RunQuery[] => {
    const own = row && run.view.statistics.includes(stat) ? counterpart(run.view, row, picked) : null;
    if (!own) return [];
    const { id } = run.view.item;
    return [{ run, query: own.n_passes > 1 ? bandQuery(id, own.row, stat, picked.iteration, picked.pass) : curveQuery(id, own.row, stat) }];
  });
  return useLines(client, wanted, runs, options);
}

/** A logged number, in every run that has it. */
export function useScalarLines(client: Client, runs: readonly ShownRun[], name: string, options: LinesOptions): Lines {
  const wanted = runs.filter(({ view }) => view.scalars.includes(name)).map((run): RunQuery => ({ run, query: scalarQuery(run.view.item.id, name) }));
  return useLines(client, wanted, runs, options);
}

function useLines(client: Client, wanted: readonly RunQuery[], all: readonly ShownRun[], { kind, isByKind, xName }: LinesOptions): Lines {
  const isOneOfMany = all.length > 1;
  const asked = useQueries(client, wanted.map(({ query: query }) => query));
  const came = useSame(asked.map(({ value }) => value));
  const runs = useSame(wanted.map(({ run }) => run.view));
  const colors = useSame(wanted.map(({ run }) => run.color));
  const letters = useSame(wanted.map(({ run }) => (isOneOfMany ? run.letter : "")));
  const kinds = useSame(allKinds(all.map(({ view }) => view)));
  const lines = useMemo(() => came.flatMap((recorded, i) => (
    recorded ? linesOf(runs[i], recorded, { color: colors[i], letter: letters[i], isOneOfMany, kind, isByKind, xName, kinds }) : []
  )), [came, runs, colors, letters, isOneOfMany, kind, isByKind, xName, kinds]);
  return {
    lines, isLoading: asked.some(({ value, error }) => value === undefined && error === null),
    errors: asked.flatMap(({ error }) => (error === null ? [] : [error])), hasSeconds: came.some((recorded) => recorded?.seconds),
  };
}

/** The previous array if its items are the same, so that memoized consumers do not update. */
function useSame<T>(list: readonly T[]): readonly T[] {
  const before = useRef(list);
  const isSame = before.current.length === list.length && list.every((one, i) => one === before.current[i]);
  if (!isSame) before.current = list;
  return before.current;
}
