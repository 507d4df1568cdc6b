// Titles, order and cards of statistics, from the table that Python sends.

import { exact, short } from "../formatting";
import { HOLDS_INF, HOLDS_MASK, HOLDS_NAN, HOLDS_ZEROS, LARGEST, STATISTICS, UNKNOWN, type Sibling, type Statistic, type StatisticView, type TensorView } from "../wire";

const BY_NAME: ReadonlyMap<string, Statistic> = new Map(STATISTICS.map((each) => [each.name, each]));
const RANKS: ReadonlyMap<string, number> = new Map(STATISTICS.map(({ name }, rank) => [name, rank]));
/** Statistics that are not in the table come before the quantiles. */
const UNRANKED = STATISTICS.findIndex(({ part }) => part === "quantile") - 0.5;

/** The entry of a statistic; one that is not in the table has its name as title. */
export function statisticOf(name: string): Statistic {
  return BY_NAME.get(name) ?? { ...UNKNOWN, name, title: name.replaceAll("_", " ") };
}

/** `abs mean` for `abs_mean`. */
export function titleOf(name: string): string {
  return statisticOf(name).title;
}

/** Whether it has its own card: histogram bins and quantiles are shown together elsewhere. */
export function isHistogramPart(name: string): boolean {
  return statisticOf(name).part === "histogram";
}

export function isQuantile(name: string): boolean {
  return statisticOf(name).part === "quantile";
}

/** Whether it typically spans powers of ten over a training run. */
export function isLogScaled(name: string): boolean {
  return statisticOf(name).scale === "log";
}

/** Statistics that can be chosen, the usual ones first. */
export function selectableStatistics(names: readonly string[]): string[] {
  const rank = (name: string): number => RANKS.get(name) ?? UNRANKED;
  return names.filter((name) => !isHistogramPart(name)).sort((a, b) => rank(a) - rank(b));
}

/** The default statistic: the magnitude of the values. */
export function defaultStatistic(names: readonly string[]): string {
  const all = selectableStatistics(names);
  return all.find((name) => statisticOf(name).is_size) ?? all[0] ?? "";
}

/** Tooltip of a column or card: what the statistic is. */
export function aboutOf(name: string): string {
  const { about } = statisticOf(name);
  return about && `${about[0].toUpperCase()}${about.slice(1)}.`;
}

/** One card of the inspector. */
export interface StatisticCard {
  readonly name: string;
  readonly title: string;
  readonly text: string;
  readonly exact: string;
  /** Labels of its outliers. */
  readonly marks: readonly string[];
  /** Further notes. */
  readonly notes: readonly string[];
  readonly isOut: boolean;
}

/** Units that are zero for the whole batch, and how many there are in all. */
export interface Dead {
  readonly dead: number | null;
  readonly units: number;
  /** Whether −Inf is no fault, because the tensor is a mask. */
  readonly isMask?: boolean;
}

/** Share of dead units from which the card is marked. */
const MANY_DEAD = 0.1;

/** The statistics of one tensor at one step as cards; quantiles are left to the picture of them. */
export function cardsOf(statistics: readonly StatisticView[], { dead, units, isMask = false }: Dead = { dead: null, units: 0 }): StatisticCard[] {
  const cards = plainCards(statistics).map((card) => (isMask ? { ...card, isOut: false } : card));
  if (!dead) return cards;
  const deadText = `dead units ${dead.toLocaleString("en")}`;
  const isBad = dead >= MANY_DEAD * units;
  return cards.map((card) => (card.name !== "zeros" ? card
    : isBad ? { ...card, marks: [...card.marks, deadText], isOut: true } : { ...card, notes: [...card.notes, deadText] }));
}

function plainCards(statistics: readonly StatisticView[]): StatisticCard[] {
  const named = new Map(statistics.map((one) => [one.name, one]));
  const names = selectableStatistics([...named.keys()]).filter((name) => !isQuantile(name) && name !== "count");
  const faults = faultsOf(names);
  return names.filter((name) => !statisticOf(name).is_fault || name === faults[0]).map((name) => cardOf(named.get(name)!, named, faults));
}

/** Counts of NaN and Inf in one card; without counts, the flag whether there are any. */
function faultsOf(names: readonly string[]): string[] {
  const faults = names.filter((name) => statisticOf(name).is_fault);
  const counts = faults.filter((name) => statisticOf(name).unit === "elements");
  return counts.length ? counts : faults;
}

function cardOf(one: StatisticView, named: ReadonlyMap<string, StatisticView>, faults: readonly string[]): StatisticCard {
  const { name } = one;
  const { unit, is_fault: isFault } = statisticOf(name);
  const count = named.get("count")?.value;
  const title = isFault ? faults.map(titleOf).join(" · ") : titleOf(name);
  // An empty tensor has no statistics to report.
  if (count === 0) return { name, title, text: "–", exact: "no elements", marks: [], notes: [], isOut: false };
  if (isFault) {
    const text = faults.map((each) => (unit === "flag" ? (named.get(each)!.value ? "some" : "none") : formatStatistic(named.get(each)!))).join(" · ");
    return { name, title, text, exact: text, marks: [], notes: [], isOut: faults.some((each) => Boolean(named.get(each)!.value)) };
  }
  const marks = one.unusual ? [one.unusual.text] : [];
  const isShare = unit === "elements" && one.value !== null && count;
  const text = isShare ? `${short((100 * one.value!) / count)} %` : formatStatistic(one);
  const whole = one.value === null ? missingText(one) || text : isShare ? `${one.value!.toLocaleString("en")} of ${count.toLocaleString("en")}` : exact(one.value);
  return { name, title: titleOf(name), text, exact: whole, marks, notes: [], isOut: marks.length > 0 || one.non_finite !== "" };
}

/** Why a tensor has no such statistic; "" where it should have it. */
export function missingText({ name, value, non_finite }: StatisticView): string {
  const { undefined: which } = statisticOf(name);
  return value === null && !non_finite && which ? `none for ${which}` : "";
}

/** Message of a curve without any finite value, for statistics that some tensors cannot have. */
export function allMissing(name: string): string | undefined {
  const { undefined: which } = statisticOf(name);
  return which ? `NaN at every step, as for ${which}.` : undefined;
}

function formatStatistic({ value, non_finite }: StatisticView): string {
  if (value !== null) return short(value);
  return { nan: "NaN", inf: "∞", "-inf": "−∞" }[non_finite] ?? "–";
}

/** A z-score with few digits; large ones were clipped. */
export function zText(z: number): string {
  return Math.abs(z) >= LARGEST ? (z > 0 ? "> 99" : "< −99") : short(Number(z.toFixed(1)));
}

/** How a tensor differs from its sibling; "" if it does not. `what` is "gradient", "value"… */
export function compareWithSibling(sibling: Pick<Sibling, "site" | "n" | "ratio"> | null, what: string): string {
  if (!sibling) return "";
  const { site, n, ratio } = sibling;
  const than = n > 1 ? `most of its ${n} siblings, such as ${site}` : `its sibling ${site}`;
  if (ratio === 0) return `${what} is zero, unlike ${than}`;
  const times = ratio > 1 ? ratio : 1 / ratio;
  const power = Math.round(Math.log10(times));
  return `${what} ${power > 2 ? `10${superscript(power)}` : short(times)} × ${ratio > 1 ? "larger" : "smaller"} than ${n > 1 ? `in ${than}` : than}`;
}

function superscript(power: number): string {
  return String(power).replace(/\d/g, (digit) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[Number(digit)]);
}

/** The most unusual fact about a tensor, as the server tells it; "" if there is none. */
export function remark({ statistics, contents }: Pick<TensorView, "statistics" | "contents">): { text: string; about: string } {
  const named = new Map(statistics.map(({ name, value }) => [name, value]));
  const all = named.get("count") ?? NaN;
  const only = (name: string): string => (named.get(name) === all ? "only " : "");
  if (contents === HOLDS_NAN) return { text: `holds ${only("nans")}NaN`, about: "" };
  if (contents === HOLDS_INF) return { text: `holds ${only("infs")}Inf`, about: "" };
  let best: StatisticView | null = null;
  const strength = ({ unusual }: StatisticView): number => Math.max(Math.abs(unusual?.z_past ?? 0), Math.abs(unusual?.z_peers ?? 0));
  for (const one of statistics) if (one.unusual && (!best || strength(one) > strength(best))) best = one;
  return best ? { text: `${titleOf(best.name)} ${best.unusual!.text}`, about: best.unusual!.about } : { text: "", about: "" };
}

/** What a tensor holds that is no fault: zeros, or the −Inf of a mask; "" for numbers. */
export function plainContents(contents: number): string {
  return contents === HOLDS_ZEROS ? "all zero" : contents === HOLDS_MASK ? "holds −Inf, as a mask does" : "";
}
