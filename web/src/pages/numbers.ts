// Formats numbers of page items: short in place, longer in tooltips, full precision when copied.

import { short } from "../lib/formatting";

export type Maybe = number | null;

/** Short form, in place. */
export function shortNumber(value: Maybe, isShare = false): string {
  return value === null ? "–" : isShare ? percent(value) : short(value);
}

/** Tooltip form: four significant digits, or a fraction as percent. */
export function exactNumber(value: Maybe, isShare = false): string {
  if (value === null) return "no number";
  return isShare ? `${figures(100 * value, 3)} %` : figures(value, 4);
}

/** Form at the ends of a scale. */
export function scaleEndNumber(value: number, isShare: boolean): string {
  return isShare ? exactNumber(value, true) : short(value);
}

/** All its figures, as programs read it; "" for none. */
export function raw(value: Maybe): string {
  return value === null ? "" : String(value);
}

/** A fraction as percent; nonzero values never show as 0 %. */
export function percent(value: Maybe): string {
  if (value !== null && value > 0 && value < 0.0005) return "< 0.1 %";
  return value === null ? "–" : `${(100 * value).toFixed(1).replace("-", "−")} %`;
}

/** The largest magnitude; 0 if there are no numbers. */
export function largest(values: Iterable<Maybe | undefined>): number {
  let most = 0;
  for (const value of values) if (value !== null && value !== undefined && Math.abs(value) > most) most = Math.abs(value);
  return most;
}

/** A number with at most `n` significant digits; integers in full. */
function figures(value: number, n: number): string {
  const size = Math.abs(value);
  const isWhole = Number.isInteger(value) && size < 1e15;
  const isFar = size !== 0 && (size < 1e-4 || size >= 1e15);
  const rounded = Number(value.toPrecision(n));
  const text = isFar ? rounded.toExponential().replace("e+", "e") : isWhole || size >= 10 ** n ? Math.round(value).toLocaleString("en") : String(rounded);
  return text.replace(/-/g, "−");
}
