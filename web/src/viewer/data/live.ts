// Server-sent events: runs that grow, runs that appear.

/** What the server says of a run that has grown. */
export interface Growth {
  readonly run: string;
  readonly n_steps: number;
  readonly last_step: number | null;
  readonly state: string;
  /** See that of a RunView. */
  readonly edition: string;
}

export interface LiveEvents {
  /** A run has grown, or its state has changed. */
  onGrowth(growth: Growth): void;
  /** The list of runs has changed. */
  onRuns(): void;
  /** The connection was restored, so events may have been missed; or, with false, it was lost. */
  onThere(isThere: boolean): void;
}

/** Milliseconds until the next attempt to connect. */
const AGAIN = 2000;

/** Listen while the page is visible: browsers limit connections per host over all tabs. Returns a function that stops. */
export function listen(events: LiveEvents, url = "/api/events"): () => void {
  let source: EventSource | null = null;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let wasAway = false;
  const open = (): void => {
    clearTimeout(timer);
    source?.close();
    source = new EventSource(url);
    source.onopen = () => {
      if (wasAway) events.onThere(true);
      wasAway = false;
    };
    source.onmessage = ({ data }) => handleMessage(events, String(data));
    source.onerror = () => {
      if (!wasAway) events.onThere(false);
      wasAway = true;
      // EventSource reconnects by itself, except after an error response.
      if (source?.readyState === EventSource.CLOSED) timer = setTimeout(open, AGAIN);
    };
  };
  const close = (): void => {
    clearTimeout(timer);
    source?.close();
    source = null;
  };
  const look = (): void => {
    if (document.hidden) {
      close();
      wasAway = true;
    } else if (!source) open();
  };
  document.addEventListener("visibilitychange", look);
  look();
  return () => {
    document.removeEventListener("visibilitychange", look);
    close();
  };
}

export function handleMessage(events: Pick<LiveEvents, "onGrowth" | "onRuns">, data: string): void {
  let message: Partial<Growth> & { runs?: boolean };
  try {
    message = JSON.parse(data);
  } catch {
    return;
  }
  if (message?.runs) events.onRuns();
  else if (typeof message?.run === "string") events.onGrowth(message as Growth);
}
