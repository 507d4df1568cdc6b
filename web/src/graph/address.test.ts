// Tests of address.ts.

import assert from "node:assert/strict";
import { test } from "node:test";

import { exampleView } from "../layout/example";
import { fromHash, formatRanges, toHash, parseRanges } from "./address";
import { initial, reduce, type Action, type State } from "./state";

const view = exampleView(30);
const after = (...actions: Action[]): State => actions.reduce((state, action) => reduce(view, state, action), initial(view));

test("a view as it is shown at first needs no words", () => {
  assert.equal(toHash(view, initial(view)), "");
  assert.deepEqual(fromHash(view, "").state, initial(view));
});

test("every state comes back from its address", () => {
  const states = [
    after({ do: "depth", depth: 2 }),
    after({ do: "depth", depth: 1 }),
    after({ do: "apart all", is: true }, { do: "depth", depth: 1 }, { do: "toggle", group: 3 }),
    after({ do: "rolled", is: true }, { do: "direction", direction: "right" }),
    after({ do: "select", key: "n4" }, { do: "highlight", highlight: "ancestors" }, { do: "color", measure: "seconds" }),
    after({ do: "select", key: "g1" }, { do: "pick" }, { do: "select", key: "n4" }, { do: "size", measure: "seconds" }),
    after({ do: "query", query: "h.*/a&b=ü%" }),
  ];
  for (const state of states) {
    const back = fromHash(view, `#${toHash(view, state, { x: -12, y: 3, scale: 0.5 })}`);
    assert.deepEqual(back, { state, camera: { x: -12, y: 3, scale: 0.5 } });
  }
});

test("an address of another model, or one that somebody mistyped, does no harm", () => {
  for (const hash of ["#at=n99999&to=g5&show=paths", "#color=loss&size=", "#open=abc,5-,9999-10000", "#view=1,2&depth=x", "#%E0%A4%A"]) {
    const { state, camera } = fromHash(view, hash);
    assert.equal(camera, null);
    assert.deepEqual({ ...state, open: initial(view).open }, initial(view));
    assert.ok([...state.open].every((group) => group < view.groups.parent.length));
  }
});

test("neighboring numbers are written as a range", () => {
  assert.equal(formatRanges([7, 1, 2, 3]), "1-3,7");
  assert.equal(formatRanges([]), "");
  assert.deepEqual(parseRanges("1-3,7", 100), new Set([1, 2, 3, 7]));
  assert.deepEqual(parseRanges("1-999999999", 3), new Set([1, 2]));
});
