// Short names of runs that are shown together: what they all begin or end with says nothing.

/** Shorter than this, names are kept whole. */
const LONG = 18;

/** Each name without the beginning and the end that all share, cut at a separator; "…" stands for what is left out. */
export function shortNames(names: readonly string[]): string[] {
  const distinct = [...new Set(names)];
  if (distinct.length < 2 || distinct.every((name) => name.length <= LONG)) return [...names];
  const start = sharedStart(distinct);
  const end = sharedStart(distinct.map((name) => reversed(name.slice(start))));
  return names.map((name) => `${start ? "…" : ""}${name.slice(start, name.length - end)}${end ? "…" : ""}`);
}

/** The length of the beginning that all names share, up to its last separator. Of every name something is left. */
function sharedStart(names: readonly string[]): number {
  const most = Math.min(...names.map((name) => name.length)) - 1;
  let n = 0;
  while (n < most && names.every((name) => name[n] === names[0][n])) n++;
  while (n > 0 && !/[/\\_\-\s]/.test(names[0][n - 1])) n--;
  return n;
}

function reversed(text: string): string {
  return [...text].reverse().join("");
}
