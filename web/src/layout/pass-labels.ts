// Labels of edges that exist only in some passes of a loop, in rolled-up pictures.
// The same rules as in Python, `layout/pass_labels.py`.

const MAX_SPANS = 3;

/** Numbers as ranges: `1–3, 7`. */
export function spans(numbers: Set<number>): string {
  const ranges: number[][] = [];
  for (const number of [...numbers].sort((a, b) => a - b)) {
    const last = ranges[ranges.length - 1];
    if (last && last[last.length - 1] === number - 1) last[1] = number;
    else ranges.push([number]);
  }
  const words = ranges.map((span) => span.join("–"));
  return words.length <= MAX_SPANS ? words.join(", ") : `${words[0]}, ${words[1]} … ${words[words.length - 1]}`;
}

/** The passes of the upper and the lower box that an edge connects; empty where it connects all. */
export function passesLabel(out: Set<number>, nOut: number, into: Set<number>, nIn: number): string {
  const words = out.size < nOut ? [`Out ${spans(out)}`] : [];
  if (into.size < nIn) words.push(`In ${spans(into)}`);
  return words.join(" ");
}
