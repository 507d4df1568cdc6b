// What tensors and samples are called in the panel.

import type { ChangedSample, RowView } from "../../lib/wire";

/** A site as people call it: `input 0` for `.@in.0`, `target` for `$target`. */
export function nameOf({ site, names }: RowView): string {
  if (site === ".") return names[0] ?? "output";
  const input = /^\.@in\.(.+)$/.exec(site);
  return input ? `input ${input[1]}` : site.replace(/^\$/, "");
}

/** The id of a sample, else its number among the kept samples, else its place in the batch. */
export function titleOfSample({ item, number, position }: ChangedSample): string {
  return item?.id || `${number ?? position}`;
}
