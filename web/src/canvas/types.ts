/** Types of the canvas: what it paints and which events it emits. Nothing here depends on traces or runs. */

import type { Form, Kind, Mark } from "../lib/wire";

export interface Box {
  readonly key: string;
  /** The first is the name. */
  readonly lines: readonly string[];
  readonly kind: Kind;
  readonly form: Form;
  readonly flags: number;
  readonly frame: number;
  /** How many identical blocks it stands for. */
  readonly stack: number;
  /** Keys of the boxes a stand-in stands for. */
  readonly stands_for?: readonly string[];
  readonly mark: Mark;
  readonly shade: number;
}

export interface Frame {
  readonly key: string;
  readonly title: string;
  readonly parent: number;
  readonly stack: number;
  readonly flags: number;
  readonly mark?: Mark;
}

export interface Edge {
  readonly parent: number;
  readonly child: number;
  readonly label: string;
}

/** What is in the picture. Frame 0 is the whole of it; frames stand after the frame around them. */
export interface Picture {
  readonly boxes: readonly Box[];
  readonly frames: readonly Frame[];
  readonly edges: readonly Edge[];
}

export interface Rect {
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
}

export type Point = readonly [number, number];

/** A piece of an edge. `child`: the box at which it arrives, with a tip; `frame`: the frame whose border it meets. */
export interface Line {
  readonly points: readonly Point[];
  readonly parent: number;
  readonly child: number | null;
  readonly frame: number | null;
  readonly is_feedback: boolean;
}

/** Where each box and frame of a picture is, and the lines between them. */
export interface Placement {
  readonly width: number;
  readonly height: number;
  readonly boxes: readonly Rect[];
  readonly frames: readonly Rect[];
  readonly lines: readonly Line[];
}

/** How one box (or frame) differs from its plain look. All colors are CSS colors. */
export interface Look {
  /** Fills the box; the ink is chosen to be readable on it. */
  readonly fill?: string;
  /** A strip along the left side; where boxes are too small for text, it fills them. */
  readonly strip?: string;
  /** In place of the strip, for what has no color: hollow for zeros, hatched for NaN, ∞ for Inf and −∞ for a mask. */
  readonly holds?: "zero" | "nan" | "inf" | "mask";
  /** A round badge at the upper right corner: training does not reach it. */
  readonly corner?: "no gradient" | "not updated" | "frozen";
  /** Words below the box, in the color of ordinary text. */
  readonly words?: string;
  /** Small cells along the lower side, one for each of what the box stands for. */
  readonly cells?: readonly string[];
  /** A small pill at the upper right corner. */
  readonly badge?: string;
  /** Meaning of the badge, for the tooltip. */
  readonly about?: string;
  /** Almost transparent, for orientation only. */
  readonly dim?: boolean;
  /** A thick outline in the accent color: found by a search, on a path… */
  readonly strong?: boolean;
  /** Length of a bar along the lower side, from 0 to 1. */
  readonly size?: number;
  /** Color of a ring around the box. */
  readonly ring?: string;
  /** A word or two below the box, in the color of the ring, above other words. */
  readonly note?: string;
  /** A small button at the upper right corner of a box, behind the title of a frame. */
  readonly action?: string;
}

export type EdgeLook = "strong" | "faint" | "hidden";

/** Looks of boxes and frames by key, of edges by `edgeKey(parent key, child key)`. */
export interface Decorations {
  readonly boxes: ReadonlyMap<string, Look>;
  readonly edges: ReadonlyMap<string, EdgeLook>;
  /** The look of all edges that are not named. */
  readonly otherEdges?: EdgeLook;
}

export const PLAIN: Decorations = { boxes: new Map(), edges: new Map() };

/** Identity of the edge between two boxes. */
export function edgeKey(parent: string, child: string): string {
  return `${parent}>${child}`;
}

export interface Scene {
  readonly picture: Picture;
  readonly placement: Placement;
  readonly decorations?: Decorations;
  /** Direction of edges; "down" by default. */
  readonly direction?: "down" | "right";
}

/** The point of the picture at the upper left corner of the canvas, and CSS pixels per unit. */
export interface Camera {
  readonly x: number;
  readonly y: number;
  readonly scale: number;
}

export interface ShowOptions {
  /** Whether what moved glides to its new place; never where the system asks for reduced motion. */
  readonly animate: boolean;
  /** Key of the box or frame that keeps its place on the screen. */
  readonly anchor?: string;
  /** The camera after it; by default the old one, or all in view at first. */
  readonly camera?: Camera;
}

export interface Events {
  /** A box or frame was clicked; null: the background. */
  select(key: string | null, event: MouseEvent | PointerEvent): void;
  /** Chevron clicked, or double-click: fold or open it. */
  open(key: string): void;
  /** The button of a box or frame was clicked. */
  act?(key: string): void;
  /** A cell of a box was clicked: one of what it stands for. */
  cell?(key: string, cell: number): void;
  /** The pointer is over something else; `at` is in CSS pixels from the corner of the host. */
  hover?(key: string | null, at: { x: number; y: number }): void;
  /** A click with the secondary button, or a long touch. */
  menu?(key: string | null, event: MouseEvent): void;
  /** The camera moved. */
  view?(camera: Camera): void;
}

export interface Options {
  readonly on: Events;
  /** Whether the plain wheel zooms; otherwise it pans, and zooms with Ctrl or ⌘. */
  readonly wheelZooms?: boolean;
  readonly minimap?: boolean;
  /** CSS pixels at the top that the host covers: titles of frames stay below. */
  readonly top?: number;
  /** Overlays of the host, in CSS pixels from the corner of the canvas; fitting avoids them. */
  covered?(): readonly Rect[];
  /** What the canvas shows, for screen readers. */
  readonly label?: string;
}

export type Direction = "up" | "down" | "left" | "right";
