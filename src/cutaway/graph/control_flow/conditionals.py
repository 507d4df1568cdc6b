"""Tensors that decided which way a program went: `if`, `while`, `assert`, ternaries, filters."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, overload

from cutaway.graph.control_flow.outcomes import outcomes_of
from cutaway.graph.control_flow.source import Source, is_users
from cutaway.graph.op import Op
from cutaway.graph.selection import Selection
from cutaway.graph.tables import OP

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
        self.outcomes = outcomes_of(trace.tables)
        self._tests = self.outcomes.tests
        self._all = tuple(
            Conditional(Op(trace, row.node), row.value, row.kind, row.source, row.test, row.arm, row.arm_lines, number)
            for number, row in enumerate(self._tests)
        )

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
        for row, conditional in zip(self._tests, self._all, strict=True):
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
        seen = {row.node for row in self._tests}
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
        taken = (self._all[number] for number in self.outcomes.around(node))
        return tuple((each, each.arm or "") for each in taken)

    @cached_property
    def _under(self) -> dict[int, list[int]]:
        found: dict[int, list[int]] = defaultdict(list)
        for node in self._trace.op_nodes:
            for number in self.outcomes.around(node):
                found[number].append(node)
        return dict(found)

    def nodes_under(self, number: int) -> list[int]:
        """The nodes that ran in the arm a conditional took."""
        return self._under.get(number, [])
