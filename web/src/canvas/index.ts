/** Public interface of the graph canvas: pan, zoom, select, fold, animate between pictures. */

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
