// Differences between two traces, by kind and in graph order.

import type { Comparison } from "./wire";

export type Difference = "new" | "removed" | "changed" | "values";

/** The nodes of each kind of difference in graph order; for values, the largest difference first. */
export function differences({ mark, shade, order }: Comparison): Record<Difference, number[]> {
  const marked = (wanted: string): number[] => [...mark.keys()].filter((node) => mark[node] === wanted);
  const values = [...shade.keys()].filter((node) => shade[node] > 0).sort((a, b) => order[b] - order[a] || a - b);
  return { new: marked("new"), removed: marked("removed"), changed: marked("changed"), values };
}
