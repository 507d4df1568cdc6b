/** A small picture for tests: two inputs, a frame with a branch, an output. */

import type { Box, Frame, Picture, Placement, Rect, Scene } from "./types";

export function box(key: string, given: Partial<Box> = {}): Box {
  return { key, lines: [key], kind: "plain", form: "function", flags: 0, frame: 0, stack: 1, mark: "", shade: 0, ...given };
}

export function frame(key: string, parent: number): Frame {
  return { key, title: key, parent, stack: 1, flags: 0, mark: "" };
}

function rect(x: number, y: number, width: number, height: number): Rect {
  return { x, y, width, height };
}

/** Group g1, open: a is read twice in it, once through a line that both share. */
export function open(): Scene {
  const picture: Picture = {
    boxes: [box("a"), box("b"), box("left", { frame: 1 }), box("right", { frame: 1 }), box("sum", { frame: 1 }), box("out", { flags: 1 })],
    frames: [frame("", -1), frame("g1", 0)],
    edges: [
      { parent: 0, child: 2, label: "" }, { parent: 0, child: 3, label: "" }, { parent: 1, child: 3, label: "1" },
      { parent: 2, child: 4, label: "" }, { parent: 3, child: 4, label: "" }, { parent: 4, child: 5, label: "" },
    ],
  };
  const line = (parent: number, child: number | null, frame: number | null, ...points: [number, number][]) =>
    ({ parent, child, frame, points, is_feedback: false });
  const placement: Placement = {
    width: 400, height: 600,
    boxes: [rect(50, 0, 100, 40), rect(250, 0, 100, 40), rect(50, 200, 100, 40), rect(250, 200, 100, 40), rect(150, 300, 100, 40), rect(150, 500, 100, 40)],
    frames: [rect(0, 0, 400, 600), rect(20, 120, 360, 260)],
    lines: [
      line(0, null, 1, [100, 40], [100, 120]), line(0, null, null, [100, 120], [100, 150]),
      line(0, 2, null, [100, 150], [100, 200]), line(0, 3, null, [100, 150], [280, 200]),
      line(1, null, 1, [300, 40], [300, 120]), line(1, 3, null, [300, 120], [300, 200]),
      line(2, 4, null, [100, 240], [180, 300]), line(3, 4, null, [300, 240], [220, 300]),
      line(4, null, null, [200, 340], [200, 380]), line(4, 5, null, [200, 380], [200, 500]),
    ],
  };
  return { picture, placement };
}

/** The same with g1 folded. */
export function folded(): Scene {
  return {
    picture: {
      boxes: [box("a"), box("b"), box("g1", { form: "folded" }), box("out", { flags: 1 })],
      frames: [frame("", -1)],
      edges: [{ parent: 0, child: 2, label: "" }, { parent: 1, child: 2, label: "" }, { parent: 2, child: 3, label: "" }],
    },
    placement: {
      width: 400, height: 300,
      boxes: [rect(50, 0, 100, 40), rect(250, 0, 100, 40), rect(150, 120, 100, 40), rect(150, 220, 100, 40)],
      frames: [rect(0, 0, 400, 300)],
      lines: [],
    },
  };
}
