// Statistics as people read them: what they are called, in which order they stand, and which of them call for a look.

import { exact, short } from "./units";
import type { Sibling, StatisticView } from "./wire";

const TITLES: Readonly<Record<string, string>> = {
  nonfinite: "NaN or Inf", nans: "NaN", infs: "Inf", p50: "median", count: "elements",
};
const ORDER = ["mean", "abs_mean", "std", "norm", "zeros", "min", "max", "nonfinite", "nans", "infs", "spectral_norm"];
/** Statistics that span powers of ten over a training. */
const WIDE = /norm|abs|std|count|ratio|grad/;
/** From so many robust deviations on, a number stands out. */
export const FAR = 5;

/** `abs mean` for `abs_mean`. */
export function titleOf(name: string): string {
  return TITLES[name] ?? name.replaceAll("_", " ");
}

/** The pieces of a histogram are drawn, and quantiles stand together. */
export function isPiece(name: string): boolean {
  return /^(h\d+|low|high)$/.test(name);
}

export function isQuantile(name: string): boolean {
  return /^p\d+$/.test(name);
}

export function isWide(name: string): boolean {
  return WIDE.test(name);
}

/** Statistics that can be chosen, the usual ones first. */
export function ranked(names: readonly string[]): string[] {
  const rank = (name: string): number => (ORDER.includes(name) ? ORDER.indexOf(name) : name === "count" ? 300 : isQuantile(name) ? 100 + Number(name.slice(1)) : 50);
  return names.filter((name) => !isPiece(name)).sort((a, b) => rank(a) - rank(b));
}

/** One card of the inspector. */
export interface StatisticCard {
  readonly name: string;
  readonly title: string;
  readonly text: string;
  readonly exact: string;
  /** What is remarkable about it. */
  readonly marks: readonly string[];
  /** What else there is to say. */
  readonly notes: readonly string[];
  readonly isOut: boolean;
}

/** Units that are zero for the whole batch, and how many there are in all. */
export interface Dead {
  readonly dead: number | null;
  readonly units: number;
}

/** From this share of dead units on, something is wrong. */
const MANY_DEAD = 0.1;

/** The statistics of one tensor at one step as cards; quantiles are left to the picture of them. */
export function cardsOf(statistics: readonly StatisticView[], { dead, units }: Dead = { dead: null, units: 0 }): StatisticCard[] {
  const cards = plainCards(statistics);
  if (!dead) return cards;
  const said = `dead units ${dead.toLocaleString("en")}`;
  const isBad = dead >= MANY_DEAD * units;
  return cards.map((card) => (card.name !== "zeros" ? card
    : isBad ? { ...card, marks: [...card.marks, said], isOut: true } : { ...card, notes: [...card.notes, said] }));
}

function plainCards(statistics: readonly StatisticView[]): StatisticCard[] {
  const named = new Map(statistics.map((one) => [one.name, one]));
  const names = ranked([...named.keys()]).filter((name) => !isQuantile(name) && name !== "count");
  return names.filter((name) => name !== "infs" && !(name === "nonfinite" && named.has("nans"))).map((name) => cardOf(named.get(name)!, named));
}

function cardOf(one: StatisticView, named: ReadonlyMap<string, StatisticView>): StatisticCard {
  const { name } = one;
  const count = named.get("count")?.value;
  // Of nothing there is nothing to say.
  if (count === 0) return { name, title: name === "nans" && named.has("infs") ? "NaN · Inf" : titleOf(name), text: "–", exact: "no elements", marks: [], notes: [], isOut: false };
  if (name === "nans" && named.has("infs")) {
    const numbers = [one, named.get("infs")!].map(said).join(" · ");
    return { name, title: "NaN · Inf", text: numbers, exact: numbers, marks: [], notes: [], isOut: !/^[0–] · [0–]$/.test(numbers) };
  }
  if (name === "nonfinite" || name === "nans") {
    const text = name === "nans" ? said(one) : one.value ? "some" : "none";
    return { name, title: titleOf(name), text, exact: text, marks: [], notes: [], isOut: Boolean(one.value) };
  }
  const marks = marksOf(one);
  const isShare = name === "zeros" && one.value !== null && count;
  const text = isShare ? `${short((100 * one.value!) / count)} %` : said(one);
  const whole = one.value === null ? text : isShare ? `${one.value!.toLocaleString("en")} of ${count.toLocaleString("en")}` : exact(one.value);
  return { name, title: titleOf(name), text, exact: whole, marks, notes: [], isOut: marks.length > 0 || one.word !== "" };
}

function said({ value, word }: StatisticView): string {
  if (value !== null) return short(value);
  return { nan: "NaN", inf: "∞", "-inf": "−∞" }[word] ?? "–";
}

/** How a number stands out, in few words. */
export function marksOf({ z_history, z_step }: StatisticView): string[] {
  const say = (z: number | null, what: string): string[] => (z !== null && Math.abs(z) >= FAR ? [`z ${deviations(z)} vs. ${what}`] : []);
  return [...say(z_step, "step"), ...say(z_history, "past")];
}

/** They are cut off at 99. */
export function deviations(z: number): string {
  return Math.abs(z) >= 99 ? (z > 0 ? "> 99" : "< −99") : short(Number(z.toFixed(1)));
}

/** How a tensor compares with the one that should be alike; "" where it does. `what` is "gradient", "value"… */
export function siblingSaid(sibling: Pick<Sibling, "site" | "n" | "ratio"> | null, what: string): string {
  if (!sibling) return "";
  const { site, n, ratio } = sibling;
  const than = n > 1 ? `most of its ${n} siblings, such as ${site}` : `its sibling ${site}`;
  if (ratio === 0) return `${what} is zero, unlike ${than}`;
  const times = ratio > 1 ? ratio : 1 / ratio;
  const power = Math.round(Math.log10(times));
  return `${what} ${power > 2 ? `10${raised(power)}` : short(times)} × ${ratio > 1 ? "larger" : "smaller"} than ${n > 1 ? `in ${than}` : than}`;
}

function raised(power: number): string {
  return String(power).replace(/\d/g, (digit) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[Number(digit)]);
}

/** What stands out most in a tensor, as a sentence; "" if nothing does. */
export function remark(statistics: readonly StatisticView[]): string {
  const has = (wanted: string): boolean => statistics.some(({ name, value }) => name === wanted && value);
  const count = statistics.find(({ name }) => name === "count")?.value;
  const all = statistics.find(({ name }) => name === "nans")?.value;
  if (count === 0) return "";
  if (all && all === count) return "holds nothing but NaN";
  if (has("nans")) return "holds NaN";
  if (has("infs")) return "holds infinities";
  if (has("nonfinite")) return "holds NaN or infinities";
  let [best, sentence] = [FAR, ""];
  for (const one of statistics) {
    if (isPiece(one.name) || isQuantile(one.name) || one.name === "count") continue;
    for (const [z, than] of [[one.z_step, `the other tensors of its role (${one.n_step})`], [one.z_history, `its own last ${one.n_history} steps`]] as const) {
      if (z === null || Math.abs(z) < best) continue;
      best = Math.abs(z);
      sentence = `${titleOf(one.name)} far ${z > 0 ? "above" : "below"} ${than}`;
    }
  }
  return sentence;
}
