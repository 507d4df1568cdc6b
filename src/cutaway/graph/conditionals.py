"""Tensors that decided which way a program went: `if`, `while`, `assert`, ternaries, filters."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import CodeType
from typing import TYPE_CHECKING, overload

from cutaway.graph.arms import Arm, Fork
from cutaway.graph.decisions import Decided, Frame, Places, decided
from cutaway.graph.nodes import OP
from cutaway.graph.op import Op
from cutaway.graph.selection import Selection
from cutaway.graph.source import Source, is_users

if TYPE_CHECKING:
    from cutaway.graph.trace import Trace


@dataclass(frozen=True, slots=True, eq=False)
class Conditional:
    """One test that a tensor decided, at one moment of the run."""

    op: Op
    """The op that gave the program a plain value: a `bool`, an `item`, a `float`…"""
    value: bool | None
    """Whether what was asked of it held, before any `not`; None where that cannot be worked out."""
    kind: str
    """ "if", "elif", "while", "assert", "ternary", "filter" (of a comprehension), "case" (its guard), "and" or "or"
    (outside a test); "jump" where the source is not at hand."""
    source: Source
    """Where the test stands."""
    test: str | None
    """The whole test, as text; None without source."""
    arm: str | None
    """The way that was taken: "then", "elif", "else"; "body", "end"; "passed", "failed"; "kept", "dropped"; "next";
    "right", "left". Without source "true" or "false". None where it cannot be told."""
    arm_lines: tuple[int, int] | None
    """First and last line of that arm; None where nothing is written there."""
    number: int = field(repr=False)
    """Place among the conditionals of its trace."""

    @property
    def is_users(self) -> bool:
        """Whether the test stands in the user's code rather than inside torch."""
        return is_users(self.source)

    @property
    def branch(self) -> Selection:
        """The ops that were computed for decisions only, the deciding one last: they lead to no output."""
        return Selection(self.op.trace, self.op.trace.conditionals.branch_of(self.op.node))

    @property
    def start(self) -> Op:
        """The first op of the branch: where it leaves the path to the output."""
        return self.branch[0]

    @property
    def ops_in_arm(self) -> Selection:
        """The ops that ran inside the arm before the test was asked again; modules called there included."""
        return Selection(self.op.trace, self.op.trace.conditionals.nodes_under(self.number))

    def __str__(self) -> str:
        gave = "" if self.value is None else f" gave {self.value}"
        took = "" if self.arm is None else f", took {self.arm!r}"
        test = "" if self.test is None else f" {self.test}"
        return f"{self.kind}{test}: {self.op.label}{gave}{took} ({self.source})"


class Conditionals(Sequence[Conditional]):
    """The conditionals of a trace, in order of execution."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._places = Places()
        self._rows: list[Decided] = decided(trace.tables, self._places)
        self._all = tuple(self._made(number, row) for number, row in enumerate(self._rows))

    def _made(self, number: int, row: Decided) -> Conditional:
        op = Op(self._trace, row.node)
        if row.fork is None:
            arm = None if row.holds is None else str(row.holds).lower()
            return Conditional(op, row.value, "jump", row.source, None, arm, None, number)
        taken = None if row.holds is None else row.fork.arms[0 if row.holds else 1]
        name, lines = (None, None) if taken is None else (taken.name, taken.lines)
        return Conditional(op, row.value, row.fork.kind, row.source, row.fork.text, name, lines, number)

    def __len__(self) -> int:
        return len(self._all)

    @overload
    def __getitem__(self, index: int) -> Conditional: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Conditional, ...]: ...
    def __getitem__(self, index: int | slice) -> Conditional | tuple[Conditional, ...]:
        return self._all[index]

    def __repr__(self) -> str:
        return "\n".join(map(str, self._all)) or "<no conditionals>"

    # by node

    @cached_property
    def _by_node(self) -> dict[int, list[Conditional]]:
        found: dict[int, list[Conditional]] = defaultdict(list)
        for row, conditional in zip(self._rows, self._all, strict=True):
            found[row.node].append(conditional)
        return dict(found)

    def of(self, node: int) -> tuple[Conditional, ...]:
        """The conditionals that a node decided."""
        return tuple(self._by_node.get(node, ()))

    # branches

    def branch_of(self, node: int) -> list[int]:
        """The ancestors of a deciding node that lead to no output, in order, itself included."""
        seen = {node}
        todo = [node]
        while todo:
            for parent in self._trace.tables.nodes.parents[todo.pop()]:
                if parent not in seen and self._is_aside(parent):
                    seen.add(parent)
                    todo.append(parent)
        return sorted(seen)

    @cached_property
    def branch_nodes(self) -> frozenset[int]:
        """The nodes of all branches."""
        seen = {row.node for row in self._rows}
        todo = list(seen)
        while todo:
            for parent in self._trace.tables.nodes.parents[todo.pop()]:
                if parent not in seen and self._is_aside(parent):
                    seen.add(parent)
                    todo.append(parent)
        return frozenset(seen)

    @cached_property
    def starts(self) -> frozenset[tuple[int, int]]:
        """(parent, child) wherever a branch begins: the parent leads to an output too, or is an input."""
        parents, to_output = self._trace.tables.nodes.parents, self._trace.distances.to_output
        inputs = {node for _, node in self._trace.tables.inputs}
        return frozenset(
            (parent, child)
            for child in self.branch_nodes
            for parent in parents[child]
            if parent not in self.branch_nodes and (to_output[parent] is not None or parent in inputs)
        )

    def _is_aside(self, node: int) -> bool:
        return self._trace.distances.to_output[node] is None and self._trace.tables.nodes.kind[node] == OP

    # arms

    def around(self, node: int) -> tuple[tuple[Conditional, str], ...]:
        """The arms in which a node ran, the outermost first."""
        event = self._trace.tables.nodes.event[node]
        if event is None or not self._rows:
            return ()
        found = [*self._around_call(event[4])]
        groups = []
        group = event[5]
        while group:
            opened = self._trace.tables.groups[group]
            groups.append((opened.code, opened.instruction, opened.call))
            group = opened.parent
        for code, offset, call in [*reversed(groups), (event[6], event[7], event[4])]:
            found += self._at(code, offset, call, node)
        return tuple(dict.fromkeys(found))

    def _around_call(self, call: int) -> tuple[tuple[Conditional, str], ...]:
        calls = []
        while call and call not in self._calls:
            calls.append(call)
            call = self._trace.tables.calls[call].parent
        for number in reversed(calls):
            row = self._trace.tables.calls[number]
            own = self._at(row.code, row.instruction, row.parent, row.first_node) if row.code is not None else ()
            self._calls[number] = (*self._calls.get(row.parent, ()), *own)
            call = number
        return self._calls.get(call, ())

    @cached_property
    def _calls(self) -> dict[int, tuple[tuple[Conditional, str], ...]]:
        return {}

    def _at(self, code: CodeType, offset: int, call: int, before: int) -> list[tuple[Conditional, str]]:
        """The arms around an instruction that were taken when it ran."""
        asked = self._by_frame.get((id(code), call))
        if asked is None:
            return []
        found = []
        for fork, arm in self._arms_at(code, offset):
            rows = asked.get(fork, [])
            last = bisect_left(rows, before, key=lambda number: self._rows[number].node) - 1
            found += [(self._all[i], arm.name) for i in self._evaluation(rows, last) if self._all[i].arm == arm.name]
        return found

    def _evaluation(self, rows: list[int], last: int) -> list[int]:
        """The rows that belong to one evaluation of a test, given the last of them."""
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
        """Code → its forks, from the outside in."""
        found: dict[int, dict[Fork, None]] = defaultdict(dict)
        for row in self._rows:
            if row.fork is not None:
                found[row.frame[0]][row.fork] = None
        return {code: sorted(forks, key=lambda fork: fork.order) for code, forks in found.items()}

    @cached_property
    def _known_arms(self) -> dict[tuple[int, int], list[tuple[Fork, Arm]]]:
        return {}

    def _arms_at(self, code: CodeType, offset: int) -> list[tuple[Fork, Arm]]:
        key = id(code), offset
        if key not in self._known_arms:
            place = self._places.at(code, offset)
            forks = self._forks.get(id(code), []) if place is not None else []
            self._known_arms[key] = [(fork, arm) for fork in forks for arm in fork.arms if place and arm.covers(place)]
        return self._known_arms[key]

    @cached_property
    def _under(self) -> dict[int, list[int]]:
        found: dict[int, list[int]] = defaultdict(list)
        for node in self._trace.op_nodes:
            for conditional, _ in self.around(node):
                found[conditional.number].append(node)
        return dict(found)

    def nodes_under(self, number: int) -> list[int]:
        """The nodes that ran in the arm a conditional took."""
        return self._under.get(number, [])
