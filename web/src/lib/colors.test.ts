// Tests of colors.ts.

import assert from "node:assert/strict";
import { test } from "node:test";

import { colorAt, DIVERGING, isOnScale, middle, palette, position, rampOf, RISING, RISING_DARK, scaleOf } from "./colors";
import type { Ramp, Rgb } from "./colors";
import type { Measure } from "./wire";

const measure = (scale: Measure["scale"], total: Measure["total"] = "sum"): Measure => (
  { name: "m", title: "M", unit: "", total, scale, values: [] }
);

const linear = (channel: number): number => (channel <= 10.31475 ? channel / 3294.6 : ((channel / 255 + 0.055) / 1.055) ** 2.4);

function lab([r, g, b]: Rgb): [number, number, number] {
  const [x, y, z] = [
    (0.4124 * linear(r) + 0.3576 * linear(g) + 0.1805 * linear(b)) / 0.9505,
    0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b),
    (0.0193 * linear(r) + 0.1192 * linear(g) + 0.9505 * linear(b)) / 1.089,
  ].map((t) => (t > 0.008856 ? Math.cbrt(t) : 7.787 * t + 16 / 116)) as [number, number, number];
  return [116 * y - 16, 500 * (x - y), 200 * (y - z)];
}

/** How a reader without green cones sees a color (Viénot, Brettel and Mollon 1999, in linear light). */
function deuteranope([r, g, b]: Rgb): Rgb {
  const [lr, lg, lb] = [linear(r), linear(g), linear(b)];
  const back = (t: number): number => 255 * (t <= 0.0031308 ? 12.92 * t : 1.055 * Math.max(0, t) ** (1 / 2.4) - 0.055);
  return [back(0.29275 * lr + 0.70725 * lg), back(0.29275 * lr + 0.70725 * lg), back(-0.02234 * lr + 0.02234 * lg + lb)];
}

const apart = (a: Rgb, b: Rgb): number => Math.hypot(...lab(a).map((value, k) => value - lab(b)[k]));
const steps = (ramp: Ramp, n = 9): Rgb[] => Array.from({ length: n }, (_, i) => colorAt(ramp, i / (n - 1)));

test("neighboring steps of every ramp can be told apart, also without green cones", () => {
  for (const ramp of [DIVERGING, RISING, RISING_DARK])
    for (const see of [(color: Rgb) => color, deuteranope]) {
      const seen = steps(ramp).map(see);
      for (let i = 1; i < seen.length; i++) assert.ok(apart(seen[i - 1], seen[i]) > 5, `step ${i}`);
      assert.ok(apart(seen[0], seen.at(-1)!) > 40);
    }
});

test("rising ramps rise in lightness all the way, so that they survive a gray printer", () => {
  const light = (ramp: Ramp): number[] => steps(ramp).map((color) => lab(color)[0]);
  const falls = (values: number[]): boolean => values.every((value, i) => i === 0 || value < values[i - 1]);
  assert.ok(falls(light(RISING)) && falls(light(RISING_DARK).reverse()));
  const [first, ...rest] = light(DIVERGING);
  assert.equal(Math.max(first!, ...rest), light(DIVERGING)[4]);
});

test("a logarithmic scale gives each factor of ten the same room", () => {
  const scale = scaleOf(measure("log"), [1e-6, 1e-3, 1, 0, null], false)!;
  assert.deepEqual([scale.low, scale.high, scale.scale], [1e-6, 1, "log"]);
  assert.ok(Math.abs(position(scale, 1e-3) - 0.5) < 1e-9 && Math.abs(middle(scale) - 1e-3) < 1e-9);
  assert.equal(position(scale, 0), 0);
  assert.deepEqual([0, -1, 1e-9, null].map((value) => isOnScale(scale, value)), [false, false, true, false]);
});

test("a diverging scale has zero in its middle", () => {
  const scale = scaleOf(measure("diverging"), [-1, 4], false)!;
  assert.deepEqual([scale.low, scale.high, position(scale, 0)], [-4, 4, 0.5]);
  assert.deepEqual(colorAt(scale.ramp, position(scale, 0)), DIVERGING[2]);
});

test("values that are all the same, all zero or missing do not break a scale", () => {
  assert.equal(scaleOf(measure("log"), [null, NaN], false), null);
  assert.equal(position(scaleOf(measure("log"), [3, 3], false)!, 3), 0.5);
  const zero = scaleOf(measure("log"), [0, 0], false)!;
  assert.deepEqual([zero.scale, position(zero, 0)], ["linear", 0.5]);
  assert.equal(position(scaleOf(measure("diverging"), [0], false)!, 0), 0.5);
});

test("costs rise, statistics have two ends", () => {
  assert.equal(rampOf(measure("log", "sum"), false), RISING);
  assert.equal(rampOf(measure("log", "sum"), true), RISING_DARK);
  assert.equal(rampOf(measure("log", "max"), false), DIVERGING);
});

test("pixels of both signs are pale at zero, and what is not finite has a color of its own", () => {
  const { colors, isDiverging } = palette(-1, 3, false);
  assert.ok(isDiverging);
  const pixel = (i: number): number[] => [...colors.slice(4 * i, 4 * i + 3)];
  const zero = Math.round(254 / 4);
  assert.ok(apart(pixel(zero) as unknown as Rgb, DIVERGING[2]) < 4);
  assert.deepEqual(pixel(255), [232, 0, 232]);
  assert.deepEqual([...palette(0, 1, false).colors.slice(0, 3)], [...RISING[0]]);
  assert.deepEqual([...palette(-1, 0, false).colors.slice(0, 3)], [...RISING[4]]);
});
