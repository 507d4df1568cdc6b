// Tests of unit-names.ts.

import assert from "node:assert/strict";
import { test } from "node:test";
import { unitBeside, inSite, nameOf, findUnit, unitOf, type Site } from "./unit-names";

const SITES: readonly Site[] = [
  { site: "encoder.layer.1", width: 4, units: [] },
  { site: "encoder.layer.11", width: 4, units: [] },
  { site: "head:2#q", width: 3, units: [5, 9, 40] },
];

test("a name is taken apart and put together again", () => {
  for (const name of ["encoder.layer.3#17", "head:2#q#40", "a b#0"]) assert.equal(nameOf(unitOf(name)!), name);
  for (const name of ["encoder.layer.3", "#17", "h#x", "", "h#"]) assert.equal(unitOf(name), null);
});

test("a number is one of the site that is looked at", () => {
  for (const typed of ["3", " 3 ", "#3"]) assert.deepEqual(findUnit(SITES, typed, "encoder.layer.11"), { site: "encoder.layer.11", number: 3 });
  assert.deepEqual(findUnit(SITES, "40", "head:2#q"), { site: "head:2#q", number: 40 });
});

test("a name, its end or parts of it are enough", () => {
  assert.deepEqual(findUnit(SITES, "encoder.layer.11#2", ""), { site: "encoder.layer.11", number: 2 });
  assert.deepEqual(findUnit(SITES, "layer.1#2", ""), { site: "encoder.layer.1", number: 2 });
  assert.deepEqual(findUnit(SITES, "Layer.1 2", ""), { site: "encoder.layer.1", number: 2 });
  assert.deepEqual(findUnit(SITES, "encoder.layer.11", ""), { site: "encoder.layer.11", number: 0 });
  assert.deepEqual(findUnit(SITES, "head#9", ""), { site: "head:2#q", number: 9 });
});

test("what is not there is told in a sentence", () => {
  assert.equal(findUnit(SITES, "layer.1#4", ""), "encoder.layer.1 has no unit 4: its units are numbered 0 to 3.");
  assert.equal(findUnit(SITES, "6", "head:2#q"), "head:2#q has no unit 6: its units are numbered 5 to 40, with gaps.");
  assert.equal(findUnit(SITES, "decoder#1", ""), "No site matches decoder.");
  assert.match(findUnit(SITES, " ", "") as string, /Enter a unit number/);
});

test("units stand beside each other as they were collected, and sites end", () => {
  assert.deepEqual(unitBeside(SITES, { site: "head:2#q", number: 9 }, 1), { site: "head:2#q", number: 40 });
  assert.equal(unitBeside(SITES, { site: "head:2#q", number: 40 }, 1), null);
  assert.equal(unitBeside(SITES, { site: "encoder.layer.1", number: 0 }, -1), null);
  assert.equal(unitBeside(SITES, { site: "gone", number: 0 }, 1), null);
});

test("another site shows the same number, or its first", () => {
  assert.deepEqual(inSite(SITES, "encoder.layer.11", 3), { site: "encoder.layer.11", number: 3 });
  assert.deepEqual(inSite(SITES, "head:2#q", 3), { site: "head:2#q", number: 5 });
});
