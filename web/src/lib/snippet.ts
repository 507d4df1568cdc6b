// The line of Python that gives what is looked at.

import type { RowView } from "./wire";

type Named = Pick<RowView, "site" | "of" | "iteration">;

/** `run.at(400)["encoder.2"].value` */
export function snippet({ site, of, iteration }: Named, step: number, sample: number | null = null): string {
  const tensor = `run.at(${step})[${JSON.stringify(site)}]`;
  const own = iteration > 0 ? `.other(${JSON.stringify(of)}, iteration=${iteration})`
    : of === "value" ? "" : of === "grad" || of === "update" ? `.${of}` : `.other(${JSON.stringify(of)})`;
  return `${tensor}${own}.value${sample === null ? "" : `[${sample}]`}`;
}

/** Numbers as nested lists, as Python and JSON write them. */
export function listed(values: ArrayLike<number>, shape: readonly number[]): string {
  const write = (value: number): string => (Number.isFinite(value) ? String(Number(value.toPrecision(8))) : Number.isNaN(value) ? "nan" : value > 0 ? "inf" : "-inf");
  let at = 0;
  const list = (depth: number): string => {
    if (depth === shape.length) return write(values[at++]);
    return `[${Array.from({ length: shape[depth] }, () => list(depth + 1)).join(depth === shape.length - 1 ? ", " : ",\n".padEnd(depth + 3, " "))}]`;
  };
  return list(0);
}
