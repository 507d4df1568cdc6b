// Small operations on maps of lists, sets and ranges.

/** Append a value to the list of a key. */
export function append<K, V>(lists: Map<K, V[]>, key: K, value: V): void {
  const list = lists.get(key);
  if (list) list.push(value);
  else lists.set(key, [value]);
}

/** The set with or without a value. */
export function toggled(set: ReadonlySet<number>, value: number): ReadonlySet<number> {
  const result = new Set(set);
  if (!result.delete(value)) result.add(value);
  return result;
}

/** The integers from `first` up to, but not including, `end`. */
export function range(first: number, end: number): number[] {
  return Array.from({ length: Math.max(0, end - first) }, (_, i) => first + i);
}
