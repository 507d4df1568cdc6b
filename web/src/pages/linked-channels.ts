// The channel that a colored text shows, shared by linked texts of a page.

import { createContext } from "preact";
import { useContext, useEffect, useState } from "preact/hooks";

export interface ChannelChoice {
  /** The number of a channel, or a word for several. */
  readonly kept: string;
  /** The hovered channel. */
  readonly preview: string | null;
}

type Listener = (shown: ChannelChoice) => void;

/** Synchronizes the texts of a link. */
export class LinkedChannels {
  private readonly newest = new Map<string, ChannelChoice>();
  private readonly hearers = new Map<string, Set<Listener>>();

  of(link: string): ChannelChoice | undefined {
    return this.newest.get(link);
  }

  tell(link: string, shown: ChannelChoice): void {
    this.newest.set(link, shown);
    for (const hearer of this.hearers.get(link) ?? []) hearer(shown);
  }

  /** Subscribe to a link; returns a function that unsubscribes. */
  listen(link: string, hearer: Listener): () => void {
    const all = this.hearers.get(link) ?? new Set();
    this.hearers.set(link, all.add(hearer));
    return () => void all.delete(hearer);
  }
}

/** One for each page. */
export const LinkedContext = createContext<LinkedChannels | null>(null);

/** The selected channel, and a setter for all texts of the link; a text without a link has its own state. */
export function useLinkedChannel(link: string, first: string): [ChannelChoice, (change: Partial<ChannelChoice>) => void] {
  const around = useContext(LinkedContext);
  const linked = link ? around : null;
  const [shown, setShown] = useState<ChannelChoice>(linked?.of(link) ?? { kept: first, preview: null });
  useEffect(() => linked?.listen(link, setShown), [linked, link]);
  const show = (change: Partial<ChannelChoice>): void => {
    const next = { ...shown, ...change };
    if (next.kept === shown.kept && next.preview === shown.preview) return;
    setShown(next);
    linked?.tell(link, next);
  };
  return [shown, show];
}
