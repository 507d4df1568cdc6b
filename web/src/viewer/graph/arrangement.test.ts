// Tests of arrangement.ts.

import assert from "node:assert/strict";
import { test } from "node:test";
import { reduce } from "../../graph/state";
import { exampleView } from "../../layout/example";
import { fromText, tagStructure, toText, untagStructure } from "./arrangement";

const view = exampleView(3);

test("an arrangement survives as text, but for what was selected and searched", () => {
  const first = fromText(view, "");
  assert.equal(toText(view, first), "", "as at first, there is nothing to say");
  assert.equal(first.state.direction, "right");
  for (const depth of [1, 2, 3]) for (const direction of ["down", "right"] as const) {
    const other = { ...first, state: { ...reduce(view, first.state, { do: "depth", depth }), direction } };
    assert.deepEqual(fromText(view, toText(view, other)), other, `${depth} ${direction}`);
  }
  let state = reduce(view, first.state, { do: "depth", depth: 2 });
  state = reduce(view, state, { do: "direction", direction: "down" });
  state = reduce(view, state, { do: "apart", run: 0, is: true });
  const own = { state, camera: { x: 1, y: -20, scale: 0.5 }, hidden: new Set([1, 2, 3, 7]), pinned: new Set([4]), offsets: new Map([["n3", [24, -48] as [number, number]]]) };
  const again = fromText(view, toText(view, own));
  assert.deepEqual(again, own);
  const busy = { ...own, state: reduce(view, reduce(view, state, { do: "select", key: "n2" }), { do: "query", query: "relu" }) };
  assert.equal(toText(view, busy), toText(view, own));
});

test("a text from elsewhere hides nothing that is not there", () => {
  const { hidden, pinned } = fromText(view, "hide=0,5-99999999&pin=x,-3,2");
  assert.ok([...hidden].every((node) => node < view.nodes.row.length));
  assert.deepEqual([...pinned], [2]);
});

test("what was arranged for one structure is not taken for another", () => {
  assert.equal(untagStructure("abcdef0123", tagStructure("abcdef0123", "depth=2")), "depth=2");
  assert.equal(untagStructure("0000000000", tagStructure("abcdef0123", "depth=2")), null);
  assert.equal(untagStructure("abcdef0123", undefined), null);
  assert.equal(tagStructure("abcdef0123", ""), "");
});
