// Tests of tab-titles.ts.

import assert from "node:assert/strict";
import { test } from "node:test";
import { tabNames } from "./tab-titles";

test("tabs with one title are told apart by a number, others are left alone", () => {
  assert.deepEqual(tabNames(["GPT2", "MLP", "GPT2"]), ["GPT2 (1)", "MLP", "GPT2 (2)"]);
});
