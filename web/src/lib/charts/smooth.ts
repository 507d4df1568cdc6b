// Exponential smoothing of curves.

import type { Numbers } from "./decimate";

/**
 * Exponential moving average with bias correction, so that the first points are not pulled towards zero. Non-finite values
 * stay as they are and are skipped.
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
