// Folds a graph view into a picture: open groups, rolled-up loops and repeated blocks.
// The same rules as in Python, `layout/fold.py`; `tests/layout` compares the two.

import { passesLabel } from "./pass-labels";
import { Representatives } from "./representatives";
import { append } from "../lib/collections";
import { OUTPUT, type Box, type Edge, type Fold, type Frame, type GraphView, type Mark, type Picture } from "../lib/wire";

/** A tensor with more users than this gets a small stand-in box beside each of them. */
const MAX_USERS = 8;
/** An op with more inputs than this gets no edge labels: they would overlap. */
const MAX_LABELED = 12;
const MAX_CHARACTERS = 44;
const IF = "IF";
const MARKS = ["new", "removed", "changed"] as const;
const SIGNS: Record<Mark, string> = { "": "", new: "+", removed: "−", changed: "~" };
const SOURCES = new Set(["input", "buffer", "constant"]);

/** What a box shows: a node by its index, then the groups, then the stand-ins. */
type Key = number;

/** All edges from one box to another. */
interface Wire {
  upper: Key;
  lower: Key;
  /** The first node that reads something; the label shows its arguments. */
  child: number;
  /** (parent, argument) of each tensor that this node reads. */
  args: [number, string][];
  edges: [number, number][];
  startsBranch: boolean;
}

/** The picture of a graph. */
export function fold(view: GraphView, how: Fold): Picture {
  return folded(view, how).picture;
}

/** The picture of a graph, and for every node the index of the box that represents it. */
export function folded(view: GraphView, how: Fold): { picture: Picture; box: Int32Array } {
  const builder = new PictureBuilder(view, how);
  builder.findWires();
  builder.addStandins();
  builder.orderBoxes();
  return builder.picture();
}

class PictureBuilder {
  readonly representatives: Representatives;
  readonly keys: Int32Array;
  readonly nArriving: Int32Array;
  wires = new Map<number, Wire>();
  /** Stand-in → the boxes it stands for, and the box that uses it. */
  readonly standins: { uppers: Key[]; lower: Key }[] = [];
  users = new Map<Key, number>();
  readonly outputs = new Map<Key, string[]>();
  /** Box → the nodes that it shows. */
  readonly members = new Map<Key, number[]>();
  order: Key[] = [];
  readonly #n: number;
  readonly #end: number;
  readonly #span: number;

  constructor(
    readonly view: GraphView,
    readonly how: Fold,
  ) {
    const { nodes, groups, edges } = view;
    // Boxes and pairs of boxes are numbers, because tuples would be distinct as map keys.
    this.#n = nodes.row.length;
    this.#end = this.#n + groups.parent.length;
    this.#span = this.#end + edges.parent.length + 1;
    this.representatives = new Representatives(view, how);
    this.nArriving = new Int32Array(this.#n);
    this.keys = new Int32Array(this.#n);
    for (let node = 0; node < this.#n; node++) {
      const group = this.representatives.foldedOf(node);
      // All results of one function call share the box of the first.
      this.keys[node] = group >= 0 ? this.#n + group : nodes.event[this.representatives.node(node)];
    }
  }

  isGroup(key: Key): boolean {
    return key >= this.#n && key < this.#end;
  }

  isStandin(key: Key): boolean {
    return key >= this.#end;
  }

  findWires(): void {
    const { edges, nodes } = this.view;
    const branchStarts = new Set(edges.branch_starts);
    for (let edge = 0; edge < edges.parent.length; edge++) {
      const parent = edges.parent[edge], child = edges.child[edge];
      this.nArriving[child]++;
      const upper = this.keys[parent], lower = this.keys[child];
      if (this.representatives.joinsBlocks(parent, child)) continue;
      if (upper === lower && (!this.how.rolled || this.representatives.isHidden(parent, child))) continue;
      if (upper === lower && nodes.kind[parent] === "parametric" && nodes.form[parent] === "small") continue; // a parameter is the same in all passes: no feedback edge
      const at = upper * this.#span + lower;
      let wire = this.wires.get(at);
      if (!wire) this.wires.set(at, (wire = { upper, lower, child, args: [], edges: [], startsBranch: false }));
      wire.edges.push([parent, child]);
      wire.startsBranch ||= branchStarts.has(edge);
      if (child === wire.child) wire.args.push([parent, edges.argument[edge]]);
    }
    for (let node = 0; node < this.#n; node++) append(this.members, this.keys[node], node);
    for (const [path, node] of nodes.outputs) {
      const [number, nPasses] = this.passOf(node);
      const named = path ? `${path}, pass ${number}` : `of pass ${number}`;
      append(this.outputs, this.keys[node], nPasses > 1 ? named : path);
    }
  }

  passOf(node: number): [number, number] {
    return this.how.rolled ? this.representatives.passOf(node) : [1, 1];
  }

  /** Replace edges from a tensor with more than `MAX_USERS` users by one stand-in for each user. */
  addStandins(): void {
    const nUsers = new Map<Key, number>();
    for (const { upper } of this.wires.values()) nUsers.set(upper, (nUsers.get(upper) ?? 0) + 1);
    for (const [upper, n] of nUsers) if (n > MAX_USERS) this.users.set(upper, n);
    if (!this.users.size) return;
    const uppersByLower = new Map<Key, Key[]>();
    for (const { upper, lower } of this.wires.values()) if (this.users.has(upper)) append(uppersByLower, lower, upper);
    for (const [lower, uppers] of uppersByLower) {
      for (const group of uppers.length > MAX_USERS ? [uppers] : uppers.map((upper) => [upper])) {
        const standin = this.#end + this.standins.length;
        this.standins.push({ uppers: group, lower });
        const parts = group.map((upper) => this.wires.get(upper * this.#span + lower)!);
        for (const upper of group) this.wires.delete(upper * this.#span + lower);
        const child = parts[0].child;
        this.wires.set(standin * this.#span + lower, {
          upper: standin, lower, child,
          args: parts.flatMap((part) => (part.child === child ? part.args : [])),
          edges: parts.flatMap((part) => part.edges),
          startsBranch: parts.some((part) => part.startsBranch),
        });
      }
    }
  }

  /** Order boxes like their nodes, with stand-ins before their users. */
  orderBoxes(): void {
    const before = new Map<Key, Key[]>();
    this.standins.forEach(({ lower }, number) => append(before, lower, this.#end + number));
    for (const key of this.members.keys()) this.order.push(...(before.get(key) ?? []), key);
  }

  picture(): { picture: Picture; box: Int32Array } {
    const { view } = this;
    const parent = view.groups.parent;
    const frames: Frame[] = [{ key: "", title: "", parent: -1, group: 0, stack: 1, flags: 0, mark: "" }];
    const number = new Map([[0, 0]]);
    const place = new Map<Key, number>();
    const boxes = this.order.map((key, at) => {
      place.set(key, at);
      const home = this.home(key);
      const path: number[] = [];
      for (let around = home; !number.has(around); around = parent[around]) path.push(around);
      for (const group of path.reverse()) {
        number.set(group, frames.length);
        frames.push(this.frame(group, number.get(parent[group])!));
      }
      return this.box(key, number.get(home)!);
    });
    const edges: Edge[] = [];
    for (const wire of this.wires.values())
      edges.push({ parent: place.get(wire.upper)!, child: place.get(wire.lower)!, label: this.edgeLabel(wire) });
    const box = this.keys.map((key) => place.get(key)!);
    return { picture: { title: view.title, subtitle: view.subtitle, boxes, frames, edges, faint: [] }, box };
  }

  /** The group that contains a box. */
  home(key: Key): number {
    if (this.isStandin(key)) return this.home(this.standins[key - this.#end].lower);
    if (this.isGroup(key)) return Math.max(this.view.groups.parent[key - this.#n], 0);
    return this.view.nodes.group[key];
  }

  frame(group: number, parent: number): Frame {
    const { groups } = this.view;
    const mark = this.commonMark(group);
    const name = this.groupName(group);
    const named = groups.label[group].startsWith(".") ? name : `${name} (${groups.class_name[group]})`;
    const title = `${SIGNS[mark]} ${named}`.trim();
    return { key: `g${group}`, title, parent, group, stack: this.representatives.stack(group), flags: groups.flags[group], mark };
  }

  /** The mark of a group whose ops are all new or all removed; else "". */
  commonMark(group: number): Mark {
    const { comparison, groups, nodes } = this.view;
    const marks = new Set<Mark>();
    for (let node = groups.first[group]; comparison && node < groups.end[group]; node++)
      if (!SOURCES.has(nodes.kind[node])) marks.add(comparison.mark[node]);
    const [mark] = marks;
    return marks.size === 1 && mark !== "changed" ? mark : "";
  }

  edgeLabel(wire: Wire): string {
    const startsBranch = wire.startsBranch && !this.isGroup(wire.lower) ? IF : "";
    const passes = this.how.rolled ? this.passesLabel(wire) : "";
    return [startsBranch, this.argumentLabel(wire), passes].filter(Boolean).join(" ");
  }

  argumentLabel({ lower, child, args }: Wire): string {
    const arriving = this.nArriving[child];
    if (this.isGroup(lower) || arriving < 2 || arriving > MAX_LABELED) return "";
    const isRepeated = new Set(args.map(([parent]) => parent)).size < args.length;
    const names = args.map(([, name]) => name).filter(Boolean);
    const shown = names.length < 4 ? names.join(",") : `${names[0]}…${names[names.length - 1]}`;
    return `${short(shown, 14)} ${isRepeated ? `×${args.length}` : ""}`.trim();
  }

  passesLabel({ upper, edges }: Wire): string {
    const out = edges.map(([parent]) => this.passOf(parent)), into = edges.map(([, child]) => this.passOf(child));
    const nOut = this.isStandin(upper) ? 0 : out[0][1];
    const numbers = (turns: [number, number][]): Set<number> => new Set(turns.map(([number]) => number));
    return passesLabel(numbers(out), nOut, numbers(into), into[0][1]);
  }

  box(key: Key, frame: number): Box {
    if (this.isStandin(key)) return this.standinBox(key, frame);
    const notes = this.users.has(key) ? [`feeds ${this.users.get(key)} ${this.view.noun}`] : [];
    const paths = this.outputs.get(key);
    if (paths) {
      const rest = paths.length > 1 ? ` and ${paths.length - 1} more` : "";
      notes.push(short(`output ${paths[0]}`.trim()) + rest);
    }
    const flags = paths ? OUTPUT : 0;
    if (this.isGroup(key)) return this.foldedBox(key - this.#n, frame, notes, flags);
    const { nodes } = this.view;
    const lines = (this.how.rolled && nodes.rolled_lines[key]) || nodes.lines[key];
    return {
      key: `n${key}`, lines: [this.name(key), ...lines, ...notes], kind: nodes.kind[key], form: nodes.form[key], frame,
      node: key, group: -1, flags: flags | nodes.flags[key], stack: 1, stands_for: [],
      ...this.difference(this.members.get(key)!),
    };
  }

  /** The mark and shade of a box that is not a group. */
  difference(nodes: number[]): { mark: Mark; shade: number } {
    const { comparison } = this.view;
    if (!comparison) return { mark: "", shade: 0 };
    const marks = new Set(nodes.map((node) => comparison.mark[node]));
    const mark = marks.size === 1 ? comparison.mark[nodes[0]] : "changed";
    return { mark, shade: Math.max(...nodes.map((node) => comparison.shade[node])) };
  }

  standinBox(key: Key, frame: number): Box {
    const { uppers, lower } = this.standins[key - this.#end];
    const results = new Set(this.wires.get(key * this.#span + lower)!.edges.map(([parent]) => this.representatives.node(parent)));
    const name = this.name(results.size === 1 && !this.isGroup(uppers[0]) ? [...results][0] : uppers[0]);
    const many = `${uppers.length} tensors, ${name} to ${this.name(uppers[uppers.length - 1])}`;
    const standsFor = uppers.map((upper) => this.keyText(upper));
    return {
      key: `s${standsFor[0]}:${this.keyText(lower)}`, lines: [short(uppers.length > 1 ? many : name)], kind: "standin",
      form: "small", frame, node: -1, group: -1, flags: 0, stack: 1, stands_for: standsFor, mark: "", shade: 0,
    };
  }

  keyText(key: Key): string {
    return this.isGroup(key) ? `g${key - this.#n}` : `n${key}`;
  }

  foldedBox(group: number, frame: number, notes: string[], flags: number): Box {
    const { groups, title, noun } = this.view;
    const stack = this.representatives.stack(group);
    const each = stack > 1 ? " each" : "";
    const name = this.groupName(group) || title;
    const { mark, shade, differs } = this.groupDifference(this.#n + group);
    const lines = [
      mark ? `${SIGNS[mark]} ${name}` : name, groups.class_name[group], `${formatCount(groups.n_ops[group])} ${noun}${each}`,
      groups.size[group], groups.parameters[group] && groups.parameters[group] + each, ...notes, ...differs,
    ].filter((line, i) => line && !(i === 1 && line === name));
    return {
      key: `g${group}`, lines, kind: groups.kind[group], form: "folded", frame, node: -1, group,
      flags: flags | groups.flags[group], stack, stands_for: [], mark, shade,
    };
  }

  /** The mark and shade of a folded group, and lines that describe its differences. */
  groupDifference(key: Key): { mark: Mark; shade: number; differs: string[] } {
    const { comparison, nodes, noun } = this.view;
    if (!comparison) return { mark: "", shade: 0, differs: [] };
    const inside = this.members.get(key)!.filter((node) => !SOURCES.has(nodes.kind[node]));
    const counts = MARKS.map((how) => [inside.filter((node) => comparison.mark[node] === how).length, how] as const);
    let mark: Mark = counts.some(([n]) => n) ? "changed" : "";
    let differs = [counts.filter(([n]) => n).map(([n, how]) => `${formatCount(n)} ${how}`).join(", ")];
    for (const [n, how] of counts)
      if (how !== "changed" && n && n === inside.length) [mark, differs] = [how, []];
    const apart = inside.filter((node) => comparison.shade[node]);
    if (!apart.length) return { mark, shade: 0, differs };
    const worst = apart.reduce((a, b) => (comparison.order[b] > comparison.order[a] ? b : a));
    differs.push(`Δ in ${formatCount(apart.length)} ${noun}, at most ${comparison.amount[worst]}`);
    return { mark, shade: Math.max(...apart.map((node) => comparison.shade[node])), differs };
  }

  /**
   * Address and pass of a group; the range of repeated blocks; if rolled up, the number of calls. The address of the root
   * is a dot, so the root is named by its class.
   */
  groupName(group: number): string {
    const name = this.address(group);
    return name.startsWith(".") ? `${this.view.groups.class_name[group]}${name.slice(1)}` : name;
  }

  address(group: number): string {
    const { groups, runs } = this.view;
    const stack = this.representatives.stack(group);
    if (stack > 1) return `${runs[groups.run[group]].label} ×${stack}`;
    if (!this.how.rolled) return groups.label[group];
    const n = this.representatives.nCalls(group), name = groups.rolled_label[group];
    return n > 1 ? `${name} (×${n})` : groups.pass_[group] > 1 ? groups.label[group] : name;
  }

  name(key: Key): string {
    if (this.isGroup(key)) return this.groupName(key - this.#n);
    const n = this.representatives.nPasses(key), label = this.view.nodes.label[key];
    return n > 1 ? `${label} (×${n})` : label;
  }
}

function formatCount(n: number): string {
  return n.toLocaleString("en-US");
}

/** Cut a long text in the middle: both ends of an address matter. */
export function short(text: string, most = MAX_CHARACTERS): string {
  const letters = [...text];
  if (letters.length <= most) return text;
  const half = Math.floor(most / 2);
  return `${letters.slice(0, half).join("")}…${letters.slice(letters.length - most + half + 1).join("")}`;
}
