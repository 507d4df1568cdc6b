// Performance marks from event to pixels, for benchmarks: "cutaway:selected", "cutaway:shown".

import type { Client } from "./data/client";

export const SELECTED = "cutaway:selected";
export const SHOWN = "cutaway:shown";

export interface PerfMarks {
  /** An action was dispatched. */
  selected(): void;
  /** The page was rendered; called before it is painted. */
  rendered(): void;
  end(): void;
}

export function makePerfMarks(client: Client): PerfMarks {
  let n = 0;
  let isOpen = false;
  const channel = new MessageChannel();
  channel.port1.onmessage = ({ data }) => {
    if (!isOpen || data !== n || client.n_waiting > 0) return;
    isOpen = false;
    mark(SHOWN, n);
  };
  // A message posted within a frame is delivered after that frame has been painted.
  const rendered = (): void => {
    if (!isOpen || client.n_waiting > 0) return;
    const own = n;
    requestAnimationFrame(() => channel.port2.postMessage(own));
  };
  const unhear = client.onIdle(rendered);
  return {
    selected() {
      n += 1;
      isOpen = true;
      mark(SELECTED, n);
    },
    rendered,
    end() {
      unhear();
      channel.port1.close();
    },
  };
}

/** Keep only the last mark of each name, so that marks do not pile up. */
function mark(name: string, detail: number): void {
  performance.clearMarks(name);
  performance.mark(name, { detail });
}
