// Tests of announce.ts.

import assert from "node:assert/strict";
import { test } from "node:test";
import { describe } from "./announce";
import { open } from "./example";
import { Stage } from "./stage";
import { LIGHT_THEME } from "./paint/theme";
import { PLAIN } from "./types";

test("a box and a frame in words", () => {
  const stage = new Stage(open(), PLAIN, LIGHT_THEME);
  assert.equal(describe(stage, "sum"), "sum, 2 parents, 1 child");
  assert.equal(describe(stage, "out"), "out, output, 1 parent, 0 children");
  assert.equal(describe(stage, "g1"), "g1, open, 3 boxes inside");
  assert.equal(describe(stage, "nobody"), "nothing selected");
});
