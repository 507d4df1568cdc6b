/** Placement of frame titles: visible while the frame is, readable, never overlapping. */

import { EM, LINE, shortenName } from "./detail";

/** A frame on the screen, in CSS pixels. */
export interface Titled {
  readonly title: string;
  /** The text of a button behind the title. */
  readonly action?: string;
  /** Place in this list of the frame around it; -1 if there is none. */
  readonly parent: number;
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
}

/** A title with its place: the upper left corner of the strip that holds chevron and text. */
export interface Title {
  /** Place in the list that was given. */
  readonly frame: number;
  readonly text: string;
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
  readonly size: number;
  /** Whether it left the top of its frame to stay in view. */
  readonly isStuck: boolean;
  /** Whether it is at the right of the picture. */
  readonly isOutside: boolean;
  /** The button behind the text, where there is room for it: what it says, and how far from `x` it begins. */
  readonly action?: { readonly text: string; readonly from: number };
}

interface Screen {
  readonly width: number;
  readonly height: number;
}

const LEAST = 11;
const LARGEST = 16;
/** Height of the empty strip at the top of a frame, in units. */
const STRIP = 24;
/** Below this scale boxes have no names, and titles may be large. */
const FAR = 0.16;
/** Pixels of height from which on a frame that is named outside names its inner frames too. */
const ROOMY = 130;
/** From this scale on there are buttons. */
export const NEAR = 0.45;
/** The text begins behind the chevron. */
export const INDENT = 1.25;

/**
 * Titles of frames, outer ones first: what is named first takes the room. Where frames are too narrow for theirs, titles
 * stand at the right of the whole picture, which ends at `border`.
 */
export function titlesOf(frames: readonly Titled[], screen: Screen, scale: number, border = Infinity): Title[] {
  const placed: (Title | undefined)[] = [];
  const out: Title[] = [];
  for (const i of outerFirst(frames)) {
    const frame = frames[i]!;
    if (frame.parent >= 0 && frame.height < LEAST) continue;
    const above = frame.parent >= 0 ? placed[frame.parent] : undefined;
    const inside = titleOf(frame, i, above, screen, scale);
    const isWhole = inside !== null && !inside.text.endsWith("…");
    const mayLeave = !isWhole && (frame.parent < 0 || (above?.isOutside && frames[frame.parent]!.height > ROOMY));
    const title = (mayLeave ? outsideOf(frame, i, above, screen, scale, border) : null) ?? inside;
    if (!title || out.some((other) => overlap(title, other))) continue;
    placed[i] = title;
    out.push(title);
  }
  return out;
}

function outerFirst(frames: readonly Titled[]): number[] {
  const levels: number[][] = [];
  const depth: number[] = [];
  frames.forEach((frame, i) => {
    depth[i] = frame.parent >= 0 ? depth[frame.parent]! + 1 : 0;
    (levels[depth[i]!] ??= []).push(i);
  });
  return levels.flat();
}

function outsideOf(frame: Titled, number: number, above: Title | undefined, screen: Screen, scale: number, border: number): Title | null {
  if (scale > FAR || frame.y + frame.height < 0 || frame.y > screen.height) return null;
  const x = above?.isOutside ? above.x + LEAST : border + LEAST;
  const text = shortenName(frame.title, Math.floor((screen.width - x) / (LEAST * EM) - INDENT - 1));
  const y = Math.max(frame.y, 0);
  if (!text || text.endsWith("…")) return null;
  return { frame: number, text, x, y, size: LEAST, height: LEAST * 1.35, width: LEAST * INDENT + text.length * LEAST * EM, isStuck: false, isOutside: true };
}

function titleOf(frame: Titled, number: number, above: Title | undefined, screen: Screen, scale: number): Title | null {
  const pad = Math.min(8 * scale, 8);
  const [right, bottom] = [frame.x + frame.width, frame.y + frame.height];
  if (right < 0 || bottom < 0 || frame.x > screen.width || frame.y > screen.height) return null;
  const room = Math.min(right, screen.width) - Math.max(frame.x, 0) - 2 * pad;
  const size = sizeOf(frame, room, scale);
  const height = size * 1.5;
  const chars = Math.floor((room - size * INDENT) / (size * EM));
  const text = shortenName(frame.title, chars);
  if (!text || frame.height < height) return null;
  const floor = above?.isStuck ? above.y + above.height : 0;
  // If the strip at the top of the frame is lower than the text, the title overlaps the border instead of boxes.
  const top = frame.y + (scale > FAR ? Math.min(4 * scale, STRIP * scale - height) : 1);
  const y = Math.min(Math.max(top, floor), bottom - height - 1);
  const x = Math.max(frame.x, 0) + pad;
  const width = size * INDENT + text.length * size * EM;
  const title = { frame: number, text, x, y, size, height, width, isStuck: y > top + 0.5, isOutside: false };
  return (frame.action && scale >= NEAR && withAction(title, frame.title, frame.action, room)) || title;
}

/** The title with its button, which is worth more than the class in brackets; null if there is no room for both. */
function withAction(title: Title, whole: string, action: string, room: number): Title | null {
  const { size } = title;
  const more = (1.5 + action.length * EM) * size;
  const short = shortenName(whole, Math.floor((room - more) / (size * EM) - INDENT / EM));
  for (const text of [title.text, short]) {
    const width = size * INDENT + text.length * size * EM;
    // A rest such as `3.attn` or `enc…` does not identify the module.
    if (width + more > room || !/^[^\d]/.test(text) || text.endsWith("…")) continue;
    return { ...title, text, width: width + more, action: { text: action, from: width + 1.5 * size } };
  }
  // "show all 5", or "all 5".
  const [, ...rest] = action.split(" ");
  return rest.length ? withAction(title, whole, rest.join(" "), room) : null;
}

// True to scale when zoomed in; larger when zoomed out, as far as the frame has room.
function sizeOf(frame: Titled, room: number, scale: number): number {
  if (scale >= 1) return Math.min(LINE * scale, 22);
  const fits = Math.min(room / ((frame.title.length + 1) * EM + INDENT), frame.height / 6);
  const grown = scale > FAR ? LEAST : Math.min(LARGEST, fits);
  return Math.max(LEAST, grown);
}

function overlap(a: Title, b: Title): boolean {
  return a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height;
}
