"""The tests of a trace, and the branches in which its ops ran."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence
from functools import cached_property
from types import CodeType
from typing import Protocol

from cutaway.graph.control_flow.branches import Arm, Fork
from cutaway.graph.control_flow.decisions import DecidedTest, Frame, Places, decided_tests
from cutaway.graph.stored_facts import StoredTest
from cutaway.graph.tables import Tables


class Outcomes(Protocol):
    """The tests of a trace, in order of execution, and the branches in which each node ran.

    Computed from the code (`ComputedOutcomes`), or stored with the trace (`StoredFacts`).
    """

    @property
    def tests(self) -> Sequence[StoredTest]: ...

    def around(self, node: int) -> tuple[int, ...]:
        """The indices of the tests in whose taken branch a node ran, outermost first."""
        ...


def outcomes_of(tables: Tables) -> Outcomes:
    """The tests of a trace, computed or stored."""
    return ComputedOutcomes(tables) if tables.stored is None else tables.stored


class ComputedOutcomes:
    """The tests of a trace, computed from its code objects."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._places = Places()
        self._rows: list[DecidedTest] = decided_tests(tables, self._places)
        self.tests: Sequence[StoredTest] = tuple(map(_stored_test, self._rows))

    def around(self, node: int) -> tuple[int, ...]:
        """The indices of the tests in whose taken branch a node ran, outermost first."""
        event = self._tables.nodes.event[node]
        if event is None or not self._rows:
            return ()
        found = [*self._around_call(event[4])]
        groups = []
        group = event[5]
        while group:
            opened = self._tables.groups[group]
            groups.append((opened.code, opened.instruction, opened.call))
            group = opened.parent
        for code, offset, call in [*reversed(groups), (event[6], event[7], event[4])]:
            found += self._at(code, offset, call, node)
        return tuple(dict.fromkeys(found))

    def _around_call(self, call: int) -> tuple[int, ...]:
        calls = []
        while call and call not in self._calls:
            calls.append(call)
            call = self._tables.calls[call].parent
        for number in reversed(calls):
            row = self._tables.calls[number]
            tests = self._at(row.code, row.instruction, row.parent, row.first_node) if row.code is not None else ()
            self._calls[number] = (*self._calls.get(row.parent, ()), *tests)
            call = number
        return self._calls.get(call, ())

    @cached_property
    def _calls(self) -> dict[int, tuple[int, ...]]:
        return {}

    def _at(self, code: CodeType, offset: int, call: int, before: int) -> list[int]:
        """The tests around an instruction that ran in their taken branch."""
        asked = self._by_frame.get((id(code), call))
        if asked is None:
            return []
        found = []
        for fork, arm in self._arms_at(code, offset):
            rows = asked.get(fork, [])
            last = bisect_left(rows, before, key=lambda number: self._rows[number].node) - 1
            found += [i for i in self._evaluation(rows, last) if self.tests[i].arm == arm.name]
        return found

    def _evaluation(self, rows: list[int], last: int) -> list[int]:
        """The rows of one evaluation of a test, given the last of them."""
        found: list[int] = []
        offsets: set[int] = set()
        while last >= 0:
            row = self._rows[rows[last]]
            if found:
                after = self._rows[found[-1]]
                is_same = row.leaf < after.leaf or (row.jump == after.jump and row.leaf == after.leaf)
                if not is_same or row.offset in offsets:
                    break
            found.append(rows[last])
            offsets.add(row.offset)
            last -= 1
        return found[::-1]

    @cached_property
    def _by_frame(self) -> dict[Frame, dict[Fork, list[int]]]:
        found: dict[Frame, dict[Fork, list[int]]] = defaultdict(lambda: defaultdict(list))
        for number, row in enumerate(self._rows):
            if row.fork is not None:
                found[row.frame][row.fork].append(number)
        return dict(found)

    @cached_property
    def _forks(self) -> dict[int, list[Fork]]:
        """Code → its forks, outer ones first."""
        found: dict[int, dict[Fork, None]] = defaultdict(dict)
        for row in self._rows:
            if row.fork is not None:
                found[row.frame[0]][row.fork] = None
        return {code: sorted(forks, key=lambda fork: fork.order) for code, forks in found.items()}

    @cached_property
    def _arms_cache(self) -> dict[tuple[int, int], list[tuple[Fork, Arm]]]:
        return {}

    def _arms_at(self, code: CodeType, offset: int) -> list[tuple[Fork, Arm]]:
        key = id(code), offset
        if key not in self._arms_cache:
            place = self._places.at(code, offset)
            forks = self._forks.get(id(code), []) if place is not None else []
            self._arms_cache[key] = [(fork, arm) for fork in forks for arm in fork.arms if place and arm.covers(place)]
        return self._arms_cache[key]


def _stored_test(row: DecidedTest) -> StoredTest:
    if row.fork is None:
        arm = None if row.holds is None else str(row.holds).lower()
        return StoredTest(row.node, row.value, "jump", row.source, None, arm, None)
    taken = None if row.holds is None else row.fork.arms[0 if row.holds else 1]
    name, lines = (None, None) if taken is None else (taken.name, taken.lines)
    return StoredTest(row.node, row.value, row.fork.kind, row.source, row.fork.text, name, lines)
