// Tests of client.ts.

import assert from "node:assert/strict";
import { test } from "node:test";
import { curveQuery, matrixQuery, runQuery, tensorQuery } from "./api";
import { QueryError, makeClient } from "./client";

interface Call {
  readonly url: string;
  readonly signal: AbortSignal;
  answer(response: Response): void;
  fail(error: Error): void;
}

function server(budget?: number) {
  const calls: Call[] = [];
  const get = ((url: string, { signal }: { signal: AbortSignal }) => new Promise<Response>((answer, fail) => {
    calls.push({ url, signal, answer, fail });
    signal.addEventListener("abort", () => fail(new DOMException("aborted", "AbortError")));
  })) as unknown as typeof fetch;
  return { calls, client: makeClient({ fetch: get, budget }) };
}

const floats = (n: number): Response => new Response(new Float32Array(n), { headers: { "X-Shape": `${n},1` } });

test("an answer is asked for once and then at hand", async () => {
  const { calls, client } = server();
  const query = matrixQuery("a", 10);
  const both = Promise.all([client.load(query), client.load(matrixQuery("a", 10))]);
  assert.equal(calls.length, 1);
  assert.equal(calls[0].url, "/api/run/a/matrix?contents=1&step=10");
  assert.equal(client.peek(query), undefined);
  calls[0].answer(floats(3));
  const [one, other] = await both;
  assert.equal(one, other);
  assert.deepEqual([one.n_rows, one.n_columns, one.values.length], [3, 1, 3]);
  assert.equal(client.peek(query), one);
  await client.load(query);
  assert.equal(calls.length, 1);
});

test("a request is let go when the last who waits has left", async () => {
  const { calls, client } = server();
  const [one, other] = [new AbortController(), new AbortController()];
  const first = client.load(matrixQuery("a", 1), one.signal);
  const second = client.load(matrixQuery("a", 1), other.signal);
  one.abort();
  assert.equal(calls[0].signal.aborted, false);
  other.abort();
  assert.equal(calls[0].signal.aborted, true);
  await assert.rejects(first);
  await assert.rejects(second);
  void client.load(matrixQuery("a", 1)).catch(() => undefined);
  assert.equal(calls.length, 2);
});

test("the oldest answers go when there is no more room", async () => {
  const { calls, client } = server(100);
  for (const step of [1, 2, 3]) {
    const loaded = client.load(matrixQuery("a", step));
    calls.at(-1)!.answer(floats(10));
    await loaded;
    if (step === 2) client.peek(matrixQuery("a", 1));
  }
  assert.deepEqual([1, 2, 3].map((step) => client.peek(matrixQuery("a", step)) !== undefined), [true, false, true]);
});

test("when a run has grown, what grows with it is asked again and the old is still to be had", async () => {
  const { calls, client } = server();
  const [run, tensor] = [runQuery("a"), tensorQuery("a", 0, 5)];
  for (const query of [run, tensor]) {
    const loaded = client.load<unknown>(query);
    calls.at(-1)!.answer(Response.json({ is: "first" }));
    await loaded;
  }
  client.grew("a");
  assert.equal(client.peek(run), undefined);
  assert.deepEqual(client.old(run), { is: "first" });
  assert.deepEqual(client.peek(tensor), { is: "first" });
});

test("when a run was written anew, nothing that was asked before is an answer, not even what is on its way", async () => {
  const { calls, client } = server();
  const [run, tensor, matrix] = [runQuery("a"), tensorQuery("a", 0, 5), matrixQuery("a", 5)];
  for (const query of [run, tensor]) {
    const loaded = client.load<unknown>(query);
    calls.at(-1)!.answer(Response.json({ is: "first" }));
    await loaded;
  }
  const late = client.load(matrix);
  client.forget("a", run);
  assert.deepEqual([client.peek(run), client.old(tensor)], [{ is: "first" }, undefined]);
  calls[2].answer(floats(1));
  await late;
  assert.equal(client.old(matrix), undefined);
  const again = client.load(matrix);
  calls[3].answer(floats(2));
  assert.equal((await again).n_rows, 2);
});

test("an answer that was asked for before the run grew is an old one", async () => {
  const { calls, client } = server();
  const loaded = client.load(runQuery("a"));
  client.grew("a");
  calls[0].answer(Response.json({}));
  await loaded;
  assert.equal(client.peek(runQuery("a")), undefined);
});

test("refusals and a server that is away are told as sentences", async () => {
  const { calls, client } = server();
  const refused = client.load(matrixQuery("a", 1));
  calls[0].answer(Response.json({ error: "rank-0/x: they are not what was written." }, { status: 500 }));
  await assert.rejects(refused, (error: QueryError) => error.message === "rank-0/x: they are not what was written." && error.status === 500);
  const plain = client.load(matrixQuery("a", 2));
  calls[1].answer(new Response("<html>", { status: 404, statusText: "Not Found" }));
  await assert.rejects(plain, { message: "The server returned 404 Not Found." });
  const away = client.load(matrixQuery("a", 3));
  calls[2].fail(new TypeError("Failed to fetch"));
  await assert.rejects(away, /is not responding/);
});

test("what may be wanted soon is asked for only while nobody waits, and the newest wish counts", async () => {
  const { calls, client } = server();
  const loaded = client.load(matrixQuery("a", 0));
  client.prefetch([1, 2, 3, 4].map((step) => matrixQuery("a", step)));
  client.prefetch([5, 6, 7].map((step) => matrixQuery("a", step)));
  assert.equal(calls.length, 1);
  calls[0].answer(floats(1));
  await loaded;
  await new Promise((later) => setTimeout(later));
  assert.deepEqual(calls.slice(1).map(({ url }) => url.split("step=")[1]), ["5", "6"]);
});

test("answers that were asked for together come together, unless one takes long", async () => {
  const { calls, client } = server();
  const came: number[] = [];
  for (const step of [1, 2, 3]) void client.load(matrixQuery("a", step)).then(() => came.push(step));
  calls[0].answer(floats(1));
  calls[1].answer(floats(1));
  await new Promise((later) => setTimeout(later, 5));
  assert.deepEqual(came, []);
  await new Promise((later) => setTimeout(later, 40));
  assert.deepEqual(came, [1, 2]);
  calls[2].answer(floats(1));
  await new Promise((later) => setTimeout(later, 5));
  assert.deepEqual(came, [1, 2, 3]);
});

test("somebody is told when all that was waited for is there", async () => {
  const { calls, client } = server();
  let n = 0;
  const end = client.onIdle(() => (n += 1));
  const loaded = client.load(matrixQuery("a", 0));
  assert.deepEqual([client.n_waiting, n], [1, 0]);
  calls[0].answer(floats(1));
  await loaded;
  await new Promise((later) => setTimeout(later));
  assert.equal(client.n_waiting, 0);
  assert.ok(n > 0);
  end();
});

test("a curve is read from its bytes, steps beyond 32 bits included", async () => {
  const { calls, client } = server();
  const buffer = new ArrayBuffer(4 + 2 * 8 + 2 * 4);
  const view = new DataView(buffer);
  view.setInt32(0, 2, true);
  [7n, 2n ** 40n].forEach((step, i) => view.setBigInt64(4 + 8 * i, step, true));
  [0.5, NaN].forEach((value, i) => view.setFloat32(20 + 4 * i, value, true));
  const loaded = client.load(curveQuery("a b", 3, "abs mean"));
  assert.equal(calls[0].url, "/api/run/a%20b/curve?row=3&stat=abs+mean");
  calls[0].answer(new Response(buffer));
  const { steps, values } = await loaded;
  assert.deepEqual([...steps], [7, 2 ** 40]);
  assert.deepEqual([...values], [0.5, NaN]);
});
