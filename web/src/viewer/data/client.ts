// Asks the server, remembers its answers, and never asks twice for the same thing at once.

import type { Ask } from "./api";

export interface Client {
  /** The answer, if it is at hand. */
  peek<T>(ask: Ask<T>): T | undefined;
  /** The answer, even one from before the run grew. */
  old<T>(ask: Ask<T>): T | undefined;
  /** The answer; a rejection is an `AskError` whose message is a sentence for the reader. An aborted wait lets go of the request. */
  load<T>(ask: Ask<T>, signal?: AbortSignal): Promise<T>;
  /** Ask when nothing else is being asked: it will probably be wanted soon. Replaces what was wanted so before. */
  prefetch(asks: readonly Ask<unknown>[]): void;
  /** A run has grown: what may have changed is asked again when it is next wanted; the old is shown until then. "" for the list of runs. */
  grew(run: string): void;
  /** Counts up with each growth of a run, and for all of them when the server answers again. */
  version(run: string): number;
  /** Nothing that was asked of a run holds any more, also what is on its way, but for one answer: it was resumed or written anew. */
  forget(run: string, but: Ask<unknown>): void;
  /** How many answers somebody waits for. */
  readonly n_waiting: number;
  /** Called whenever nobody waits any more. Gives a function that ends it. */
  onIdle(call: () => void): () => void;
}

/** Why there is no answer, as a sentence. */
export class AskError extends Error {
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
  /** So many bytes of answers are remembered. */
  readonly budget?: number;
}

const AWAY = "The server is not responding. Is cutaway view still running?";
/** So many requests of those that nobody waits for run at once. */
const AHEAD = 2;
/** So many milliseconds an answer waits for the others that were asked for with it: the page is drawn once for all of them. */
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
  let ahead: Ask<unknown>[] = [];

  const version = (run: string): number => versions.get(run) ?? 0;
  const current = (ask: Ask<unknown>): number => (ask.isGrowing ? version(ask.run) : 0);
  const flightKey = (ask: Ask<unknown>): string => `${editions.get(ask.run) ?? 0} ${current(ask)} ${ask.key}`;

  const remember = (ask: Ask<unknown>, own: number, value: unknown, size: number): void => {
    drop(ask.key);
    known.set(ask.key, { value, version: own, size, run: ask.run });
    held += size;
    for (const key of known.keys()) {
      if (held <= budget || key === ask.key) break;
      drop(key);
    }
  };
  const drop = (key: string): void => {
    held -= known.get(key)?.size ?? 0;
    known.delete(key);
  };
  const look = <T>(ask: Ask<T>, isOldToo: boolean): T | undefined => {
    const entry = known.get(ask.key);
    if (!entry || (!isOldToo && entry.version !== current(ask))) return undefined;
    known.delete(ask.key);
    known.set(ask.key, entry);
    return entry.value as T;
  };

  const begin = (ask: Ask<unknown>, isAhead: boolean): Flight => {
    const [key, own, stop] = [flightKey(ask), current(ask), new AbortController()];
    const edition = editions.get(ask.run);
    const promise = asked(get, ask, stop.signal, isAhead).then(({ value, size }) => {
      if (edition === editions.get(ask.run)) remember(ask, own, value, size);
      return value;
    }).finally(() => {
      if (flights.get(key) === flight) flights.delete(key);
      settle();
    });
    promise.catch(() => undefined); // those who wait hear of it
    const flight: Flight = { promise, stop, nWaiting: 0 };
    flights.set(key, flight);
    return flight;
  };
  const nWaiting = (): number => [...flights.values()].reduce((sum, flight) => sum + flight.nWaiting, 0);
  /** When all that is waited for is there, or some time later. */
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
    while (ahead.length && flights.size < AHEAD) {
      const ask = ahead.shift()!;
      if (look(ask, false) === undefined && !flights.has(flightKey(ask))) begin(ask, true);
    }
  };

  return {
    peek: (ask) => look(ask, false),
    old: (ask) => look(ask, true),
    async load<T>(ask: Ask<T>, signal?: AbortSignal): Promise<T> {
      const ready = look(ask, false);
      if (ready !== undefined) return ready;
      const flight = flights.get(flightKey(ask)) ?? begin(ask, false);
      flight.nWaiting += 1;
      const leave = (): void => {
        flight.nWaiting -= 1;
        if (flight.nWaiting > 0) return;
        const key = flightKey(ask);
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
    prefetch(asks) {
      ahead = asks.filter((ask) => look(ask, false) === undefined);
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

async function asked(get: typeof fetch, ask: Ask<unknown>, signal: AbortSignal, isAhead: boolean): Promise<{ value: unknown; size: number }> {
  let response: Response;
  try {
    response = await get(ask.key, { signal, priority: isAhead ? "low" : "auto" });
  } catch (error) {
    if (signal.aborted) throw error;
    throw new AskError(AWAY, 0);
  }
  if (!response.ok) throw new AskError(await sentence(response), response.status);
  const value = await ask.read(response);
  return { value, size: sizeOf(value, Number(response.headers.get("Content-Length") ?? 0)) };
}

async function sentence(response: Response): Promise<string> {
  const said = await response.json().catch(() => null) as { error?: unknown } | null;
  return typeof said?.error === "string" && said.error ? said.error : `The server returned ${response.status} ${response.statusText}.`.replace(/ \.$/, ".");
}

/** About how much memory an answer takes: objects several times that of their text. */
function sizeOf(value: unknown, sent: number): number {
  let bytes = 0;
  if (ArrayBuffer.isView(value)) return value.byteLength;
  if (value && typeof value === "object") for (const part of Object.values(value)) if (ArrayBuffer.isView(part)) bytes += part.byteLength;
  return bytes || 4 * sent || 10_000;
}
