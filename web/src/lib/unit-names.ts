// Parses names of units and steps from unit to unit.

/** A site of a collection, and the numbers of its units; none where they are all from 0 on. */
export interface Site {
  readonly site: string;
  readonly width: number;
  readonly units: readonly number[];
}

export interface Unit {
  readonly site: string;
  readonly number: number;
}

/** `encoder.layer.3#17`, taken apart; null for what is no such name. */
export function unitOf(name: string): Unit | null {
  const [, site, digits] = /^(.+)#(\d{1,9})$/.exec(name) ?? [];
  return site ? { site, number: Number(digits) } : null;
}

export function nameOf({ site, number }: Unit): string {
  return `${site}#${number}`;
}

/** The place of a unit within its site; -1 for none. */
function placeOf({ width, units }: Site, number: number): number {
  return units.length ? units.indexOf(number) : number < width ? number : -1;
}

function numberAt({ units }: Site, place: number): number {
  return units.length ? units[place] : place;
}

/** The unit `by` places on in the same site; null beyond its ends. */
export function unitBeside(sites: readonly Site[], { site, number }: Unit, by: number): Unit | null {
  const own = sites.find((each) => each.site === site);
  const place = own ? placeOf(own, number) + by : -1;
  return own && place >= 0 && place < own.width ? { site, number: numberAt(own, place) } : null;
}

/** The same number in another site, or the first one there. */
export function inSite(sites: readonly Site[], site: string, number: number): Unit | null {
  const own = sites.find((each) => each.site === site);
  return own ? { site, number: placeOf(own, number) >= 0 ? number : numberAt(own, 0) } : null;
}

/** The unit for a query: a number within the current site, a name, or parts of a name. An error message if there is none. */
export function findUnit(sites: readonly Site[], typed: string, at: string): Unit | string {
  const text = typed.trim();
  const [, part, digits] = /^(.*?)(?:[#\s]\s*(\d{1,9}))?$/.exec(/^#?\d+$/.test(text) ? `${at}#${text.replace("#", "")}` : text) ?? [];
  const words = (part ?? "").toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length) return "Enter a unit number or a name such as " + nameOf({ site: sites[0]?.site ?? "h", number: 17 }) + ".";
  const own = sites.find(({ site }) => site.toLowerCase() === words.join(" ")) ?? sites.find(({ site }) => words.every((word) => site.toLowerCase().endsWith(word)))
    ?? sites.find(({ site }) => words.every((word) => site.toLowerCase().includes(word)));
  if (!own) return `No site matches ${part}.`;
  const number = digits === undefined ? numberAt(own, 0) : Number(digits);
  if (placeOf(own, number) >= 0) return { site: own.site, number };
  const [first, last] = [numberAt(own, 0), numberAt(own, own.width - 1)];
  return `${own.site} has no unit ${number.toLocaleString("en")}: its units are numbered ${first} to ${last}${own.units.length ? ", with gaps" : ""}.`;
}
