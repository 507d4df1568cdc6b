/** Live region for screen readers: what the canvas shows and what is selected. */

import type { Stage } from "./stage";

// Not display: none, which screen readers skip.
const HIDDEN = "position:absolute;width:1px;height:1px;margin:-1px;overflow:hidden;clip-path:inset(50%);white-space:nowrap";

/** A visually hidden live region, which screen readers read out when it changes. */
export function liveRegion(host: HTMLElement): HTMLElement {
  const region = document.createElement("div");
  region.setAttribute("role", "status");
  region.setAttribute("aria-live", "polite");
  region.style.cssText = HIDDEN;
  host.append(region);
  return region;
}

/** A box or frame in words. */
export function describe(stage: Stage, key: string): string {
  const box = stage.boxOf.get(key);
  if (box === undefined) {
    const frame = stage.frameOf.get(key);
    return frame ? `${stage.frames[frame]!.frame.title}, open, ${count(stage.boxesIn(frame).length, "box", "boxes")} inside` : "nothing selected";
  }
  const { lines, kind, form, stack, flags, mark } = stage.boxes[box]!.box;
  const { before, after } = stage.edgesAt();
  const kinds: Partial<Record<string, string>> = { plain: "", parametric: "has parameters", made: "created inside", standin: "drawn elsewhere" };
  return [
    lines.join(", "),
    kinds[kind] ?? kind,
    form === "folded" ? "folded" : "",
    stack > 1 ? `${stack} times` : "",
    flags & 1 ? "output" : "",
    flags & 8 && kind !== "failed" ? "failed" : "",
    mark,
    count(before[box]!.length, "parent", "parents"),
    count(after[box]!.length, "child", "children"),
  ].filter(Boolean).join(", ");
}

function count(n: number, one: string, many: string): string {
  return `${n} ${n === 1 ? one : many}`;
}
