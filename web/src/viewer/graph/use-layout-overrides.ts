// The reader's own groups and order: from the address, else from what this browser keeps; each change goes into both.

import { store, stored, tagged, untagged } from "./arrangement";
import { wishesOf, wishesText, type Wish } from "./layout-overrides";
import type { PanelProps } from "../panels/props";

const NAME = "wishes";

export interface Wishes {
  readonly text: string;
  readonly list: readonly Wish[];
  set(wishes: readonly Wish[]): void;
}

export function useWishes({ state, act }: Pick<PanelProps, "state" | "act">, structure: string): Wishes {
  const text = wishesText(wishesOf(untagged(structure, state.kept[NAME]) ?? stored(`${structure} ${NAME}`)));
  return {
    text, list: wishesOf(text),
    set(wishes) {
      const next = wishesText(wishes);
      store(`${structure} ${NAME}`, next);
      // "[]" in the address says that there are none, whatever a browser has kept.
      act({ do: "keep", name: NAME, text: tagged(structure, next || "[]") });
    },
  };
}
