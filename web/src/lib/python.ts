// Syntax highlighting for short pieces of Python.

export type TokenKind = "" | "keyword" | "text" | "number" | "comment";

const KEYWORDS =
  "False|None|True|and|as|assert|async|await|break|case|class|continue|def|del|elif|else|except|finally|for|from|global|if|" +
  "import|in|is|lambda|match|nonlocal|not|or|pass|raise|return|self|try|while|with|yield";
const PIECES = new RegExp(
  [
    "(?<comment>#.*$)",
    "(?<text>(?:\\b[rbfuRBFU]{1,2})?(?:\"\"\".*?(?:\"\"\"|$)|'''.*?(?:'''|$)|\"(?:[^\"\\\\]|\\\\.)*(?:\"|$)|'(?:[^'\\\\]|\\\\.)*(?:'|$)))",
    `(?<keyword>\\b(?:${KEYWORDS})\\b)`,
    "(?<number>\\b\\d(?:[eE][+-]\\d|[\\w.])*)",
  ].join("|"),
  "g",
);

/** A line as pieces with their kinds; joined, they are the line again. */
export function highlightPython(line: string): [string, TokenKind][] {
  const out: [string, TokenKind][] = [];
  let end = 0;
  for (const found of line.matchAll(PIECES)) {
    if (found.index > end) out.push([line.slice(end, found.index), ""]);
    const { comment, keyword, number } = found.groups ?? {};
    out.push([found[0], comment ? "comment" : keyword ? "keyword" : number ? "number" : "text"]);
    end = found.index + found[0].length;
  }
  if (end < line.length) out.push([line.slice(end), ""]);
  return out;
}
