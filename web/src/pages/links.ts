// Context for links in tables: the host of a page resolves them.

import { createContext } from "preact";

/** What to do when a text in a column is pressed; null where it leads nowhere. */
export type Links = (text: string, column: string) => (() => void) | null;

export const LinksContext = createContext<Links>(() => null);
