"""Tests and their branches (arms) in the syntax tree: `if`, `while`, `assert`, ternaries, filters, guards.

They are found by line and column, which distinguishes two ternaries in one line.
"""

from __future__ import annotations

import ast
import linecache
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

Positions = tuple[int | None, int | None, int | None, int | None]
"""Line, end line, column and end column, as in `code.co_positions()`."""


@dataclass(frozen=True, slots=True)
class Span:
    """A range of source code; columns count bytes."""

    start: tuple[int, int]
    end: tuple[int, int]

    @staticmethod
    def of(first: ast.AST, last: ast.AST | None = None) -> Span:
        """The range from the start of one node to the end of another, by default of itself."""
        last = first if last is None else last
        return Span(
            (getattr(first, "lineno", 0), getattr(first, "col_offset", 0)),
            (getattr(last, "end_lineno", 0), getattr(last, "end_col_offset", 0)),
        )

    @staticmethod
    def at(positions: Positions) -> Span | None:
        """The range of an instruction; None if the code object has no columns."""
        line, end_line, column, end_column = positions
        if line is None or end_line is None or column is None or end_column is None:
            return None
        return Span((line, column), (end_line, end_column))

    def covers(self, other: Span) -> bool:
        """Whether this range contains the other."""
        return self.start <= other.start and other.end <= self.end


@dataclass(frozen=True, slots=True)
class Arm:
    """One of the two branches of a test; without spans if it has no code."""

    name: str
    spans: tuple[Span, ...] = ()

    @property
    def lines(self) -> tuple[int, int] | None:
        """First and last line."""
        if not self.spans:
            return None
        return min(span.start[0] for span in self.spans), max(span.end[0] for span in self.spans)

    def covers(self, place: Span) -> bool:
        return any(span.covers(place) for span in self.spans)


@dataclass(frozen=True, slots=True, eq=False)
class Fork:
    """One test in the source, with its two branches."""

    kind: str
    test: ast.expr
    arms: tuple[Arm, Arm]
    """The branch if the test is true, and the branch if it is false."""
    leaves: tuple[ast.expr, ...]
    """The parts that are tested one by one: operands of `and`, `or`, `not`."""
    file: Sequence[str] = field(repr=False)
    """The lines of the file."""

    @property
    def text(self) -> str:
        """The source of the test, on one line."""
        first, last = self.test.lineno, self.test.end_lineno or self.test.lineno
        # `ast` counts columns in UTF-8 bytes.
        lines = [line.encode() for line in self.file[first - 1 : last]]
        lines[-1] = lines[-1][: self.test.end_col_offset]
        lines[0] = lines[0][self.test.col_offset :]
        return " ".join(line.decode().strip() for line in lines)

    @property
    def order(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """Sort key from outer to inner: an `if` comes before those in its branches."""
        spans = [Span.of(self.test), *(span for arm in self.arms for span in arm.spans)]
        line, column = max(span.end for span in spans)
        return min(span.start for span in spans), (-line, -column)

    def leaf_at(self, place: Span) -> int | None:
        """The index of the leaf that contains this range."""
        return next((i for i, leaf in enumerate(self.leaves) if Span.of(leaf).covers(place)), None)

    def n_jumps(self, leaf: int) -> int:
        """How many jumps test one leaf: `0 < n < 5` needs two."""
        node = self.leaves[leaf]
        return len(node.ops) if isinstance(node, ast.Compare) else 1

    def outcome(self, truths: Mapping[int, Sequence[bool]]) -> bool | None:
        """The result of the test from those of its leaves; None if they do not determine it."""
        known = {id(self.leaves[leaf]): list(results) for leaf, results in truths.items()}
        if self.kind in ("and", "or"):
            last = next((known[id(leaf)] for leaf in reversed(self.leaves) if id(leaf) in known), None)
            return None if not last else last[-1] if self.kind == "and" else not last[-1]
        return _outcome(self.test, known)


def fork_at(file: str, place: Span) -> tuple[Fork, int] | None:
    """The innermost fork that tests the expression at this place, and the index of its leaf.

    None if the source is not available, or has changed since it was run.
    """
    best: tuple[Fork, int] | None = None
    for fork in _forks_of(file).get(place.start[0], ()):
        leaf = fork.leaf_at(place)
        if leaf is not None and (best is None or Span.of(best[0].test).covers(Span.of(fork.test))):
            best = fork, leaf
    if best is None or not _is_expression(best[0].leaves[best[1]], place):
        return None
    return best


def _outcome(node: ast.expr, known: Mapping[int, list[bool]]) -> bool | None:
    match node:
        case ast.UnaryOp(op=ast.Not()):
            inner = _outcome(node.operand, known)
            return None if inner is None else not inner
        case ast.BoolOp():
            asked = [value for value in node.values if _is_asked(value, known)]
            if not asked:
                return None
            # All operands before the last tested one did not end the evaluation.
            last = _outcome(asked[-1], known)
            ends = isinstance(node.op, ast.Or)
            return last if last is ends or asked[-1] is node.values[-1] else None
        case ast.IfExp():
            return next((_outcome(arm, known) for arm in (node.body, node.orelse) if _is_asked(arm, known)), None)
        case ast.Compare():
            truths = known.get(id(node), [])
            return False if False in truths else True if len(truths) >= len(node.ops) else None
        case _:
            truths = known.get(id(node), [])
            return truths[-1] if truths else None


def _is_asked(node: ast.expr, known: Mapping[int, list[bool]]) -> bool:
    return any(id(leaf) in known for leaf in _leaves(node))


def _leaves(node: ast.expr) -> Iterator[ast.expr]:
    """The parts of a test that have their own jump."""
    match node:
        case ast.UnaryOp(op=ast.Not()):
            yield from _leaves(node.operand)
        case ast.BoolOp():
            for value in node.values:
                yield from _leaves(value)
        case ast.IfExp():
            yield from _leaves(node.body)
            yield from _leaves(node.orelse)
        case _:
            yield node


def _is_expression(leaf: ast.expr, place: Span) -> bool:
    """Whether an expression has exactly this range; if not, the source has changed since it was run."""
    return any(isinstance(node, ast.expr) and Span.of(node) == place for node in ast.walk(leaf))


def _forks_of(file: str) -> Mapping[int, tuple[Fork, ...]]:
    return _forks_in("".join(linecache.getlines(file)))


# By text, so that an edited file or notebook cell is parsed again.
@lru_cache(maxsize=64)
def _forks_in(text: str) -> Mapping[int, tuple[Fork, ...]]:
    """Line → the forks whose tests are on it."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return {}
    found: dict[int, list[Fork]] = {}
    reader = _Reader(text.splitlines())
    for node in ast.walk(tree):
        for fork in reader.forks_at(node):
            for line in range(fork.test.lineno, (fork.test.end_lineno or fork.test.lineno) + 1):
                found.setdefault(line, []).append(fork)
    return {line: tuple(forks) for line, forks in found.items()}


class _Reader:
    """Creates the forks of a file, outer ones first."""

    def __init__(self, lines: list[str]) -> None:
        self.lines = lines
        self.asked: set[int] = set()
        """The `and` and `or` that are part of a test, so they are not forks themselves."""

    def forks_at(self, node: ast.AST) -> Iterator[Fork]:
        match node:
            case ast.If():
                kind = "elif" if _is_elif(node, self.lines) else "if"
                yield self.fork(kind, node.test, _body(node), _orelse(node, self.lines))
            case ast.While():
                end = Arm("end", (Span.of(node.orelse[0], node.orelse[-1]),) if node.orelse else ())
                yield self.fork("while", node.test, Arm("body", (Span.of(node.body[0], node.body[-1]),)), end)
            case ast.Assert():
                message = (Span.of(node.msg),) if node.msg is not None else ()
                yield self.fork("assert", node.test, Arm("passed"), Arm("failed", message))
            case ast.IfExp():
                arms = Arm("then", (Span.of(node.body),)), Arm("else", (Span.of(node.orelse),))
                yield self.fork("ternary", node.test, *arms)
            case ast.match_case():
                if node.guard is not None:
                    yield self.fork("case", node.guard, _body(node), Arm("next"))
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
                yield from self.filters(node)
            # `ast.walk` visits outer nodes first, so a test has marked its parts before they are visited.
            case ast.BoolOp() if id(node) not in self.asked:
                kind = "and" if isinstance(node.op, ast.And) else "or"
                right = Arm("right", (Span.of(node.values[1], node.values[-1]),))
                yield Fork(kind, node, (right, Arm("left")), tuple(node.values[:-1]), self.lines)

    def filters(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> Iterator[Fork]:
        made = (node.key, node.value) if isinstance(node, ast.DictComp) else (node.elt,)
        later = [Span.of(part) for part in made]
        for generator in reversed(node.generators):
            for condition in reversed(generator.ifs):
                yield self.fork("filter", condition, Arm("kept", tuple(later)), Arm("dropped"))
                later.append(Span.of(condition))
            later.append(Span.of(generator.iter))

    def fork(self, kind: str, test: ast.expr, holds: Arm, fails: Arm) -> Fork:
        self.mark(test)
        return Fork(kind, test, (holds, fails), tuple(_leaves(test)), self.lines)

    def mark(self, node: ast.expr) -> None:
        match node:
            case ast.UnaryOp(op=ast.Not()):
                self.mark(node.operand)
            case ast.BoolOp():
                self.asked.add(id(node))
                for value in node.values:
                    self.mark(value)
            case ast.IfExp():
                self.mark(node.body)
                self.mark(node.orelse)


def _body(node: ast.If | ast.match_case) -> Arm:
    return Arm("then", (Span.of(node.body[0], node.body[-1]),))


def _orelse(node: ast.If, lines: list[str]) -> Arm:
    if not node.orelse:
        return Arm("else")
    first = node.orelse[0]
    name = "elif" if isinstance(first, ast.If) and _is_elif(first, lines) else "else"
    return Arm(name, (Span.of(first, node.orelse[-1]),))


def _is_elif(node: ast.If, lines: list[str]) -> bool:
    return lines[node.lineno - 1].encode()[node.col_offset :].startswith(b"elif")
