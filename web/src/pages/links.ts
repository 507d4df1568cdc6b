// Context for links in tables: the host of a page resolves them.

import { createContext } from "preact";

/** The action of a cell as a link; null for none. */
export type Links = (text: string, column: string) => (() => void) | null;

export const LinksContext = createContext<Links>(() => null);
