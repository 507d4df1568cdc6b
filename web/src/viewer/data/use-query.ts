// Hooks for server queries: cached data at once, else the previous data until the response arrives.

import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import type { Query } from "./api";
import type { Client } from "./client";

export interface QueryResult<T> {
  /** The response, or that of the previous query while this one loads. */
  readonly value: T | undefined;
  /** Whether `value` belongs to an earlier query. */
  readonly isOld: boolean;
  /** A sentence, if there is no answer. */
  readonly error: string | null;
}

const NOTHING: QueryResult<never> = { value: undefined, isOld: false, error: null };

/** Null queries for nothing. */
export function useQuery<T>(client: Client, query: Query<T> | null): QueryResult<T> {
  const last = useRef<T | undefined>(undefined);
  const [asked] = useQueries(client, query ? [query] : []);
  const { value = last.current, isOld, error } = asked ?? NOTHING;
  last.current = asked && error === null ? value : undefined;
  return { value: last.current, isOld, error };
}

/** Several queries at once. Here `value` is never that of a different query. */
export function useQueries<T>(client: Client, queries: readonly Query<T>[]): readonly QueryResult<T>[] {
  const [failed, setFailed] = useState<ReadonlyMap<string, string>>(new Map());
  const [, setCame] = useState(0);
  const wanted = queries.map((query) => `${client.version(query.run)} ${query.key}`);
  const isMissing = (query: Query<T>, i: number): boolean => client.peek(query) === undefined && !failed.has(wanted[i]);
  // In a layout effect, so that cached data is rendered in the same frame.
  useLayoutEffect(() => {
    const stop = new AbortController();
    queries.forEach((query, i) => {
      if (!isMissing(query, i)) return;
      client.load(query, stop.signal).then(
        () => stop.signal.aborted || setCame((n) => n + 1),
        (error: Error) => stop.signal.aborted || setFailed((before) => new Map(before).set(wanted[i], error.message)),
      );
    });
    return () => stop.abort();
  }, [client, wanted.join("\n")]);
  // Ignore errors of queries that are no longer current.
  useEffect(() => {
    if ([...failed.keys()].some((key) => !wanted.includes(key))) setFailed(new Map([...failed].filter(([key]) => wanted.includes(key))));
  }, [wanted.join("\n")]);
  return queries.map((query, i) => {
    const value = client.peek(query);
    const error = value === undefined ? failed.get(wanted[i]) ?? null : null;
    return { value: value ?? (error === null ? client.old(query) : undefined), isOld: value === undefined, error };
  });
}
