// Tests of run-names.ts.

import assert from "node:assert/strict";
import { test } from "node:test";
import { shortNames } from "./run-names";

test("what all names share is left out, at separators", () => {
  assert.deepEqual(shortNames(["sweep/base-long-name-lr-0.1-seed-1-drop-0.1", "sweep/base-long-name-lr-0.01-seed-12-drop-0.1"]), ["…0.1-seed-1…", "…0.01-seed-12…"]);
  assert.deepEqual(shortNames(["a-very-long-name-of-a-run", "another-very-long-name"]), ["a-very-long-name-of-a-run", "another-very-long-name"]);
});

test("short names, a single name and equal names are kept", () => {
  assert.deepEqual(shortNames(["run-a", "run-b"]), ["run-a", "run-b"]);
  assert.deepEqual(shortNames(["the-only-run-and-its-long-name"]), ["the-only-run-and-its-long-name"]);
  assert.deepEqual(shortNames([]), []);
  const same = "twice-the-same-long-name-of-a-run";
  assert.deepEqual(shortNames([same, same]), [same, same]);
});

test("something is left of each name, and all stay distinct", () => {
  const names = ["experiments/2026/run", "experiments/2026/run-1", "experiments/2026/run-1-1"];
  const short = shortNames(names);
  assert.equal(new Set(short).size, 3);
  assert.ok(short.every((name) => name.replaceAll("…", "").length > 0), String(short));
});
