"""`Conditional`: a test that a tensor decided, such as an `if` or `while`; `Conditionals`: all of a trace."""

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
    """One evaluation of a test that a tensor decided."""

    op: Op
    """The op that returned a Python value to the program: a `bool`, an `item`, a `float`…"""
    value: bool | None
    """The truth value of the tested expression, before any `not`; None if it cannot be determined."""
    kind: str
    """ "if", "elif", "while", "assert", "ternary", "filter" (of a comprehension), "case" (its guard), "and" or "or"
    (outside a test); "jump" if the source is not available."""
    source: Source
    """The line of the test."""
    test: str | None
    """The source of the whole test; None if it is not available."""
    arm: str | None
    """The branch that was taken: "then", "elif", "else"; "body", "end"; "passed", "failed"; "kept", "dropped"; "next";
    "right", "left". Without source "true" or "false". None if it cannot be determined."""
    arm_lines: tuple[int, int] | None
    """First and last line of that branch; None if it has no code."""
    number: int = field(repr=False)
    """Index among the conditionals of its trace."""

    @property
    def is_users(self) -> bool:
        """Whether the test is in the user's code rather than inside torch."""
        return is_users(self.source)

    @property
    def branch(self) -> Selection:
        """The ops that were computed only for decisions and lead to no output; the deciding op is the last."""
        return Selection(self.op.trace, self.op.trace.conditionals.branch_of(self.op.node))

    @property
    def start(self) -> Op:
        """The first op of `branch`, where it leaves the path to the output."""
        return self.branch[0]

    @property
    def ops_in_arm(self) -> Selection:
        """The ops that ran in the taken branch before the test was evaluated again, including modules called there."""
        return Selection(self.op.trace, self.op.trace.conditionals.nodes_under(self.number))

    def __str__(self) -> str:
        return _text([self])


def _text(evaluation: list[Conditional]) -> str:
    """One line for the conditionals of one evaluation of a test."""
    last = evaluation[-1]
    gave = ", ".join(each.op.label + ("" if each.value is None else f" gave {each.value}") for each in evaluation)
    took = "" if last.arm is None else f", took {last.arm!r}"
    test = "" if last.test is None else f" {last.test}"
    return f"{last.kind}{test}: {gave}{took} ({last.source})"


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
        return "\n".join(map(_text, self._evaluations)) or "<no conditionals>"

    @cached_property
    def _evaluations(self) -> list[list[Conditional]]:
        """The conditionals, those of one evaluation together: `if a and b` asks two tensors and takes one branch."""
        events = self._trace.tables.nodes.event
        found: list[list[Conditional]] = []
        asked: set[int] = set()
        for each in self._all:
            event = events[each.op.node]
            instruction = event[7] if event is not None else -1
            # The next turn of a loop asks at the same instruction, or is followed by other ops.
            if not found or instruction in asked or not self._is_one_test(found[-1][-1], each):
                found.append([])
                asked = set()
            found[-1].append(each)
            asked.add(instruction)
        return found

    def _is_one_test(self, a: Conditional, b: Conditional) -> bool:
        same = (a.kind, a.source, a.test, a.arm, a.arm_lines) == (b.kind, b.source, b.test, b.arm, b.arm_lines)
        return same and a.test is not None and self.nodes_under(a.number) == self.nodes_under(b.number)

    # by node

    @cached_property
    def _by_node(self) -> dict[int, list[Conditional]]:
        by_node: dict[int, list[Conditional]] = defaultdict(list)
        for row, conditional in zip(self._tests, self._all, strict=True):
            by_node[row.node].append(conditional)
        return dict(by_node)

    def of(self, node: int) -> tuple[Conditional, ...]:
        """The conditionals that a node decided."""
        return tuple(self._by_node.get(node, ()))

    # branches

    def branch_of(self, node: int) -> list[int]:
        """The ancestors of a deciding node that lead to no output, in order, including itself."""
        return sorted(self._with_ancestors_aside({node}))

    @cached_property
    def branch_nodes(self) -> frozenset[int]:
        """The nodes of all branches."""
        return frozenset(self._with_ancestors_aside({row.node for row in self._tests}))

    def _with_ancestors_aside(self, nodes: set[int]) -> set[int]:
        """These nodes, and their ancestors that lead to no output."""
        seen, todo = set(nodes), list(nodes)
        while todo:
            for parent in self._trace.tables.nodes.parents[todo.pop()]:
                if parent not in seen and self._is_aside(parent):
                    seen.add(parent)
                    todo.append(parent)
        return seen

    @cached_property
    def starts(self) -> frozenset[tuple[int, int]]:
        """(parent, child) where a branch begins: the parent also leads to an output, or is an input."""
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
        """The branches in which a node ran, outermost first; each with the last tensor that its test asked."""
        numbers = self.outcomes.around(node)
        taken = {self._evaluation_of[number]: self._all[number] for number in numbers}
        return tuple((each, each.arm or "") for each in taken.values())

    @cached_property
    def _evaluation_of(self) -> list[int]:
        return [number for number, evaluation in enumerate(self._evaluations) for _ in evaluation]

    @cached_property
    def _under(self) -> dict[int, list[int]]:
        under: dict[int, list[int]] = defaultdict(list)
        for node in self._trace.op_nodes:
            for number in self.outcomes.around(node):
                under[number].append(node)
        return dict(under)

    def nodes_under(self, number: int) -> list[int]:
        """The nodes that ran in the taken branch of a conditional."""
        return self._under.get(number, [])
