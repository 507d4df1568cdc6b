// Tests of camera.ts.

import assert from "node:assert/strict";
import { test } from "node:test";
import { boundingRect, initialCamera, interpolateCamera, avoidCovered, easeInOut, fitCamera, clampCamera, intersects, inView, revealRect, toPicture, toScreen, zoomCamera } from "./camera";

const size = { width: 800, height: 600 };
const near = (a: number, b: number): void => assert.ok(Math.abs(a - b) < 1e-6, `${a} is not ${b}`);

test("the screen and the picture are inverse to each other", () => {
  const camera = { x: 13, y: -4, scale: 0.3 };
  const [x, y] = toPicture(camera, ...toScreen(camera, 100, 200));
  near(x, 100);
  near(y, 200);
});

test("what lies over the screen keeps off the boxes, and nothing moves where it does anyway", () => {
  const legend = { x: 12, y: 440, width: 220, height: 148 };
  const covers = (boxes: readonly { x: number; y: number; width: number; height: number }[]): boolean => {
    const all = boundingRect(boxes)!;
    const camera = avoidCovered([legend], boxes, size, (room) => fitCamera(all, room));
    return boxes.some(({ x, y, width, height }) => {
      const [left, top] = toScreen(camera, x, y);
      return intersects(legend, { x: left, y: top, width: width * camera.scale, height: height * camera.scale });
    });
  };
  const low = [{ x: 0, y: 0, width: 100, height: 100 }, { x: 0, y: 1000, width: 900, height: 100 }];
  const high = [{ x: 0, y: 0, width: 1600, height: 40 }, { x: 0, y: 500, width: 60, height: 60 }];
  assert.ok(!covers(low) && !covers(high));
  const clear = [{ x: 300, y: 0, width: 100, height: 500 }];
  assert.deepEqual(avoidCovered([legend], clear, size, (room) => fitCamera(clear[0]!, room)), fitCamera(clear[0]!, size));
});

test("zooming keeps the point under the pointer", () => {
  const camera = { x: 5, y: 7, scale: 0.5 };
  const before = toPicture(camera, 300, 200);
  const after = toPicture(zoomCamera(camera, 1.7, 300, 200, 0.01), 300, 200);
  near(before[0], after[0]);
  near(before[1], after[1]);
});

test("zooming stops at both ends, and the point under the pointer still stays", () => {
  assert.equal(zoomCamera({ x: 0, y: 0, scale: 1 }, 1000, 0, 0, 0.1).scale, 4);
  const far = zoomCamera({ x: 0, y: 0, scale: 1 }, 1e-9, 100, 100, 0.1);
  assert.equal(far.scale, 0.1);
  assert.deepEqual(toPicture(far, 100, 100).map(Math.round), [100, 100]);
});

test("what is fitted is in view and in the middle", () => {
  const rect = { x: 50, y: 1000, width: 4000, height: 300 };
  const view = inView(fitCamera(rect, size), size);
  assert.ok(view.x < rect.x && view.x + view.width > rect.x + rect.width);
  near(view.y + view.height / 2, 1150);
});

test("a small picture is not blown up", () => assert.equal(fitCamera({ x: 0, y: 0, width: 10, height: 10 }, size).scale, 1));

test("a long picture begins at its beginning, near enough to be read", () => {
  assert.deepEqual(initialCamera({ x: 0, y: 0, width: 700, height: 500 }, size), fitCamera({ x: 0, y: 0, width: 700, height: 500 }, size));
  const tall = initialCamera({ x: 0, y: 0, width: 700, height: 50000 }, size);
  assert.equal(tall.scale, 0.8);
  assert.ok(tall.y < 0 && tall.y > -100);
  near(tall.x + size.width / tall.scale / 2, 350);
  const wide = initialCamera({ x: 0, y: 0, width: 50000, height: 300 }, size);
  assert.ok(wide.x < 0 && wide.x > -100);
  near(wide.y + size.height / wide.scale / 2, 150);
});

test("revealing moves nothing if all is in view, and as little as needed otherwise", () => {
  const camera = { x: 0, y: 0, scale: 1 };
  assert.deepEqual(revealRect(camera, { x: 100, y: 100, width: 50, height: 50 }, size), camera);
  assert.deepEqual(revealRect(camera, { x: 100, y: 700, width: 50, height: 50 }, size), { x: 0, y: 190, scale: 1 });
  assert.deepEqual(revealRect(camera, { x: -100, y: 0, width: 5000, height: 50 }, size), { x: -100, y: -40, scale: 1 });
});

test("the way between two cameras begins at one and ends at the other", () => {
  const a = { x: 0, y: 0, scale: 0.1 };
  const b = { x: 700, y: 90, scale: 2 };
  const end = interpolateCamera(a, b, 1);
  near(interpolateCamera(a, b, 0).x, 0);
  near(end.x, b.x);
  near(end.scale, b.scale);
});

test("a point that is in one place of the screen at both ends is there on the whole way", () => {
  const a = { x: 10, y: 20, scale: 0.5 };
  const b = zoomCamera(a, 3, 400, 300, 0.01);
  const [x, y] = toPicture(a, 400, 300);
  for (const t of [0.2, 0.5, 0.9]) {
    const at = toScreen(interpolateCamera(a, b, t), x, y);
    near(at[0], 400);
    near(at[1], 300);
  }
});

test("the picture cannot be pushed off the screen", () => {
  const [right] = toScreen(clampCamera({ x: 1e6, y: 0, scale: 1 }, { width: 500, height: 500 }, size), 500, 0);
  assert.ok(right > 0 && right < 800);
  const [left] = toScreen(clampCamera({ x: -1e6, y: 0, scale: 1 }, { width: 500, height: 500 }, size), 0, 0);
  assert.ok(left > 0 && left < 800);
});

test("easing goes from 0 to 1 and never back", () => {
  const steps = Array.from({ length: 101 }, (_, i) => easeInOut(i / 100));
  assert.equal(steps[0], 0);
  assert.equal(steps[100], 1);
  assert.ok(steps.every((value, i) => i === 0 || value >= steps[i - 1]!));
});

test("rectangles that only touch do not intersect", () => {
  assert.ok(!intersects({ x: 0, y: 0, width: 1, height: 1 }, { x: 1, y: 0, width: 1, height: 1 }));
  assert.equal(boundingRect([]), null);
  assert.deepEqual(boundingRect([{ x: 0, y: 0, width: 1, height: 1 }, { x: 4, y: -1, width: 1, height: 1 }]), { x: 0, y: -1, width: 5, height: 2 });
});
