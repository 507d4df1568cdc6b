// Search for ops and modules by words, or by a site pattern with `*` and `**`.

import type { GraphView } from "./wire";

/** Indices of the matching nodes and groups, in graph order. */
export interface Found {
  readonly nodes: readonly number[];
  readonly groups: readonly number[];
}

/** One match. */
export interface Hit {
  readonly key: string;
  readonly title: string;
  readonly about: string;
}

/** The searchable texts of a view, prepared once. */
export interface SearchIndex {
  readonly nodes: readonly string[];
  readonly sites: readonly string[];
  /** For a module with one op, its address, which is another name of the op's result; "" for others. */
  readonly leaves: readonly string[];
  readonly groups: readonly string[];
  readonly addresses: readonly string[];
}

const NOTHING: Found = { nodes: [], groups: [] };

/** Prepare a view for searching; `more` are further names of its nodes. */
export function searchIndex({ nodes, groups }: GraphView, more: readonly string[] = []): SearchIndex {
  return {
    // The lines of a module of one op name its address and class.
    nodes: nodes.label.map((label, node) =>
      [label, nodes.function[node], more[node] ?? "", ...(nodes.form[node] === "leaf" ? [nodes.site[node], ...nodes.lines[node]] : [])]
        .join("\n")
        .toLowerCase(),
    ),
    sites: nodes.site,
    leaves: nodes.site.map((site, node) => (nodes.form[node] === "leaf" ? site.replace(/\/[^/:]*/, "") : "")),
    groups: groups.label.map((label, group) => (group === 0 ? "" : `${label}\n${groups.class_name[group]}`.toLowerCase())),
    addresses: groups.label.map((label) => label.replace(/ .*$/, "")),
  };
}

/** The matches of a query: all its words, or, if it contains `*`, its pattern. */
export function search(index: SearchIndex, query: string): Found {
  const asked = query.trim();
  if (!asked) return NOTHING;
  if (asked.includes("*")) {
    const fits = sitePattern(asked);
    return {
      nodes: numbers(index.sites, (site, node) => fits.test(site) || (index.leaves[node] !== "" && fits.test(index.leaves[node]))),
      groups: numbers(index.addresses, (address, group) => group > 0 && fits.test(address)),
    };
  }
  const words = asked.toLowerCase().split(/\s+/);
  const has = (text: string): boolean => words.every((word) => text.includes(word));
  const found = { nodes: numbers(index.nodes, has), groups: numbers(index.groups, has) };
  if (found.nodes.length || found.groups.length || !/[./]/.test(asked)) return found;
  return { nodes: numbers(index.sites, (site) => has(site.toLowerCase())), groups: [] };
}

function numbers(texts: readonly string[], fits: (text: string, number: number) => boolean): number[] {
  const out: number[] = [];
  for (let i = 0; i < texts.length; i++) if (fits(texts[i], i)) out.push(i);
  return out;
}

/** A site pattern as a regular expression: `*` one path part or a piece of it, `**` any number of parts. */
export function sitePattern(pattern: string): RegExp {
  const [, address = "", rest = ""] = /^([^/@:#]*)(.*)$/.exec(pattern)!;
  // What is left open (ordinal, pass) covers all; only a trailing `**` reaches into the ops of a module.
  const open = /(^|\.)\*\*$/.test(address) ? "(?:/.*)?" : "";
  const [, op = "", tail = ""] = /^([^:#]*)(.*)$/.exec(rest)!;
  const ordinal = op && !/\.\d+$/.test(op) ? "(?:\\.\\d+)?" : "";
  const turn = tail.includes(":") ? "" : "(?::\\d+)?";
  const body = dotted(address) + escape(op).replace(/\\\*/g, "[^./]*") + ordinal + open + escape(tail) + turn;
  return new RegExp(`^(?:${body})$`, "i");
}

function dotted(address: string): string {
  const parts = address.split(".");
  if (parts.every((part) => part === "**")) return "[^/]*";
  let out = "";
  let isBegun = false;
  for (const part of parts) {
    if (part === "**") {
      out += isBegun ? "(?:\\.[^./]+)*" : "(?:[^./]+\\.)*";
      continue;
    }
    const literal = part === "*" ? "[^./]+" : escape(part).replace(/\\\*/g, "[^./]*");
    out += isBegun ? `\\.${literal}` : literal;
    isBegun = true;
  }
  return out;
}

function escape(text: string): string {
  return text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
}

/** All matches as one list: exact names first, then in graph order, a module before its contents. */
export function hits({ nodes, groups, noun }: GraphView, found: Found, query = ""): Hit[] {
  const out: Hit[] = [];
  let next = 0;
  const group = (number: number): Hit => ({
    key: `g${number}`,
    title: groups.label[number],
    about: `${groups.class_name[number]} · ${groups.n_ops[number].toLocaleString("en")} ${noun}`,
  });
  for (const node of found.nodes) {
    while (next < found.groups.length && groups.first[found.groups[next]] <= node) out.push(group(found.groups[next++]));
    out.push({ key: `n${node}`, title: nodes.label[node], about: nodes.site[node] });
  }
  while (next < found.groups.length) out.push(group(found.groups[next++]));
  const asked = partsOf(query);
  if (!asked.length || query.includes("*")) return out;
  const rank = ({ key, title, about }: Hit): number =>
    Math.min(farFrom(asked, title), farFrom(asked, key.startsWith("n") ? about : groups.rolled_label[Number(key.slice(1))]));
  const ranks = new Map(out.map((hit) => [hit, rank(hit)]));
  return out.sort((a, b) => ranks.get(a)! - ranks.get(b)!); // stable: equal ones stay in the order of the graph
}

/** Distance of a name from the query: 0 equal, 1 equal in its last parts, 2 its last part starts with it, 3 otherwise. */
function farFrom(asked: readonly string[], name: string): number {
  const parts = partsOf(name);
  const last = parts.slice(-asked.length);
  const isTail = last.length === asked.length && last.every((part, i) => (i < asked.length - 1 ? part === asked[i] : part.startsWith(asked[i])));
  if (!isTail) return 3;
  return last.at(-1) !== asked.at(-1) ? 2 : parts.length > asked.length ? 1 : 0;
}

function partsOf(name: string): string[] {
  return name.toLowerCase().split(/[^\p{L}\p{N}_]+/u).filter(Boolean);
}
