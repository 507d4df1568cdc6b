// Tests of unit-bar.tsx.

import assert from "node:assert/strict";
import { test } from "node:test";
import { unitAfterKey } from "./unit-bar";

const SITES = [{ site: "h.0", width: 3, units: [] }, { site: "h.1", width: 2, units: [] }];

test("keys go from unit to unit and from site to site, and stop at the ends", () => {
  assert.equal(unitAfterKey(SITES, "h.0#1", "."), "h.0#2");
  assert.equal(unitAfterKey(SITES, "h.0#1", ","), "h.0#0");
  assert.equal(unitAfterKey(SITES, "h.0#2", "."), null);
  assert.equal(unitAfterKey(SITES, "h.0#1", "]"), "h.1#1");
  assert.equal(unitAfterKey(SITES, "h.0#2", "]"), "h.1#0");
  assert.equal(unitAfterKey(SITES, "h.0#1", "["), null);
  assert.equal(unitAfterKey(SITES, "h.0#1", "x"), null);
});

test("where no unit is shown, a key shows the first", () => {
  assert.equal(unitAfterKey(SITES, "", "."), "h.0#0");
  assert.equal(unitAfterKey([], "", "."), null);
});
