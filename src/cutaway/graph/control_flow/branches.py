"""Tests and their arms as they stand in the source: `if`, `while`, `assert`, ternaries, filters, guards.

Found by line and column, so that two ternaries of one line are told apart.
"""

from __future__ import annotations

import ast
import linecache
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

Positions = tuple[int | None, int | None, int | None, int | None]
"""Line, end line, column and end column, as code objects give them."""


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of source; columns count bytes."""

    start: tuple[int, int]
    end: tuple[int, int]

    @staticmethod
    def of(first: ast.AST, last: ast.AST | None = None) -> Span:
        """From the start of one node to the end of another, or of itself."""
        last = first if last is None else last
        return Span(
            (getattr(first, "lineno", 0), getattr(first, "col_offset", 0)),
            (getattr(last, "end_lineno", 0), getattr(last, "end_col_offset", 0)),
        )

    @staticmethod
    def at(positions: Positions) -> Span | None:
        """The stretch of an instruction; None where the code object does not tell."""
        line, end_line, column, end_column = positions
        if line is None or end_line is None or column is None or end_column is None:
            return None
        return Span((line, column), (end_line, end_column))

    def covers(self, other: Span) -> bool:
        """Whether the other lies in this one."""
        return self.start <= other.start and other.end <= self.end


@dataclass(frozen=True, slots=True)
class Arm:
    """One of the ways on from a test; without spans where nothing is written there."""

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
    """One place in the source that goes one way or the other."""

    kind: str
    test: ast.expr
    arms: tuple[Arm, Arm]
    """The way on where the test holds, and where it does not."""
    leaves: tuple[ast.expr, ...]
    """The parts that are asked one by one: operands of `and`, `or`, `not`."""
    file: Sequence[str] = field(repr=False)
    """The lines of the file."""

    @property
    def text(self) -> str:
        """The test as written, on one line."""
        first, last = self.test.lineno, self.test.end_lineno or self.test.lineno
        lines = [line.encode() for line in self.file[first - 1 : last]]
        lines[-1] = lines[-1][: self.test.end_col_offset]
        lines[0] = lines[0][self.test.col_offset :]
        return " ".join(line.decode().strip() for line in lines)

    @property
    def order(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """Sorts forks from the outside in: an `if` comes before those in its arms."""
        spans = [Span.of(self.test), *(span for arm in self.arms for span in arm.spans)]
        line, column = max(span.end for span in spans)
        return min(span.start for span in spans), (-line, -column)

    def leaf_at(self, place: Span) -> int | None:
        """Which of the leaves lies there."""
        return next((i for i, leaf in enumerate(self.leaves) if Span.of(leaf).covers(place)), None)

    def n_asked(self, leaf: int) -> int:
        """How many jumps ask one leaf: `0 < n < 5` takes two."""
        node = self.leaves[leaf]
        return len(node.ops) if isinstance(node, ast.Compare) else 1

    def outcome(self, truths: Mapping[int, Sequence[bool]]) -> bool | None:
        """Whether the test held, from what its leaves gave; None if they do not tell."""
        known = {id(self.leaves[leaf]): list(found) for leaf, found in truths.items()}
        if self.kind in ("and", "or"):
            last = next((known[id(leaf)] for leaf in reversed(self.leaves) if id(leaf) in known), None)
            return None if not last else last[-1] if self.kind == "and" else not last[-1]
        return _outcome(self.test, known)


def fork_at(file: str, place: Span) -> tuple[Fork, int] | None:
    """The innermost fork that asks the expression at this place, and which of its leaves that is.

    None where the source is not at hand, or is not the one that was run.
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
            # Whatever stands before the last one asked let it come to that.
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
    """The parts of a test that are asked by a jump of their own."""
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
    """Whether an expression stands exactly there: if not, the source is another one than what was run."""
    return any(isinstance(node, ast.expr) and Span.of(node) == place for node in ast.walk(leaf))


def _forks_of(file: str) -> Mapping[int, tuple[Fork, ...]]:
    return _forks_in("".join(linecache.getlines(file)))


@lru_cache(maxsize=64)
def _forks_in(text: str) -> Mapping[int, tuple[Fork, ...]]:
    """Line → the forks whose tests stand there."""
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
    """Makes the forks of a file, met from the outside in."""

    def __init__(self, lines: list[str]) -> None:
        self.lines = lines
        self.asked: set[int] = set()
        """The `and` and `or` that are part of a test, and so no fork of their own."""

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
