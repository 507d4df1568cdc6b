// Unique titles for the tabs of several views.

/** Titles; those that are there more than once are numbered. */
export function tabNames(titles: readonly string[]): string[] {
  return titles.map((title, index) => {
    const isAlone = titles.filter((other) => other === title).length === 1;
    return isAlone ? title : `${title} (${titles.slice(0, index + 1).filter((other) => other === title).length})`;
  });
}
