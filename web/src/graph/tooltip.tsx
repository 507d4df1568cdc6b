// The tooltip of a box.

import { quantity } from "../lib/formatting";
import { describeValue } from "./decorate";
import { usePage } from "./context";

export interface Hover {
  readonly key: string;
  readonly x: number;
  readonly y: number;
  /** Size of the area around it. */
  readonly width: number;
  readonly height: number;
}

/** Room that a tooltip may need beside and below the pointer, in pixels. */
const ROOM = { width: 300, height: 90 };

/** Below and to the right of the pointer; on the other side where the window would cut it off. */
export function tooltipPosition({ x, y, width, height }: Hover, room: { readonly width: number; readonly height: number }): Partial<Record<"left" | "right" | "top" | "bottom", string>> {
  const across = x < width - room.width || x < width / 2 ? { left: `${x}px` } : { right: `${width - x}px` };
  const along = y < height - room.height ? { top: `${y}px` } : { bottom: `${height - y}px` };
  return { ...across, ...along };
}

/** Adds what the box itself does not show: site, values, and the boxes behind a stand-in. */
export function Tooltip({ hover }: { hover: Hover }) {
  const { view, drawn, color, size } = usePage();
  const number = drawn.picture.boxes.findIndex(({ key }) => key === hover.key);
  const box = drawn.picture.boxes[number];
  const frame = drawn.picture.frames.find(({ key }) => key === hover.key);
  if (!box && !frame) return null;
  const n = box?.stands_for.length ?? 0;
  const node = box?.node ?? -1;
  const numbers = box ? [color, size].filter((one) => one !== null).map((one) => describeValue(one, number)) : [];
  const compared = node >= 0 ? view.comparison?.amount[node] : "";
  return (
    <div class="tooltip" style={tooltipPosition(hover, ROOM)}>
      <b>{box ? box.lines[0] : frame!.title}</b>
      {node >= 0 && view.nodes.site[node] !== box.lines[0] && <div>{view.nodes.site[node]}</div>}
      {n > 0 && <div>stands for {n === 1 ? "the box of that name" : `${n} boxes`}</div>}
      {[...new Set(numbers)].map((text) => <div key={text}>{text}</div>)}
      {compared && <div>{compared}</div>}
      {box && box.stack > 1 && size === null && color === null && <div>{quantity(box.stack, "")} identical blocks, drawn once</div>}
    </div>
  );
}
