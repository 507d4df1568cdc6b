// Symmetric log axis: linear around zero, logarithmic beyond.

export interface Axis {
  readonly low: number;
  readonly high: number;
  /** Magnitude below which the axis is linear. */
  readonly knee: number;
}

/** Symmetric logarithm: linear near zero, logarithmic beyond. */
export function symlog(value: number, knee: number): number {
  return Math.sign(value) * Math.log1p(Math.abs(value) / knee);
}

/** The linear threshold of the axis: below nearly all of these values. */
export function kneeOf(values: Iterable<number>): number {
  const sizes = Float64Array.from(values, Math.abs).filter((size) => Number.isFinite(size) && size !== 0).sort();
  if (!sizes.length) return 1;
  // A few extreme magnitudes must not squeeze all others into one point.
  return Math.max(sizes[Math.floor(sizes.length * 0.05)], sizes[sizes.length - 1] * 1e-9);
}

/** The axis of these values, which always includes zero and has a nonzero width. */
export function axisOf(values: Iterable<number>): Axis {
  const finite = [...values].filter(Number.isFinite);
  let [low, high] = [0, 0];
  for (const value of finite) [low, high] = [Math.min(low, value), Math.max(high, value)];
  return low === high ? { low: -1, high: 1, knee: 1 } : { low, high, knee: kneeOf(finite) };
}

/** Position of a value on an axis, clamped to 0 … 1. */
export function along({ low, high, knee }: Axis, value: number): number {
  const [from, to] = [symlog(low, knee), symlog(high, knee)];
  return Math.max(0, Math.min(1, (symlog(value, knee) - from) / (to - from)));
}

/** Powers of ten that fit the axis, and zero; none nearer to the next than `gap`, a share of the axis. */
export function ticks(axis: Axis, gap: number): number[] {
  const { low, high, knee } = axis;
  const out = [0];
  const most = Math.max(-low, high);
  for (const sign of [1, -1]) {
    const end = sign > 0 ? high : -low;
    let last = along(axis, 0);
    for (let power = Math.ceil(Math.log10(knee)); 10 ** power <= Math.min(end, most); power++) {
      const at = along(axis, sign * 10 ** power);
      if (Math.abs(at - last) < gap) continue;
      out.push(sign * 10 ** power);
      last = at;
    }
  }
  return out.sort((a, b) => a - b);
}
