// Formats tokens for display: whitespace and empty tokens become visible.

/** Signs for what would not be seen: the space that a token begins with, the end of a line, nothing at all. */
export function visibleToken(token: string): string {
  if (token === "") return "∅";
  return token.replace(/\r?\n/g, "↵").replace(/\t/g, "→").replace(/^ +| +$/g, (spaces) => "·".repeat(spaces.length));
}

/** Tokens that are rendered before the user clicks "Show all". */
export const MOST_TOKENS = 3000;

/** How many of the texts are drawn at first: all that stay within the limit together, one at least. */
export function initialTextCount(sizes: readonly number[], most = MOST_TOKENS): number {
  let total = 0;
  for (const [place, size] of sizes.entries()) {
    total += size;
    if (total > most) return Math.max(1, place);
  }
  return sizes.length;
}
