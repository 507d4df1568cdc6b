// What the pointer is over in a dependency graph: its name, its shape, the number behind its colour.

import type { Drawn } from "../app/decorate";
import type { Hover } from "../app/tooltip";
import { foremost, type Oddity } from "../lib/tinting";
import { counted, short } from "../lib/units";
import type { Tinting } from "./tinted";

const ROOM = { width: 320, height: 110 };
const ODDITIES: Readonly<Record<Oddity, string>> = {
  "": "", nonfinite: "holds NaN or Inf", zero: "nothing but zeros", none: "not recorded at this step",
};

export function GraphTooltip({ hover, drawn, tinting }: { hover: Hover; drawn: Drawn; tinting: Tinting | null }) {
  const { view, picture, shown } = drawn;
  const number = picture.boxes.findIndex(({ key }) => key === hover.key);
  const box = picture.boxes[number];
  const frame = picture.frames.find(({ key }) => key === hover.key);
  if (!box && !frame) return null;
  const across = hover.x < hover.width - ROOM.width || hover.x < hover.width / 2
    ? { left: `${hover.x}px` } : { right: `${hover.width - hover.x}px` };
  const along = hover.y < hover.height - ROOM.height ? { top: `${hover.y}px` } : { bottom: `${hover.height - hover.y}px` };
  const site = box && box.node >= 0 ? view.nodes.site[box.node] : "";
  return (
    <div class="tooltip" style={{ ...across, ...along }}>
      <b>{box ? box.lines[0] : frame!.title}</b>
      {site && site !== box.lines[0] && <div>{site}</div>}
      {box && box.lines.length > 1 && <div>{box.lines.slice(1).join(" · ")}</div>}
      {box && tinting && <Numbers tinting={tinting} labels={view.nodes.label} all={shown.nodes[number]} />}
    </div>
  );
}

function Numbers({ tinting: { tints, chosen }, labels, all }: { tinting: Tinting; labels: readonly string[]; all: readonly number[] }) {
  const nodes = chosen(all);
  const { node, oddity } = foremost(tints, nodes);
  const value = node < 0 ? NaN : tints.values[node];
  const said = Number.isNaN(value) ? "" : tints.isChange ? `×${short(2 ** value)}` : short(value);
  return (
    <>
      {nodes.length === 1 && tints.counts[nodes[0]] > 0 && <div>{counted(tints.counts[nodes[0]], "element")}</div>}
      {said && <div><b>{said}</b> {tints.title}{nodes.length > 1 ? `, largest, in ${labels[node]}` : ""}</div>}
      {ODDITIES[oddity] && <div class={oddity === "none" ? "" : "odd"}>{ODDITIES[oddity]}</div>}
    </>
  );
}
