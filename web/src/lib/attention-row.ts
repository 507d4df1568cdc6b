// One row of attention weights: what one token attends to.

/**
 * The attention weights from one token to each of `n` tokens, of one head or averaged over all.
 *
 * `values` are those of one sample, with shape `[…, query, key]`.
 */
export function attentionRow(values: Float32Array, shape: readonly number[], from: number, n: number, head: number | null = null): number[] {
  const across = shape[shape.length - 1];
  const heads = shape.slice(0, -2).reduce((product, size) => product * size, 1);
  const own = head !== null && head < heads ? [head] : Array.from({ length: heads }, (_, i) => i);
  return Array.from({ length: n }, (_, to) => own.reduce((sum, one) => sum + values[(one * across + from) * across + to], 0) / own.length);
}
