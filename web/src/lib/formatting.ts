// Formats numbers with units: 1.2 ms, 3.4 MB, 5.6 GFLOPs.

const THOUSANDS = ["", "k", "M", "G", "T", "P"];
const BYTES = ["B", "KB", "MB", "GB", "TB", "PB"];
const SECONDS: readonly [number, string][] = [
  [1, "s"],
  [1e-3, "ms"],
  [1e-6, "µs"],
  [1e-9, "ns"],
];

/** A number with at most three significant digits; very large and small ones with an exponent. */
export function short(value: number): string {
  if (Number.isNaN(value)) return "NaN";
  if (!Number.isFinite(value)) return value > 0 ? "∞" : "−∞";
  const size = Math.abs(value);
  if (size === 0) return "0";
  if (Number.isInteger(value) && size < 1e6) return minus(value.toLocaleString("en"));
  if (size >= 1e5 || size < 1e-3) return minus(value.toExponential(1).replace("e+", "e").replace(".0e", "e"));
  return minus(String(Number(value.toPrecision(3))));
}

function minus(text: string): string {
  return text.replace(/-/g, "−");
}

/** A number with a scaled unit: `quantity(0.0123, "s")` is `12.3 ms`. */
export function quantity(value: number | null, unit: string): string {
  if (value === null) return "–";
  if (!Number.isFinite(value) || value === 0) return unit ? `${short(value)} ${unit}` : short(value);
  if (unit === "s") return seconds(value);
  if (unit === "B" || unit === "bytes") return stepped(value, 1024, BYTES, "");
  if (unit === "%") return `${short(value)} %`;
  if (unit) return stepped(value, 1000, THOUSANDS, unit);
  return short(value);
}

function seconds(value: number): string {
  const [size, name] = SECONDS.find(([size]) => Math.abs(value) >= size) ?? SECONDS[SECONDS.length - 1];
  return `${three(value / size)} ${name}`;
}

function stepped(value: number, step: number, names: readonly string[], unit: string): string {
  let place = 0;
  let rest = value;
  while (Math.abs(rest) >= 999.5 && place < names.length - 1) {
    rest /= step;
    place += 1;
  }
  return `${three(rest)} ${names[place]}${unit}`.trimEnd();
}

function three(value: number): string {
  return minus(Math.abs(value) < 1e-3 ? value.toExponential(1) : String(Number(value.toPrecision(3))));
}

/** `1 op`, `2,000 ops`. */
export function counted(n: number, one: string, many = `${one}s`): string {
  return `${n.toLocaleString("en")} ${n === 1 ? one : many}`;
}

/** The shortest text that identifies a float32. */
export function exact(value: number): string {
  if (!Number.isFinite(value) || value === 0) return short(value);
  const figures = [6, 7, 8, 9].find((n) => Math.fround(Number(value.toPrecision(n))) === Math.fround(value)) ?? 9;
  const rounded = Number(value.toPrecision(figures));
  const size = Math.abs(value);
  return minus(size >= 1e7 || size < 1e-4 ? rounded.toExponential().replace("e+", "e") : String(rounded));
}

/**
 * A number for other programs: ASCII, without thousands separators, and with all the digits that it has (of a float32 the
 * shortest that identify it). Spreadsheets and pandas read it as a number.
 */
export function plainNumber(value: number): string {
  if (Number.isNaN(value)) return "NaN";
  if (!Number.isFinite(value)) return value > 0 ? "inf" : "-inf";
  if (value === 0) return "0";
  if (Number.isSafeInteger(value) || value !== Math.fround(value)) return String(value);
  return String([6, 7, 8, 9].map((n) => Number(value.toPrecision(n))).find((rounded) => Math.fround(rounded) === value) ?? value);
}

/** A text with the signs of numbers in ASCII: a minus sign between letters or words stays as it is. */
export function asciiNumbers(text: string): string {
  return text.replace(/−(?=[\d.∞])/g, "-").replace(/∞/g, "inf");
}

/** A duration: `40 s`, `3.5 min`, `2 h`. */
export function duration(value: number): string {
  const size = Math.abs(value);
  if (size < 120) return `${short(value)} s`;
  return size < 7200 ? `${three(value / 60)} min` : `${three(value / 3600)} h`;
}
