// Hook for layout overrides: read from the URL, else from local storage; each change is written to both.

import { store, loadStored, tagStructure, untagStructure } from "./arrangement";
import { parseOverrides, formatOverrides, type LayoutOverride } from "./layout-overrides";
import type { PanelProps } from "../panels/props";

const NAME = "layout";

export interface LayoutOverrides {
  readonly text: string;
  readonly list: readonly LayoutOverride[];
  set(overrides: readonly LayoutOverride[]): void;
}

export function useLayoutOverrides({ state, act }: Pick<PanelProps, "state" | "act">, structure: string): LayoutOverrides {
  const text = formatOverrides(parseOverrides(untagStructure(structure, state.kept[NAME]) ?? loadStored(`${structure} ${NAME}`)));
  return {
    text, list: parseOverrides(text),
    set(overrides) {
      const next = formatOverrides(overrides);
      store(`${structure} ${NAME}`, next);
      // "[]" in the URL means none, whatever local storage holds.
      act({ do: "keep", name: NAME, text: tagStructure(structure, next || "[]") });
    },
  };
}
