"""The tests that values from torch decided, in order of execution.

The events tell what ran, the code objects tell what it decided (`bytecode`), and the source, if available, tells how
the test is written (`branches`). Several runs of one function inside one module call are distinguished only by their
order.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import inf
from types import CodeType
from typing import Any, NamedTuple

import numpy as np

from cutaway.graph.control_flow.branches import Fork, Span, fork_at
from cutaway.graph.control_flow.bytecode import CodeAnalysis, Decision, start_of
from cutaway.graph.control_flow.source import Source, source_of
from cutaway.graph.control_flow.symbolic import UNKNOWN, before, evaluate
from cutaway.graph.tables import Tables

Frame = tuple[int, int]
"""A code object, by its id, in a module call."""

_PLAIN = frozenset({bool, int, float, complex, list, np.ndarray})
_ARRAYS = frozenset({"numpy", "__array__"})


class EscapedValue(NamedTuple):
    """A Python value that torch returned at an instruction."""

    node: int
    value: Any
    function: str
    code: CodeType
    offset: int
    call: int


@dataclass(frozen=True, slots=True, eq=False)
class DecidedTest:
    """One test that one value decided."""

    node: int
    frame: Frame
    offset: int
    jump: int
    value: bool | None
    source: Source
    fork: Fork | None
    leaf: int
    holds: bool | None
    """The result of the whole test; None if it cannot be determined."""
    is_certain: bool
    """Whether the test was certainly evaluated; False if an unknown branch may have skipped it."""


class Places:
    """Offsets and source ranges of instructions, cached by code object."""

    def __init__(self) -> None:
        self._codes: dict[int, tuple[CodeType, bytes]] = {}
        self._positions: dict[int, list[Any]] = {}

    def start(self, code: CodeType, offset: int) -> int:
        """The offset of the instruction that a frame was executing."""
        known = self._codes.get(id(code))
        if known is None:
            known = self._codes[id(code)] = code, code.co_code
        return start_of(known[1], offset)

    def at(self, code: CodeType, offset: int) -> Span | None:
        """The source range of an instruction."""
        known = self._positions.get(id(code))
        if known is None:
            known = self._positions[id(code)] = list(code.co_positions())
        return Span.at(known[offset // 2]) if 0 <= offset // 2 < len(known) else None


def decided_tests(tables: Tables, places: Places) -> list[DecidedTest]:
    """Every test that a value from torch decided."""
    escaped = _escaped_values(tables, places)
    if not escaped:
        return []
    escaped = sorted([*escaped, *_returned_to_caller(tables, escaped, places)], key=lambda escape: escape.node)
    analyses = _analyses(tables, escaped, places)
    frames: dict[Frame, list[EscapedValue]] = defaultdict(list)
    for escape in escaped:
        frames[(id(escape.code), escape.call)].append(escape)
    finder = _Finder(tables, places)
    found: list[DecidedTest] = []
    for frame, seen in frames.items():
        found += finder.with_evidence(list(finder.find(frame, seen, analyses[frame[0]])))
    found.sort(key=lambda row: (row.node, row.jump))
    return found


def _escaped_values(tables: Tables, places: Places) -> list[EscapedValue]:
    nodes = tables.nodes
    found = []
    for node, value in enumerate(nodes.value):
        if type(value) in _PLAIN or nodes.name[node] in _ARRAYS:
            event = nodes.event[node]
            if event is not None and event[6] is not None:
                known = value if type(value) in _PLAIN else UNKNOWN
                offset = places.start(event[6], event[7])
                found.append(EscapedValue(node, known, nodes.name[node], event[6], offset, event[4]))
    return found


def _returned_to_caller(tables: Tables, escaped: Sequence[EscapedValue], places: Places) -> list[EscapedValue]:
    """Values that torch's Python code returned to its caller after reading a tensor, as in `3 in x`."""
    groups = {s.node: e[5] for s in escaped if (e := tables.nodes.event[s.node]) is not None and e[5]}
    inner = [escape for escape in escaped if escape.node in groups]
    analyses = _analyses(tables, inner, places)
    found = []
    for escape in inner:
        group = tables.groups[groups[escape.node]]
        returned = analyses[id(escape.code)].returned(escape.offset)
        if returned.escapes and escape.code.co_name.strip("_") == group.function.strip("_"):
            value = evaluate(returned, {escape.offset: escape.value})
            offset = places.start(group.code, group.instruction)
            found.append(escape._replace(value=value, code=group.code, offset=offset, call=group.call))
    return found


def _analyses(tables: Tables, escaped: Sequence[EscapedValue], places: Places) -> dict[int, CodeAnalysis]:
    codes: dict[int, CodeType] = {}
    escapes: dict[int, dict[int, str]] = defaultdict(dict)
    for escape in escaped:
        codes[id(escape.code)] = escape.code
        escapes[id(escape.code)].setdefault(escape.offset, escape.function)
    tensors: dict[int, set[int]] = {number: set() for number in codes}
    plain = {escape.node for escape in escaped}
    for node, event in enumerate(tables.nodes.event):
        if event is not None and node not in plain and (made := tensors.get(id(event[6]))) is not None:
            made.add(places.start(event[6], event[7]))
    return {
        number: CodeAnalysis(code, escapes[number], frozenset(tensors[number] - escapes[number].keys()))
        for number, code in codes.items()
    }


class _Finder:
    def __init__(self, tables: Tables, places: Places) -> None:
        self.tables, self.places = tables, places
        self.forks: dict[tuple[int, int, int], tuple[Fork, int] | None] = {}
        self.known: dict[tuple[int, int, frozenset[tuple[int, bool]]], list[DecidedTest]] = {}
        self.evidence = _Evidence(tables, places)

    def find(self, frame: Frame, seen: list[EscapedValue], analysis: CodeAnalysis) -> Iterator[DecidedTest]:
        runs = {offset for offset in analysis.escapes if analysis.is_run(offset)}
        last: dict[int, Any] = {}
        for i, escape in enumerate(seen):
            offset = escape.offset
            if offset in runs and i + 1 < len(seen) and seen[i + 1].offset == offset:
                continue  # only the last value that `all(…)` or `any(…)` read determines its result
            if analysis.decisions(offset):
                truths = analysis.truths(offset, _window(i, seen, analysis, last))
                # A loop takes few different ways in thousands of iterations, so most of them are known.
                key = frame[0], offset, frozenset(truths.items())
                if key not in self.known:
                    self.known[key] = list(self.decide(escape, frame, analysis, truths))
                for row in self.known[key]:
                    yield replace(row, node=escape.node, frame=frame)
            last[offset] = escape.value

    def decide(
        self, escape: EscapedValue, frame: Frame, analysis: CodeAnalysis, truths: dict[int, bool]
    ) -> Iterator[DecidedTest]:
        """The tests that a value decides, given the truth of the tests after it."""
        possible, certain = analysis.reached(escape.offset, truths)
        by_fork: dict[Any, list[Decision]] = {}
        for decision in analysis.decisions(escape.offset):
            if decision.jump in possible:
                fork, _ = self.fork_of(escape.code, decision.jump, decision.operand.origin)
                by_fork.setdefault(fork or source_of(escape.code, decision.jump), []).append(decision)
        for decisions in by_fork.values():
            first = decisions[0]
            fork, leaf = self.fork_of(escape.code, first.jump, first.operand.origin)
            # The second copy of a `while` test, at the end of its body, is a separate evaluation.
            both = fork is None or fork.kind != "while"
            met = [d.jump for d in decisions if d.jump in certain and (both or d.jump == first.jump)]
            value = truths.get(met[-1]) if met else None
            source = source_of(escape.code, first.jump) or Source("", 0, "")
            holds = value
            if fork is not None:
                source = Source(source.file, fork.test.lineno, source.function)
                holds = self.outcome(first, escape, analysis, truths, possible) if first.jump in certain else None
            yield DecidedTest(
                escape.node, frame, escape.offset, first.jump, value, source, fork, leaf, holds, bool(met)
            )

    def with_evidence(self, rows: list[DecidedTest]) -> list[DecidedTest]:
        """The rows of a frame, with unknown branches filled in from the code that ran afterwards."""
        asked: dict[Fork | None, list[tuple[int, int]]] = defaultdict(list)
        for i in range(len(rows) - 1, -1, -1):
            row = rows[i]
            later = asked[row.fork]
            if row.fork is not None and row.holds is None:
                # Later leaves belong to the same evaluation; the first earlier leaf starts a new one.
                until = next((node for node, leaf in reversed(later) if leaf <= row.leaf and node > row.node), inf)
                rows[i] = replace(row, holds=self.evidence.arm(row.fork, row, until))
            later.append((row.node, row.leaf))
        # A test that may have been skipped counts only if something ran in one of its branches.
        return [row for row in rows if row.is_certain or row.holds is not None]

    def outcome(
        self, first: Decision, escape: EscapedValue, analysis: CodeAnalysis, truths: dict[int, bool], possible: set[int]
    ) -> bool | None:
        """The result of the whole test, from its parts that are known in this evaluation."""
        fork, _ = self.fork_of(escape.code, first.jump, first.operand.origin)
        known: dict[int, list[bool]] = {}
        met: list[tuple[int, int]] = []
        for jump, operand in sorted(analysis.tested(escape.offset).items()):
            other, leaf = self.fork_of(escape.code, jump, operand.origin)
            if fork is None or other is not fork:
                continue
            again = sum(earlier == leaf for _, earlier in met) >= fork.n_jumps(leaf)
            if met and (again or leaf < met[-1][1]):
                # CPython compiles the test of a `while` twice: each copy is a separate evaluation.
                if any(jump == first.jump for jump, _ in met):
                    break
                known, met = {}, []
            met.append((jump, leaf))
            if jump in possible and jump in truths:
                known.setdefault(leaf, []).append(truths[jump])
        return None if fork is None else fork.outcome(known)

    def fork_of(self, code: CodeType, jump: int, origin: int) -> tuple[Fork | None, int]:
        key = id(code), jump, origin
        if key not in self.forks:
            place = self.places.at(code, origin) if origin >= 0 else None
            self.forks[key] = fork_at(code.co_filename, place) if place is not None else None
        return self.forks[key] or (None, 0)


def _window(i: int, seen: list[EscapedValue], analysis: CodeAnalysis, last: dict[int, Any]) -> dict[int, Any]:
    """The values that are known until an instruction runs again."""
    start = seen[i].offset
    values = {before(offset): value for offset, value in last.items()}
    values[start] = seen[i].value
    missing = set(analysis.escapes) - {start}
    for j in range(i + 1, len(seen)):
        escape = seen[j]
        if escape.offset == start or not missing:
            break
        if escape.offset in missing:
            missing.discard(escape.offset)
            values[escape.offset] = escape.value
    return values


class _Evidence:
    """Determines a branch from the code that ran in it."""

    def __init__(self, tables: Tables, places: Places) -> None:
        self.tables, self.places = tables, places
        self._ran: dict[Frame, list[tuple[int, CodeType, int]]] | None = None

    def arm(self, fork: Fork, row: DecidedTest, until: float) -> bool | None:
        """The branch in which something ran before the next evaluation of the test; None if in neither or both."""
        seen: set[bool] = set()
        for node, code, offset in self.ran().get(row.frame, ()):
            if row.node < node < until and (place := self.places.at(code, offset)) is not None:
                seen |= {holds for arm, holds in zip(fork.arms, (True, False), strict=True) if arm.covers(place)}
        return seen.pop() if len(seen) == 1 else None

    def ran(self) -> dict[Frame, list[tuple[int, CodeType, int]]]:
        if self._ran is None:
            self._ran = defaultdict(list)
            for node, event in enumerate(self.tables.nodes.event):
                if event is not None and event[6] is not None:
                    self._ran[(id(event[6]), event[4])].append((node, event[6], event[7]))
                    if event[5]:
                        opened = self.tables.groups[event[5]]
                        self._ran[(id(opened.code), opened.call)].append((node, opened.code, opened.instruction))
            for row in self.tables.calls[1:]:
                if row.code is not None:
                    self._ran[(id(row.code), row.parent)].append((row.first_node, row.code, row.instruction))
        return self._ran
