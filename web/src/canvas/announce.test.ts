import assert from "node:assert/strict";
import { test } from "node:test";
import { described } from "./announce";
import { open } from "./example";
import { Stage } from "./stage";
import { LIGHT_THEME } from "./paint/theme";
import { PLAIN } from "./types";

test("a box and a frame in words", () => {
  const stage = new Stage(open(), PLAIN, LIGHT_THEME);
  assert.equal(described(stage, "sum"), "sum, 2 parents, 1 child");
  assert.equal(described(stage, "out"), "out, output, 1 parent, 0 children");
  assert.equal(described(stage, "g1"), "g1, open, 3 boxes inside");
  assert.equal(described(stage, "nobody"), "nothing selected");
});
