// Navigation between the units of a collection: by site, number, name, or one by one.

import { useEffect, useState } from "preact/hooks";
import { IconButton, Menu } from "../../graph/controls";
import { Icon } from "../../graph/icons";
import { unitBeside, inSite, nameOf, findUnit, unitOf, type Site, type Unit } from "../../lib/unit-names";

interface Props {
  readonly sites: readonly Site[];
  /** The name of the unit that is shown; "" for the collection as a whole. */
  readonly unit: string;
  onGo(unit: string): void;
}

/** The keys of this bar, and how the help sheet shows them. */
export const UNIT_KEYS: readonly (readonly [shown: string, does: string, keys: Readonly<Record<string, "unit" | "site">>])[] = [
  [", · .", "previous · next unit", { ",": "unit", ".": "unit" }],
  ["[ · ]", "same unit in the previous · next site", { "[": "site", "]": "site" }],
  ["Enter", "in a table: go to the unit, site or result of the selected row", {}],
];

/** The name of the unit that a key goes to; null where it goes nowhere. The first unit where none is shown yet. */
export function unitAfterKey(sites: readonly Site[], unit: string, key: string): string | null {
  const kind = UNIT_KEYS.map(([, , keys]) => keys[key]).find(Boolean);
  if (!kind || !sites.length) return null;
  const at = unitOf(unit);
  const by = key === "," || key === "[" ? -1 : 1;
  const next = !at ? inSite(sites, sites[0].site, 0) : kind === "unit" ? unitBeside(sites, at, by) : inSite(sites, siteBeside(sites, at, by), at.number);
  return next && nameOf(next);
}

function siteBeside(sites: readonly Site[], { site }: Unit, by: number): string {
  return sites[sites.findIndex((each) => each.site === site) + by]?.site ?? "";
}

export function UnitBar({ sites, unit, onGo }: Props) {
  const [typed, setTyped] = useState(unit);
  const [error, setError] = useState("");
  useEffect(() => {
    setTyped(unit);
    setError("");
  }, [unit]);
  const at = unitOf(unit);
  const site = at?.site ?? sites[0].site;
  const search = (event: Event): void => {
    event.preventDefault();
    const found = findUnit(sites, typed, site);
    if (typeof found === "string") setError(found);
    else onGo(nameOf(found));
  };
  const step = (by: number): Unit | null => (at ? unitBeside(sites, at, by) : by > 0 ? inSite(sites, site, 0) : null);
  const key = (event: KeyboardEvent): void => {
    if (event.key !== "Escape") return;
    setTyped(unit);
    setError("");
    (event.currentTarget as HTMLElement).blur();
    event.stopPropagation();
  };
  return (
    <div class="panel-bar unit-bar" role="group" aria-label="Units">
      <Menu name="Site" value={site} choices={sites.map((each) => [each.site, each.site])} onChoose={(to) => {
        const found = inSite(sites, to, at?.number ?? 0);
        if (found) onGo(nameOf(found));
      }} />
      <span class="stepper">
        <IconButton icon="left" title="Previous unit (,)" isOff={!step(-1)} onClick={() => onGo(nameOf(step(-1)!))} />
        <IconButton icon="right" title="Next unit (.)" isOff={!step(1)} onClick={() => onGo(nameOf(step(1)!))} />
      </span>
      <form class="search" role="search" onSubmit={search}>
        <Icon name="search" />
        <input type="text" aria-label="Unit" placeholder={`Unit: 17, or ${nameOf({ site, number: 17 })}`} value={typed} spellcheck={false} autocomplete="off" list="cutaway-sites"
          aria-invalid={error !== ""} onInput={(event) => { setTyped(event.currentTarget.value); setError(""); }} onKeyDown={key} onFocus={(event) => event.currentTarget.select()} />
        <datalist id="cutaway-sites">{sites.slice(0, 400).map((each) => <option key={each.site} value={`${each.site}#`} />)}</datalist>
        <kbd>/</kbd>
      </form>
      {unit && <button type="button" class="button" title="Summary of the collection" onClick={() => onGo("")}>Collection</button>}
      <span class="unit-error" role="status">{error}</span>
    </div>
  );
}
