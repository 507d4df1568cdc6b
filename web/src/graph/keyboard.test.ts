// Tests of keyboard.ts.

import assert from "node:assert/strict";
import { test } from "node:test";

import { commandOf, KEYS, takesKeys } from "./keyboard";

const FREE = { ctrlKey: false, metaKey: false, altKey: false };
const press = (key: string, more: Partial<KeyboardEvent> = {}) => commandOf({ key, ...FREE, ...more }, false);

test("no key has two meanings", () => {
  const keys = KEYS.flatMap(([, , commands]) => Object.keys(commands));
  assert.equal(new Set(keys).size, keys.length);
});

test("shortcuts of the browser and typing are left alone", () => {
  assert.equal(press("a"), "ancestors");
  assert.equal(press("a", { ctrlKey: true }), null);
  assert.equal(commandOf({ key: "a", ...FREE }, true), null);
  assert.equal(press("q"), null);
});

test("a button takes enter and space, a field takes all", () => {
  const element = (tagName: string) => ({ tagName }) as Element;
  assert.ok(takesKeys(element("BUTTON"), "Enter") && !takesKeys(element("BUTTON"), "a"));
  assert.ok(takesKeys(element("INPUT"), "a") && !takesKeys(element("DIV"), "Enter") && !takesKeys(null, "a"));
});
