// Tests of quantity.ts.

import assert from "node:assert/strict";
import { test } from "node:test";
import { isGradient, quantity, quantityName, quantityTitle } from "./quantity";

const OFS = ["value", "grad", "grad/aux", "grad@2", "inner_grad", "inner_grad@3", "update", "update@2", "grad/2", "grad/a@2", "grad/a/b"];

test("a loss, a step of the optimizer and a call of autograd.grad are told apart", () => {
  assert.deepEqual(OFS.map(quantityTitle), [
    "value", "gradient", "gradient of aux", "gradient, optimizer step 2", "inner gradient", "inner gradient, call 3",
    "update", "update, optimizer step 2", "gradient 2", "gradient of a@2", "gradient of a/b",
  ]);
  assert.deepEqual(OFS.map(quantityName).filter((name, i) => name !== quantityTitle(OFS[i])), ["of aux", "of a@2", "of a/b"]);
  assert.deepEqual(quantity("grad@2"), { what: "grad", number: 2, loss: "" });
  assert.deepEqual(quantity("grad/2"), { what: "grad", number: 1, loss: "2" });
  assert.deepEqual(quantity("norm:2"), { what: "norm:2", number: 1, loss: "" });
});

test("inner gradients are gradients, updates are none", () => {
  assert.deepEqual(OFS.filter((of) => !isGradient(of)), ["value", "update", "update@2"]);
});
