// Tests of formatting.ts.

import assert from "node:assert/strict";
import { test } from "node:test";

import { asciiNumbers, plainNumber, counted, duration, exact, quantity, short } from "./formatting";

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

test("an exact number is the one that single precision holds, no more", () => {
  for (const value of [0.1, 1 / 3, -12345.678, 6.02e23, 1.5e-12, 3].map(Math.fround)) {
    assert.equal(Math.fround(Number(exact(value).replaceAll("−", "-").replaceAll(",", ""))), value, exact(value));
  }
  assert.deepEqual([0.1, 0, NaN].map(exact), ["0.1", "0", "NaN"]);
});

test("a time is told in seconds, minutes or hours", () => {
  assert.deepEqual([0, 40, 210, 7200].map(duration), ["0 s", "40 s", "3.5 min", "2 h"]);
});

test("numbers for other programs are ASCII, exact and without separators", () => {
  const written = [-0, 12345678, -1234.5, 0.1, Math.fround(0.1), Math.fround(-1e-9), 2 ** 40 + 1, NaN, Infinity, -Infinity].map(plainNumber);
  assert.deepEqual(written, ["0", "12345678", "-1234.5", "0.1", "0.1", "-1e-9", "1099511627777", "NaN", "inf", "-inf"]);
  for (let i = 0; i < 1000; i++) {
    const value = Math.fround((Math.random() - 0.5) * 10 ** (i % 60 - 30));
    assert.equal(Math.fround(Number(plainNumber(value))), value);
  }
  assert.equal(asciiNumbers("−1.5 … ∞ and −∞, a − b"), "-1.5 … inf and -inf, a − b");
});
