/** The graph canvas: pan, zoom, select, fold, and glide from one picture to the next. */

export { GraphCanvas } from "./graph-canvas";
export { PLAIN, edgeKey } from "./types";
export type {
  Camera,
  Decorations,
  Direction,
  EdgeLook,
  Events,
  Look,
  Options,
  Scene,
  ShowOptions,
} from "./types";
