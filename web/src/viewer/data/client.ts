// HTTP client with a cache: deduplicates requests in flight and prefetches when idle.

import type { Query } from "./api";

export interface Client {
  /** The answer, if it is at hand. */
  peek<T>(query: Query<T>): T | undefined;
  /** The answer, even one from before the run grew. */
  old<T>(query: Query<T>): T | undefined;
  /** The response; rejects with a `QueryError` whose message is for the user. Aborting the last waiter cancels the request. */
  load<T>(query: Query<T>, signal?: AbortSignal): Promise<T>;
  /** Load when idle, because it will probably be needed soon. Replaces the previous prefetch list. */
  prefetch(queries: readonly Query<unknown>[]): void;
  /** A run has grown: mark its changing responses as stale. They stay visible until they are reloaded. "" for the list of runs. */
  grew(run: string): void;
  /** Counts up with each growth of a run, and for all of them when the server answers again. */
  version(run: string): number;
  /** Invalidate everything of a run, including requests in flight, except one response: the run was resumed or rewritten. */
  forget(run: string, but: Query<unknown>): void;
  /** Number of pending responses. */
  readonly n_waiting: number;
  /** Calls back when nothing is pending any more. Returns a function that unsubscribes. */
  onIdle(call: () => void): () => void;
}

/** Why there is no answer, as a sentence. */
export class QueryError extends Error {
  constructor(message: string, readonly status: number) {
    super(message);
  }
}

interface Entry {
  readonly value: unknown;
  readonly version: number;
  readonly size: number;
  readonly run: string;
}

interface Flight {
  readonly promise: Promise<unknown>;
  readonly stop: AbortController;
  nWaiting: number;
}

export interface ClientOptions {
  readonly fetch?: typeof fetch;
  /** Cache size in bytes. */
  readonly budget?: number;
}

const AWAY = "The server is not responding. Is cutaway view still running?";
/** Maximum number of concurrent prefetches. */
const AHEAD = 2;
/** Milliseconds that a response waits for others of the same batch, so that the page renders once for all. */
const TOGETHER = 20;

export function makeClient({ fetch: get = (...args) => fetch(...args), budget = 100_000_000 }: ClientOptions = {}): Client {
  const known = new Map<string, Entry>(); // in the order of use
  const flights = new Map<string, Flight>();
  const versions = new Map<string, number>();
  const editions = new Map<string, number>();
  const calls = new Set<() => void>();
  let held = 0;
  let landed: (() => void)[] = [];
  let timer: ReturnType<typeof setTimeout> | undefined;
  let ahead: Query<unknown>[] = [];

  const version = (run: string): number => versions.get(run) ?? 0;
  const current = (query: Query<unknown>): number => (query.isGrowing ? version(query.run) : 0);
  const flightKey = (query: Query<unknown>): string => `${editions.get(query.run) ?? 0} ${current(query)} ${query.key}`;

  const remember = (query: Query<unknown>, own: number, value: unknown, size: number): void => {
    drop(query.key);
    known.set(query.key, { value, version: own, size, run: query.run });
    held += size;
    // A Map iterates in insertion order, and a hit inserts again: the first key is the least recently used.
    for (const key of known.keys()) {
      if (held <= budget || key === query.key) break;
      drop(key);
    }
  };
  const drop = (key: string): void => {
    held -= known.get(key)?.size ?? 0;
    known.delete(key);
  };
  const look = <T>(query: Query<T>, isOldToo: boolean): T | undefined => {
    const entry = known.get(query.key);
    if (!entry || (!isOldToo && entry.version !== current(query))) return undefined;
    known.delete(query.key);
    known.set(query.key, entry);
    return entry.value as T;
  };

  const begin = (query: Query<unknown>, isAhead: boolean): Flight => {
    const [key, own, stop] = [flightKey(query), current(query), new AbortController()];
    const edition = editions.get(query.run);
    const promise = fetchQuery(get, query, stop.signal, isAhead).then(({ value, size }) => {
      // A response of before the run was rewritten must not enter the cache.
      if (edition === editions.get(query.run)) remember(query, own, value, size);
      return value;
    }).finally(() => {
      if (flights.get(key) === flight) flights.delete(key);
      settle();
    });
    // Those who wait get the error; without this, an abandoned prefetch would be an unhandled rejection.
    promise.catch(() => undefined);
    const flight: Flight = { promise, stop, nWaiting: 0 };
    flights.set(key, flight);
    return flight;
  };
  const nWaiting = (): number => [...flights.values()].reduce((sum, flight) => sum + flight.nWaiting, 0);
  /** Notify when all pending responses have arrived, or after a delay. */
  const together = (): Promise<void> => new Promise((done) => {
    landed.push(done);
    if (nWaiting() === 0) release();
    else timer ??= setTimeout(release, TOGETHER);
  });
  const release = (): void => {
    clearTimeout(timer);
    timer = undefined;
    const all = landed;
    landed = [];
    for (const done of all) done();
  };
  const settle = (): void => {
    if (nWaiting() > 0) return;
    release();
    for (const call of calls) call();
    // Prefetches wait until nothing else is pending, so that they never delay what the user asked for.
    while (ahead.length && flights.size < AHEAD) {
      const query = ahead.shift()!;
      if (look(query, false) === undefined && !flights.has(flightKey(query))) begin(query, true);
    }
  };

  return {
    peek: (query) => look(query, false),
    old: (query) => look(query, true),
    async load<T>(query: Query<T>, signal?: AbortSignal): Promise<T> {
      const ready = look(query, false);
      if (ready !== undefined) return ready;
      const flight = flights.get(flightKey(query)) ?? begin(query, false);
      flight.nWaiting += 1;
      const leave = (): void => {
        flight.nWaiting -= 1;
        if (flight.nWaiting > 0) return;
        const key = flightKey(query);
        if (flights.get(key) === flight) flights.delete(key);
        flight.stop.abort();
      };
      signal?.addEventListener("abort", leave, { once: true });
      try {
        const value = await flight.promise;
        await together();
        return value as T;
      } finally {
        signal?.removeEventListener("abort", leave);
      }
    },
    prefetch(queries) {
      ahead = queries.filter((query) => look(query, false) === undefined);
      settle();
    },
    grew: (run) => void versions.set(run, version(run) + 1),
    version,
    forget(run, but) {
      const before = version(run);
      versions.set(run, before + 1);
      editions.set(run, (editions.get(run) ?? 0) + 1);
      for (const [key, entry] of known) {
        if (key === but.key) known.set(key, { ...entry, version: entry.version === before ? before + 1 : entry.version });
        else if (entry.run === run) drop(key);
      }
    },
    get n_waiting() {
      return nWaiting();
    },
    onIdle(call) {
      calls.add(call);
      return () => calls.delete(call);
    },
  };
}

async function fetchQuery(get: typeof fetch, query: Query<unknown>, signal: AbortSignal, isAhead: boolean): Promise<{ value: unknown; size: number }> {
  let response: Response;
  try {
    response = await get(query.key, { signal, priority: isAhead ? "low" : "auto" });
  } catch (error) {
    if (signal.aborted) throw error;
    throw new QueryError(AWAY, 0);
  }
  if (!response.ok) throw new QueryError(await sentence(response), response.status);
  const value = await query.read(response);
  return { value, size: sizeOf(value, Number(response.headers.get("Content-Length") ?? 0)) };
}

async function sentence(response: Response): Promise<string> {
  const body = await response.json().catch(() => null) as { error?: unknown } | null;
  return typeof body?.error === "string" && body.error ? body.error : `The server returned ${response.status} ${response.statusText}.`.replace(/ \.$/, ".");
}

/** Estimated memory of a response: parsed JSON takes several times the size of its text. */
function sizeOf(value: unknown, sent: number): number {
  let bytes = 0;
  if (ArrayBuffer.isView(value)) return value.byteLength;
  if (value && typeof value === "object") for (const part of Object.values(value)) if (ArrayBuffer.isView(part)) bytes += part.byteLength;
  return bytes || 4 * sent || 10_000;
}
