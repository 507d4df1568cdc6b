import assert from "node:assert/strict";
import { test } from "node:test";

import { tinted } from "./python";

const tints = (line: string): string[] => tinted(line).filter(([, tint]) => tint).map(([text, tint]) => `${tint} ${text}`);

test("keywords, numbers, texts and comments are told apart", () => {
  assert.deepEqual(tints("    return x2 + 1e-5  # not 'this'"), ["keyword return", "number 1e-5", "comment # not 'this'"]);
  assert.deepEqual(tints("y = f'{x}' if 'a\\'b' else \"#\""), ["text f'{x}'", "keyword if", "text 'a\\'b'", "keyword else", 'text "#"']);
  assert.deepEqual(tints("informant = island"), []);
});

test("the pieces of any line are the line", () => {
  for (const line of ["", "   ", "x = 'open", '"""doc', "a.b(c)[1:2], lambda self: None # 1", "übung = 3"])
    assert.equal(tinted(line).map(([text]) => text).join(""), line);
});
