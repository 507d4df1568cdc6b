// The Python code that reads the selected tensor from a run.

import type { RowView } from "./wire";

type Named = Pick<RowView, "site" | "of" | "iteration">;

/** `run.at(400)["encoder.2"].value` */
export function snippet({ site, of, iteration }: Named, step: number, sample: number | null = null): string {
  const tensor = `run.at(${step})[${JSON.stringify(site)}]`;
  const own = iteration > 0 ? `.other(${JSON.stringify(of)}, iteration=${iteration})`
    : of === "value" ? "" : of === "grad" || of === "update" ? `.${of}` : `.other(${JSON.stringify(of)})`;
  return `${tensor}${own}.value${sample === null ? "" : `[${sample}]`}`;
}

/** Elements as nested Python lists; each is written unchanged. */
export function nestedList(elements: readonly string[], shape: readonly number[]): string {
  let at = 0;
  const list = (depth: number): string => {
    if (depth === shape.length) return elements[at++];
    return `[${Array.from({ length: shape[depth] }, () => list(depth + 1)).join(depth === shape.length - 1 ? ", " : ",\n".padEnd(depth + 3, " "))}]`;
  };
  return list(0);
}

/** The values of a CSV file from the server: the last column, without the header. */
export function elementsOf(csv: string, shape: readonly number[]): string[] {
  const nBefore = Math.max(0, shape.length - 1);
  return csv.trimEnd().split("\n").slice(1).flatMap((line) => line.split(",").slice(nBefore));
}
