// Numbers of plates: short where they stand, whole for who points at them or copies them.

import { short } from "../lib/units";

export type Maybe = number | null;

/** As it stands in a plate. */
export function said(value: Maybe): string {
  return value === null ? "–" : short(value);
}

/** All its figures, as people read it. */
export function full(value: Maybe): string {
  if (value === null) return "no number";
  const text = Number.isInteger(value) && Math.abs(value) < 1e15 ? value.toLocaleString("en") : String(value);
  return text.replace(/-/g, "−");
}

/** All its figures, as programs read it; "" for none. */
export function raw(value: Maybe): string {
  return value === null ? "" : String(value);
}

/** A share as percent; what is there is never told as nothing. */
export function percent(value: Maybe): string {
  if (value !== null && value > 0 && value < 0.0005) return "< 0.1 %";
  return value === null ? "–" : `${(100 * value).toFixed(1).replace("-", "−")} %`;
}

/** The largest size of some numbers; 0 where there are none. */
export function largest(values: Iterable<Maybe | undefined>): number {
  let most = 0;
  for (const value of values) if (value !== null && value !== undefined && Math.abs(value) > most) most = Math.abs(value);
  return most;
}
