// Exponential smoothing of curves.

import type { Numbers } from "./decimate";

/**
 * The moving average in which each older point counts `weight` times the one after it. The first points are not drawn
 * towards zero; what is not finite stays as it is and counts for nothing.
 */
export function smooth(y: Numbers, weight: number): Float64Array {
  const out = new Float64Array(y.length);
  let [sum, all] = [0, 0];
  for (let i = 0; i < y.length; i++) {
    const isFinite = Number.isFinite(y[i]);
    if (isFinite) {
      sum = weight * sum + (1 - weight) * y[i];
      all = weight * all + (1 - weight);
    }
    out[i] = isFinite && all > 0 ? sum / all : y[i];
  }
  return out;
}
