// Formats tokens for display: whitespace and empty tokens become visible.

/** Visible symbols for a leading space, a line break and an empty token. */
export function visibleToken(token: string): string {
  if (token === "") return "∅";
  return token.replace(/\r?\n/g, "↵").replace(/\t/g, "→").replace(/^ +| +$/g, (spaces) => "·".repeat(spaces.length));
}

/** Tokens that are rendered before the user clicks "Show all". */
export const MOST_TOKENS = 3000;

/** How many texts are rendered initially: as many as stay within the limit, at least one. */
export function initialTextCount(sizes: readonly number[], most = MOST_TOKENS): number {
  let total = 0;
  for (const [place, size] of sizes.entries()) {
    total += size;
    if (total > most) return Math.max(1, place);
  }
  return sizes.length;
}
