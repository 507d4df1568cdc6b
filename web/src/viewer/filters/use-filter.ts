// Hook for what the filters leave of a run.

import { useMemo } from "preact/hooks";
import type { FilterView, RunView } from "../../lib/wire";
import { filterQuery } from "../data/api";
import type { Client } from "../data/client";
import { useQuery } from "../data/use-query";
import type { State } from "../state";
import { BAR, readFilters } from "./address";

export interface LeftByFilters {
  readonly filters: readonly string[];
  /** Undefined until the server has answered, and without filters or an open bar. */
  readonly view: FilterView | undefined;
  /** Places in `run.steps`, in order; null if all are left. */
  readonly left: readonly number[] | null;
  /** Why there is no answer. */
  readonly error: string | null;
}

export function useFilter(client: Client, run: RunView | null, { kept }: State): LeftByFilters {
  const text = readFilters(kept).join("\n");
  const filters = useMemo(() => (text ? text.split("\n") : []), [text]);
  const isAsked = run !== null && run.steps.length > 0 && (filters.length > 0 || kept[BAR] === "open");
  const { value, error } = useQuery(client, isAsked ? filterQuery(run!.item.id, filters) : null);
  const view = isAsked ? value : undefined;
  const left = useMemo(() => (run && view && filters.length ? placesOf(run, view) : null), [run, view, filters]);
  return { filters, view, left, error: isAsked ? error : null };
}

/** The places of the steps that are left; both lists are in order. */
export function placesOf({ steps }: Pick<RunView, "steps">, view: Pick<FilterView, "steps">): number[] {
  const wanted = new Set(view.steps);
  return steps.flatMap((step, place) => (wanted.has(step) ? [place] : []));
}
