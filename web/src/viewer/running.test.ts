import assert from "node:assert/strict";
import { test } from "node:test";
import { choose } from "./choice";
import { exampleRun } from "./example";
import { commandOf, KEYS, type Command } from "./keys";
import { actionOf, ofName } from "./running";
import { INITIAL, reduce, type Action, type State } from "./state";

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

test("no key means two things", () => {
  const keys = KEYS.flatMap(([, , commands]) => Object.keys(commands));
  assert.equal(new Set(keys).size, keys.length);
});

test("gradients of one loss are called by its name", () => {
  assert.deepEqual(["value", "grad", "grad/aux", "update"].map(ofName), ["value", "gradient", "of aux", "update"]);
});
