// Tests of attention-row.ts.

import assert from "node:assert/strict";
import { test } from "node:test";

import { attentionRow } from "./attention-row";

const values = Float32Array.from({ length: 2 * 3 * 3 }, (_, i) => i); // (head, query, key)

test("of one head it is the row of the token, without what is padded", () => {
  assert.deepEqual(attentionRow(values, [2, 3, 3], 1, 3, 1), [12, 13, 14]);
  assert.deepEqual(attentionRow(values, [2, 3, 3], 2, 2, 0), [6, 7]);
});

test("of all heads, or of one that is not there, it is the mean; a single matrix is a head", () => {
  assert.deepEqual(attentionRow(values, [2, 3, 3], 0, 3), [4.5, 5.5, 6.5]);
  assert.deepEqual(attentionRow(values, [2, 3, 3], 0, 3, 7), [4.5, 5.5, 6.5]);
  assert.deepEqual(attentionRow(values.subarray(0, 9), [3, 3], 2, 3), [6, 7, 8]);
});
