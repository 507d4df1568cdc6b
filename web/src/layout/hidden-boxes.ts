// Removes hidden boxes from a picture and connects their parents to their children.

import { append } from "../lib/collections";
import type { Edge, Picture } from "../lib/wire";

/** Where a hidden box would join more pairs than this, they are not joined: the knot would hide more than the box did. */
const MAX_BRIDGED = 60;

interface Folded {
  readonly picture: Picture;
  readonly box: Int32Array;
}

/** The picture without the boxes all of whose nodes are hidden; keys stay, numbers move up. */
export function withoutHidden({ picture, box }: Folded, hidden: ReadonlySet<number>): Folded {
  if (!hidden.size) return { picture, box };
  const isHidden = hiddenBoxes(picture, box, hidden);
  if (!isHidden.some(Boolean)) return { picture, box };
  const edges = bridgeEdges(picture.edges, isHidden);
  const [boxNumber, frameNumber] = [renumber(isHidden), renumber(emptyFrames(picture, isHidden))];
  const frames = picture.frames.filter((_, frame) => frameNumber[frame] >= 0)
    .map((frame) => ({ ...frame, parent: frame.parent < 0 ? -1 : frameNumber[frame.parent] }));
  return {
    picture: {
      ...picture, frames,
      boxes: picture.boxes.filter((_, number) => !isHidden[number]).map((kept) => ({ ...kept, frame: frameNumber[kept.frame] })),
      edges: edges.map(({ parent, child, label }) => ({ parent: boxNumber[parent], child: boxNumber[child], label })),
      faint: picture.faint.filter((number) => !isHidden[number]).map((number) => boxNumber[number]),
    },
    box: box.map((number) => (number < 0 ? -1 : boxNumber[number])),
  };
}

/** A box goes if all its nodes do, a stand-in if all it stands for does. */
function hiddenBoxes({ boxes }: Picture, box: Int32Array, hidden: ReadonlySet<number>): boolean[] {
  const isSeen = boxes.map(() => false);
  const hasNodes = boxes.map(() => false);
  box.forEach((number, node) => {
    if (number < 0) return;
    hasNodes[number] = true;
    if (!hidden.has(node)) isSeen[number] = true;
  });
  const hiddenBox = boxes.map((_, number) => hasNodes[number] && !isSeen[number]);
  const hiddenKeys = new Set(boxes.filter((_, number) => hiddenBox[number]).map(({ key }) => key));
  return boxes.map(({ stands_for }, number) => hiddenBox[number] || (stands_for.length > 0 && stands_for.every((key) => hiddenKeys.has(key))));
}

function bridgeEdges(edges: readonly Edge[], isHidden: readonly boolean[]): Edge[] {
  const after = new Map<number, Edge[]>();
  const before = new Map<number, Edge[]>();
  const add = (edge: Edge): void => {
    append(after, edge.parent, edge);
    append(before, edge.child, edge);
  };
  edges.forEach(add);
  isHidden.forEach((is, number) => {
    if (!is) return;
    const [into, out] = [before.get(number) ?? [], after.get(number) ?? []];
    for (const edge of into) drop(after, edge.parent, edge);
    for (const edge of out) drop(before, edge.child, edge);
    before.delete(number);
    after.delete(number);
    if (into.length * out.length > MAX_BRIDGED) return;
    for (const { parent } of into) for (const { child, label } of out) {
      if (parent !== child && !after.get(parent)?.some((known) => known.child === child)) add({ parent, child, label });
    }
  });
  return [...after.values()].flat();
}

function drop(lists: Map<number, Edge[]>, key: number, edge: Edge): void {
  lists.set(key, (lists.get(key) ?? []).filter((other) => other !== edge));
}

function emptyFrames({ frames, boxes }: Picture, isHidden: readonly boolean[]): boolean[] {
  const isEmpty = frames.map((_, frame) => frame > 0);
  boxes.forEach(({ frame }, number) => {
    for (let around = isHidden[number] ? -1 : frame; around > 0 && isEmpty[around]; around = frames[around].parent) isEmpty[around] = false;
  });
  return isEmpty;
}

/** The new numbers of what stays; -1 for what goes. */
function renumber(isHidden: readonly boolean[]): number[] {
  let next = 0;
  return isHidden.map((is) => (is ? -1 : next++));
}
