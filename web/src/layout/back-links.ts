// Back edges: links from a later tensor to an earlier one, labeled with the iterations they connect.

import type { Edge, Picture } from "../lib/wire";

interface Folded {
  readonly picture: Picture;
  readonly box: Int32Array;
}

/** The sign of an edge that leads back to where it came from. */
export const FEEDBACK_SIGN = "↻";

/** The picture with links that lead back, parent and child by node; each is drawn once between two boxes. */
export function withFeedbackEdges({ picture, box }: Folded, loops: readonly (readonly [number, number])[]): Folded {
  const n = picture.boxes.length;
  const pairs = new Set(picture.edges.map(({ parent, child }) => parent * n + child));
  const more: Edge[] = [];
  for (const [from, to] of loops) {
    const [parent, child] = [box[from] ?? -1, box[to] ?? -1];
    if (parent < 0 || child < 0 || pairs.has(parent * n + child)) continue;
    pairs.add(parent * n + child);
    more.push({ parent, child, label: FEEDBACK_SIGN });
  }
  const isWorded = picture.edges.some(({ label }) => label !== iterationLabel(label));
  if (!more.length && !isWorded) return { picture, box };
  // What comes back to one box side by side says so once.
  const said = new Set<string>();
  const edges = picture.edges.map((edge) => {
    const label = iterationLabel(edge.label);
    const isAgain = label !== "" && edge.parent >= edge.child && said.size === said.add(`${edge.child} ${label}`).size;
    return { ...edge, label: isAgain ? "" : label };
  });
  return { picture: { ...picture, edges: [...edges, ...more] }, box };
}

/** `1 → 2` where an edge leads from the first iteration into the second. */
export function iterationLabel(label: string): string {
  const [, out, into] = /^(?:Out (.+?))?(?:(?:^| )In (.+))?$/.exec(label) ?? [];
  if (out && into) return `${out} → ${into}`;
  return out ? `of ${out}` : into ? `in ${into}` : label;
}
