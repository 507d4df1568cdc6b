// Tests of host.ts.

import assert from "node:assert/strict";
import { test } from "node:test";
import { deflateSync } from "node:zlib";
import { CHUNK, decodeBase64, embeddedHost, inflate, kernelHost, type Model } from "./host";
import type { OpDetails } from "./wire";

const base64 = (value: unknown): string => deflateSync(JSON.stringify(value)).toString("base64");
const detail = (row: number): OpDetails => ({ row, label: `op ${row} – ü` }) as OpDetails;

test("compressed text comes back as it was", async () => {
  const bytes = decodeBase64(base64("Größe × 24 \u{1F600}"));
  assert.equal(JSON.parse(await inflate(bytes)), "Größe × 24 \u{1F600}");
});

test("a detail of the file is found in its chunk, which is decoded once", async () => {
  const asked: number[] = [];
  const chunks: Record<number, string> = { 0: base64({ 3: detail(3), 63: detail(63) }), 1: base64({ 64: detail(64) }) };
  const host = embeddedHost((chunk) => (asked.push(chunk), chunks[chunk] ?? null));
  assert.equal((await host.detail(3))?.label, "op 3 – ü");
  assert.equal((await host.detail(63))?.row, 63);
  assert.equal((await host.detail(CHUNK))?.row, 64);
  assert.deepEqual(asked, [0, 1]);
});

test("a detail that did not fit into the file is null", async () => {
  const host = embeddedHost((chunk) => (chunk === 0 ? base64({ 3: detail(3) }) : null));
  assert.equal(await host.detail(4), null);
  assert.equal(await host.detail(10 * CHUNK), null);
});

class Kernel implements Model {
  readonly asked: { id: number; view: number; row: number }[] = [];
  readonly listeners = new Set<(message: unknown) => void>();
  get = () => undefined;
  on(_: string, callback: (...args: never[]) => void): void {
    this.listeners.add(callback as (message: unknown) => void);
  }
  off(_: string, callback?: (...args: never[]) => void): void {
    this.listeners.delete(callback as (message: unknown) => void);
  }
  send(message: unknown): void {
    this.asked.push(message as { id: number; view: number; row: number });
  }
  say(message: unknown): void {
    for (const listener of [...this.listeners]) listener(message);
  }
}

test("answers of the kernel reach the questions they belong to, in any order", async () => {
  const model = new Kernel();
  const host = kernelHost(model, 2);
  const first = host.detail(7);
  const second = host.detail(8);
  const [a, b] = model.asked;
  assert.deepEqual([a.view, a.row, b.row], [2, 7, 8]);
  model.say({ id: b.id, detail: detail(8) });
  model.say("something else");
  model.say({ id: a.id, detail: null });
  assert.equal((await second)?.row, 8);
  assert.equal(await first, null);
  assert.equal(model.listeners.size, 0);
});

test("the kernel is asked for an op once, and again only if it has not answered for long; a late answer counts", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const model = new Kernel();
  const host = kernelHost(model, 0);
  const silent = host.detail(1);
  t.mock.timers.tick(60_000);
  const asked = [host.detail(1), host.detail(1)];
  assert.equal(model.asked.length, 2);
  model.say({ id: model.asked[1].id, detail: detail(1) });
  model.say({ id: model.asked[0].id, detail: detail(1) });
  assert.equal((await silent)?.row, 1);
  assert.deepEqual((await Promise.all(asked)).map((found) => found?.row), [1, 1]);
  await host.detail(1);
  assert.equal(model.asked.length, 2);
});
