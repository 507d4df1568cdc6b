"""From the values that left torch to the tests they decided, in order of execution.

What was run is known from the events, what follows from it from the code objects (`bytecode`), and how it is
written from the source where that is at hand (`arms`). Runs of one function inside one module call are not told
apart otherwise than by their order.
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
from cutaway.graph.control_flow.bytecode import Decision, Reading, start_of
from cutaway.graph.control_flow.source import Source, source_of
from cutaway.graph.control_flow.symbolic import UNKNOWN, before, evaluate
from cutaway.graph.tables import Tables

Frame = tuple[int, int]
"""A code object, by its id, in a module call."""

_PLAIN = frozenset({bool, int, float, complex, list, np.ndarray})
_ARRAYS = frozenset({"numpy", "__array__"})


class Sighting(NamedTuple):
    """A plain value that torch gave at an instruction."""

    node: int
    value: Any
    function: str
    code: CodeType
    offset: int
    call: int


@dataclass(frozen=True, slots=True, eq=False)
class Decided:
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
    """Whether the whole test held; None if that cannot be told."""
    is_certain: bool
    """Whether the test was asked in any case; False if code that is not known may have gone past it."""


class Places:
    """Where the instructions of code objects begin, and where they stand in the source."""

    def __init__(self) -> None:
        self._codes: dict[int, tuple[CodeType, bytes]] = {}
        self._positions: dict[int, list[Any]] = {}

    def start(self, code: CodeType, offset: int) -> int:
        """The offset of the instruction in which a frame stood."""
        known = self._codes.get(id(code))
        if known is None:
            known = self._codes[id(code)] = code, code.co_code
        return start_of(known[1], offset)

    def at(self, code: CodeType, offset: int) -> Span | None:
        """The stretch of source of an instruction."""
        known = self._positions.get(id(code))
        if known is None:
            known = self._positions[id(code)] = list(code.co_positions())
        return Span.at(known[offset // 2]) if 0 <= offset // 2 < len(known) else None


def decided(tables: Tables, places: Places) -> list[Decided]:
    """Every test that a value which left torch has decided."""
    sightings = _sightings(tables, places)
    if not sightings:
        return []
    sightings = sorted([*sightings, *_handed_up(tables, sightings, places)], key=lambda sighting: sighting.node)
    readings = _readings(tables, sightings, places)
    frames: dict[Frame, list[Sighting]] = defaultdict(list)
    for sighting in sightings:
        frames[(id(sighting.code), sighting.call)].append(sighting)
    finder = _Finder(tables, places)
    found: list[Decided] = []
    for frame, seen in frames.items():
        found += finder.with_evidence(list(finder.find(frame, seen, readings[frame[0]])))
    found.sort(key=lambda row: (row.node, row.jump))
    return found


def _sightings(tables: Tables, places: Places) -> list[Sighting]:
    nodes = tables.nodes
    found = []
    for node, value in enumerate(nodes.value):
        if type(value) in _PLAIN or nodes.name[node] in _ARRAYS:
            event = nodes.event[node]
            if event is not None and event[6] is not None:
                known = value if type(value) in _PLAIN else UNKNOWN
                offset = places.start(event[6], event[7])
                found.append(Sighting(node, known, nodes.name[node], event[6], offset, event[4]))
    return found


def _handed_up(tables: Tables, sightings: Sequence[Sighting], places: Places) -> list[Sighting]:
    """What torch's own Python code returns of a value it took (`3 in x`), as seen where that code was called."""
    groups = {s.node: e[5] for s in sightings if (e := tables.nodes.event[s.node]) is not None and e[5]}
    inner = [sighting for sighting in sightings if sighting.node in groups]
    readings = _readings(tables, inner, places)
    found = []
    for sighting in inner:
        group = tables.groups[groups[sighting.node]]
        returned = readings[id(sighting.code)].returned(sighting.offset)
        if returned.escapes and sighting.code.co_name.strip("_") == group.function.strip("_"):
            value = evaluate(returned, {sighting.offset: sighting.value})
            offset = places.start(group.code, group.instruction)
            found.append(sighting._replace(value=value, code=group.code, offset=offset, call=group.call))
    return found


def _readings(tables: Tables, sightings: Sequence[Sighting], places: Places) -> dict[int, Reading]:
    codes: dict[int, CodeType] = {}
    escapes: dict[int, dict[int, str]] = defaultdict(dict)
    for sighting in sightings:
        codes[id(sighting.code)] = sighting.code
        escapes[id(sighting.code)].setdefault(sighting.offset, sighting.function)
    tensors: dict[int, set[int]] = {number: set() for number in codes}
    plain = {sighting.node for sighting in sightings}
    for node, event in enumerate(tables.nodes.event):
        if event is not None and node not in plain and (made := tensors.get(id(event[6]))) is not None:
            made.add(places.start(event[6], event[7]))
    return {
        number: Reading(code, escapes[number], frozenset(tensors[number] - escapes[number].keys()))
        for number, code in codes.items()
    }


class _Finder:
    def __init__(self, tables: Tables, places: Places) -> None:
        self.tables, self.places = tables, places
        self.forks: dict[tuple[int, int, int], tuple[Fork, int] | None] = {}
        self.known: dict[tuple[int, int, frozenset[tuple[int, bool]]], list[Decided]] = {}
        self.evidence = _Evidence(tables, places)

    def find(self, frame: Frame, seen: list[Sighting], reading: Reading) -> Iterator[Decided]:
        runs = {offset for offset in reading.escapes if reading.is_run(offset)}
        last: dict[int, Any] = {}
        for i, sighting in enumerate(seen):
            offset = sighting.offset
            if offset in runs and i + 1 < len(seen) and seen[i + 1].offset == offset:
                continue  # only the last of those that `all(…)` asked tells its result
            if reading.decisions(offset):
                truths = reading.truths(offset, _window(i, seen, reading, last))
                key = frame[0], offset, frozenset(truths.items())
                if key not in self.known:
                    self.known[key] = list(self.decide(sighting, frame, reading, truths))
                for row in self.known[key]:
                    yield replace(row, node=sighting.node, frame=frame)
            last[offset] = sighting.value

    def decide(self, sighting: Sighting, frame: Frame, reading: Reading, truths: dict[int, bool]) -> Iterator[Decided]:
        """The tests that a value decides, when the tests behind it give this."""
        possible, certain = reading.reached(sighting.offset, truths)
        by_fork: dict[Any, list[Decision]] = {}
        for decision in reading.decisions(sighting.offset):
            if decision.jump in possible:
                fork, _ = self.fork_of(sighting.code, decision.jump, decision.operand.origin)
                by_fork.setdefault(fork or source_of(sighting.code, decision.jump), []).append(decision)
        for decisions in by_fork.values():
            first = decisions[0]
            fork, leaf = self.fork_of(sighting.code, first.jump, first.operand.origin)
            # The second copy of a `while` test, at the end of its body, is another evaluation.
            both = fork is None or fork.kind != "while"
            met = [d.jump for d in decisions if d.jump in certain and (both or d.jump == first.jump)]
            value = truths.get(met[-1]) if met else None
            source = source_of(sighting.code, first.jump) or Source("", 0, "")
            holds = value
            if fork is not None:
                source = Source(source.file, fork.test.lineno, source.function)
                holds = self.outcome(first, sighting, reading, truths, possible) if first.jump in certain else None
            yield Decided(
                sighting.node, frame, sighting.offset, first.jump, value, source, fork, leaf, holds, bool(met)
            )

    def with_evidence(self, rows: list[Decided]) -> list[Decided]:
        """The rows of a frame, with the arms that can be told only from what ran afterwards."""
        asked: dict[Fork | None, list[tuple[int, int]]] = defaultdict(list)
        for i in range(len(rows) - 1, -1, -1):
            row = rows[i]
            later = asked[row.fork]
            if row.fork is not None and row.holds is None:
                # Later leaves belong to the same evaluation; the first that does not ends it.
                until = next((node for node, leaf in reversed(later) if leaf <= row.leaf and node > row.node), inf)
                rows[i] = replace(row, holds=self.evidence.arm(row.fork, row, until))
            later.append((row.node, row.leaf))
        # What was perhaps never asked counts only if something ran in one of its arms.
        return [row for row in rows if row.is_certain or row.holds is not None]

    def outcome(
        self, first: Decision, sighting: Sighting, reading: Reading, truths: dict[int, bool], possible: set[int]
    ) -> bool | None:
        """What the whole test gave, from all its parts that are known in this evaluation."""
        fork, _ = self.fork_of(sighting.code, first.jump, first.operand.origin)
        known: dict[int, list[bool]] = {}
        met: list[tuple[int, int]] = []
        for jump, operand in sorted(reading.tested(sighting.offset).items()):
            other, leaf = self.fork_of(sighting.code, jump, operand.origin)
            if fork is None or other is not fork:
                continue
            again = sum(earlier == leaf for _, earlier in met) >= fork.n_asked(leaf)
            if met and (again or leaf < met[-1][1]):
                # Python writes the test of a `while` twice: each copy is an evaluation of its own.
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


def _window(i: int, seen: list[Sighting], reading: Reading, last: dict[int, Any]) -> dict[int, Any]:
    """The values known until an instruction runs again."""
    own = seen[i].offset
    values = {before(offset): value for offset, value in last.items()}
    values[own] = seen[i].value
    missing = set(reading.escapes) - {own}
    for j in range(i + 1, len(seen)):
        sighting = seen[j]
        if sighting.offset == own or not missing:
            break
        if sighting.offset in missing:
            missing.discard(sighting.offset)
            values[sighting.offset] = sighting.value
    return values


class _Evidence:
    """Tells an arm from what ran in it."""

    def __init__(self, tables: Tables, places: Places) -> None:
        self.tables, self.places = tables, places
        self._ran: dict[Frame, list[tuple[int, CodeType, int]]] | None = None

    def arm(self, fork: Fork, row: Decided, until: float) -> bool | None:
        """The arm in which something ran before the test is asked again; None if nothing did, or in both."""
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
