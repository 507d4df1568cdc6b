import assert from "node:assert/strict";
import { test } from "node:test";

import { counted, quantity, short } from "./units";

test("numbers have three figures at most", () => {
  const numbers = [0, 3, 0.12345, 12345, 1234567, 0.00001234, -0.5];
  assert.deepEqual(numbers.map(short), ["0", "3", "0.123", "12,345", "1.2e6", "1.2e−5", "−0.5"]);
  assert.deepEqual([NaN, Infinity, -Infinity].map(short), ["NaN", "∞", "−∞"]);
});

test("units grow with the number", () => {
  assert.equal(quantity(0.0123, "s"), "12.3 ms");
  assert.equal(quantity(4.2e-6, "s"), "4.2 µs");
  assert.equal(quantity(1.5, "s"), "1.5 s");
  assert.equal(quantity(3.5 * 1024 * 1024, "B"), "3.5 MB");
  assert.equal(quantity(512, "B"), "512 B");
  assert.equal(quantity(5.6e9, "FLOPs"), "5.6 GFLOPs");
  assert.equal(quantity(0.25, ""), "0.25");
  assert.equal(quantity(null, "s"), "–");
  assert.equal(quantity(1536, "B"), "1.5 KB");
});

test("one op, two ops", () => {
  assert.equal(counted(1, "op"), "1 op");
  assert.equal(counted(2000, "op"), "2,000 ops");
  assert.equal(counted(2, "class", "classes"), "2 classes");
});
