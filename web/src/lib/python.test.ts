// Tests of python.ts.

import assert from "node:assert/strict";
import { test } from "node:test";

import { highlightPython } from "./python";

const kinds = (line: string): string[] => highlightPython(line).filter(([, kind]) => kind).map(([text, kind]) => `${kind} ${text}`);

test("keywords, numbers, texts and comments are told apart", () => {
  assert.deepEqual(kinds("    return x2 + 1e-5  # not 'this'"), ["keyword return", "number 1e-5", "comment # not 'this'"]);
  assert.deepEqual(kinds("y = f'{x}' if 'a\\'b' else \"#\""), ["text f'{x}'", "keyword if", "text 'a\\'b'", "keyword else", 'text "#"']);
  assert.deepEqual(kinds("informant = island"), []);
});

test("the pieces of any line are the line", () => {
  for (const line of ["", "   ", "x = 'open", '"""doc', "a.b(c)[1:2], lambda self: None # 1", "übung = 3"])
    assert.equal(highlightPython(line).map(([text]) => text).join(""), line);
});
