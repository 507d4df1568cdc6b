// Sparklines.

import { axisOf, extent } from "./axes";
import { decimate, nearest, type Numbers } from "./decimate";

export interface Spark {
  /** For `d` of an SVG path; "" if there is nothing to draw. */
  readonly path: string;
  /** Where the point of an x lies; null if it has none. */
  readonly dot: readonly [number, number] | null;
}

export function sparkOf(x: Numbers, y: Numbers, size: readonly [number, number], isLog: boolean, at: number): Spark {
  const [width, height] = size;
  const [low, high] = [x[0] ?? 0, x[x.length - 1] ?? 1];
  const places = decimate(x, y, low, high, width);
  const axis = axisOf(extent(y, places), isLog);
  const [bottom, top] = [axis.forward(axis.low), axis.forward(axis.high)];
  const point = (place: number): [number, number] => [
    high > low ? (width * (x[place] - low)) / (high - low) : width / 2,
    height - (height * (axis.forward(y[place]) - bottom)) / (top - bottom || 1),
  ];
  let path = "";
  let isDown = false;
  for (const place of places) {
    if (!Number.isFinite(y[place])) {
      isDown = false;
      continue;
    }
    const [left, down] = point(place);
    path += `${isDown ? "L" : "M"}${left.toFixed(1)} ${down.toFixed(1)}`;
    isDown = true;
  }
  const own = nearest(x, at);
  return { path, dot: own >= 0 && Number.isFinite(y[own]) ? point(own) : null };
}
