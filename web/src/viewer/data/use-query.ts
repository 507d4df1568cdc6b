// Something asked of the server, in a component: from memory at once, else what was shown before until it comes.

import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import type { Ask } from "./api";
import type { Client } from "./client";

export interface Asked<T> {
  /** The answer, or that to the question before while this one is on its way. */
  readonly value: T | undefined;
  /** Whether `value` is no answer to what is asked now. */
  readonly isOld: boolean;
  /** A sentence, if there is no answer. */
  readonly error: string | null;
}

const NOTHING: Asked<never> = { value: undefined, isOld: false, error: null };

/** Null asks for nothing. */
export function useAsked<T>(client: Client, ask: Ask<T> | null): Asked<T> {
  const last = useRef<T | undefined>(undefined);
  const [asked] = useAskedAll(client, ask ? [ask] : []);
  const { value = last.current, isOld, error } = asked ?? NOTHING;
  last.current = asked && error === null ? value : undefined;
  return { value: last.current, isOld, error };
}

/** Several at once, in their order. Here `value` is at most an older answer to the same question. */
export function useAskedAll<T>(client: Client, asks: readonly Ask<T>[]): readonly Asked<T>[] {
  const [failed, setFailed] = useState<ReadonlyMap<string, string>>(new Map());
  const [, setCame] = useState(0);
  const wanted = asks.map((ask) => `${client.version(ask.run)} ${ask.key}`);
  const isMissing = (ask: Ask<T>, i: number): boolean => client.peek(ask) === undefined && !failed.has(wanted[i]);
  // Before the frame is painted: a frame later would be a frame lost.
  useLayoutEffect(() => {
    const stop = new AbortController();
    asks.forEach((ask, i) => {
      if (!isMissing(ask, i)) return;
      client.load(ask, stop.signal).then(
        () => stop.signal.aborted || setCame((n) => n + 1),
        (error: Error) => stop.signal.aborted || setFailed((before) => new Map(before).set(wanted[i], error.message)),
      );
    });
    return () => stop.abort();
  }, [client, wanted.join("\n")]);
  // Errors of what is no longer asked for are let go.
  useEffect(() => {
    if ([...failed.keys()].some((key) => !wanted.includes(key))) setFailed(new Map([...failed].filter(([key]) => wanted.includes(key))));
  }, [wanted.join("\n")]);
  return asks.map((ask, i) => {
    const value = client.peek(ask);
    const error = value === undefined ? failed.get(wanted[i]) ?? null : null;
    return { value: value ?? (error === null ? client.old(ask) : undefined), isOld: value === undefined, error };
  });
}
