// Tests of commands.ts.

import assert from "node:assert/strict";
import { test } from "node:test";
import { choose } from "./choice";
import { exampleRun } from "./example";
import { paletteItems } from "./palette-search";
import { COMMANDS, commandOf, KEYS, PALETTE, helpOf, type Command } from "./keys";
import { actionOf, whyNot } from "./commands";
import { INITIAL, reduce, type Action, type State } from "./state";
import { TAB_IDS } from "./tabs";

const run = exampleRun("a");
const walk = (state: State, ...commands: Command[]): State => commands.reduce((now, command) => {
  const action: Action | null = actionOf(command, { run, state: now, choice: choose(run, now), nKept: 3 });
  return action ? reduce(now, action) : now;
}, state);
const key = (key: string, also = {}) => ({ key, ctrlKey: false, metaKey: false, altKey: false, ...also });

test("steps are walked as recorded, by kind if one is chosen, and never beyond the ends", () => {
  const step = (state: State) => choose(run, state).step;
  assert.equal(step(walk(INITIAL, "earlier")), 380);
  assert.equal(step(walk(INITIAL, "earlier", "later", "later")), 390);
  assert.equal(step(walk(INITIAL, "first")), 0);
  assert.equal(step(walk(INITIAL, "first", "last")), 390);
  const long = reduce(INITIAL, { do: "kind", kind: "long" });
  assert.equal(step(walk(long, "earlier")), 350);
});

test("among all kinds the next of the same kind can be gone to", () => {
  const state = walk(reduce(INITIAL, { do: "step", step: 20 }), "later of kind");
  assert.deepEqual([choose(run, state).step, choose(run, state).kind], [50, null]);
});

test("following is turned on and off, and off stays at the step", () => {
  const off = walk(INITIAL, "follow");
  assert.equal(off.step, 390);
  assert.equal(walk(off, "follow").step, null);
});

test("keys go round what there is", () => {
  assert.deepEqual([1, 2, 3, 4].map((n) => walk(INITIAL, ...Array<Command>(n).fill("next kind")).kind), ["short", "long", "rare", null]);
  assert.deepEqual([1, 2, 3, 4].map((n) => walk(INITIAL, ...Array<Command>(n).fill("next of")).of), ["grad", "grad/aux", "update", "value"]);
  const head = reduce(INITIAL, { do: "node", node: "head" });
  assert.equal(walk(head, "next of", "next of").of, "value");
  assert.equal(choose(run, walk(head, "next part")).part, "margin");
  assert.deepEqual([walk(INITIAL, "next sample").sample, walk(INITIAL, "next sample", "batch").sample], [0, null]);
});

test("keys mean nothing where somebody types, and the picture of ops has its own", () => {
  assert.equal(commandOf(key("."), false, "tensors"), "later");
  assert.equal(commandOf(key("."), true, "tensors"), null);
  assert.equal(commandOf(key("k", { ctrlKey: true }), true, "ops"), "palette");
  assert.equal(commandOf(key("t"), false, "ops"), null);
  assert.equal(commandOf(key("1"), false, "ops"), "tensors");
});

test("a sample can be selected before it is known how many there are", () => {
  const select = (nKept: number | null): Action | null => actionOf("next sample", { run, state: INITIAL, choice: choose(run, INITIAL), nKept });
  assert.deepEqual([select(null), select(2), select(0)], [{ do: "sample", sample: 0 }, { do: "sample", sample: 0 }, null]);
  assert.match(whyNot("next sample", { run, choice: choose(run, INITIAL), nKept: 0 }), /No samples kept/);
  assert.equal(whyNot("later", { run, choice: choose(run, INITIAL), nKept: 0 }), "");
});

const TYPED = [...Array.from({ length: 94 }, (_, i) => String.fromCharCode(33 + i)), " ", "Home", "End", "Enter", "Escape", "Delete", "PageUp"];

test("the sheet says all that keys do on each tab, and nothing else", () => {
  for (const tab of TAB_IDS) {
    const { everywhere } = helpOf(tab);
    const said = new Map(everywhere.flatMap(([, , commands]) => Object.entries(commands)));
    const done = new Map(TYPED.flatMap((typed) => {
      const command = commandOf(key(typed), false, tab);
      return command ? [[typed, command] as const] : [];
    }));
    assert.deepEqual([...said].sort(), [...done].sort(), tab);
    assert.ok(everywhere.some(([shown]) => shown === PALETTE));
  }
});

test("each key is shown on the sheet as it is typed, and each command has a key", () => {
  for (const [shown, , commands] of KEYS) {
    for (const typed of Object.keys(commands)) assert.ok(/^\d$/.test(typed) || shown.split(" · ").includes(typed), `${typed} in ${shown}`);
  }
  const done = new Set(KEYS.flatMap(([, , commands]) => Object.values(commands)));
  assert.deepEqual(COMMANDS.filter((command) => !done.has(command)), ["palette"]);
});

test("the palette names the key of what it does, and all that has a key is in it", () => {
  const keys = new Map(KEYS.flatMap(([, , commands]) => Object.entries(commands)));
  const commandItems = paletteItems(run, []).filter(({ group }) => group === "Commands");
  for (const { about, actions } of commandItems) assert.equal(keys.get(about), actions[0]);
  const found = new Set(commandItems.map(({ actions }) => actions[0]));
  const walked = ["earlier", "later", "earlier of kind", "later of kind", "search", "palette", ...TAB_IDS];
  assert.deepEqual(COMMANDS.filter((command) => !found.has(command) && !walked.includes(command)), []);
});

test("no key means two things", () => {
  const keys = KEYS.flatMap(([, , commands]) => Object.keys(commands));
  assert.equal(new Set(keys).size, keys.length);
});
