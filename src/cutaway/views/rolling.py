"""Rolled-up pictures: which box stands for an op in all its passes, and in which passes an edge is there."""

from __future__ import annotations

from dataclasses import dataclass, field

from cutaway.graph.nodes import OP
from cutaway.graph.trace import Trace

_MOST_SPANS = 3


@dataclass(slots=True)
class Rolling:
    """The passes of boxes. A box is drawn where its first pass ran; without recurrence all boxes have one pass."""

    trace: Trace
    is_on: bool
    _calls: dict[int, dict[int, int]] = field(default_factory=dict)
    """Folded call of a first pass → folded calls that it stands for → their numbers, from 1."""

    def first(self, node: int) -> int:
        """The node that stands for an op in all its passes."""
        return self.passes(node)[0]

    def passes(self, node: int) -> tuple[int, ...]:
        """All nodes for which this one stands."""
        return self.trace.rolled.nodes_of(node) if self.is_on and self.trace.tables.nodes.kind[node] == OP else (node,)

    def note_call(self, first: int, call: int) -> None:
        """Note that a folded call is a pass of an earlier one."""
        calls = self._calls.setdefault(first, {})
        calls.setdefault(call, len(calls) + 1)

    def n_calls(self, first: int) -> int:
        """How often the module of a folded call ran."""
        return len(self._calls.get(first, (0,)))

    def turn(self, node: int, first: int, call: int) -> tuple[int, int]:
        """Number of the pass in which a node was made, and of how many; of its folded call, where it is in one."""
        if first:
            return self._calls.get(first, {}).get(call, 1), self.n_calls(first)
        n_passes = len(self.passes(node))
        return self.trace.rolled.number_of(node) if n_passes > 1 else 1, n_passes


def spans(numbers: set[int]) -> str:
    """Numbers in few words.

    >>> spans({1, 2, 3, 7}), spans({2}), spans({1, 3, 5, 7, 9})
    ('1–3, 7', '2', '1, 3 … 9')
    """
    found: list[list[int]] = []
    for number in sorted(numbers):
        if found and found[-1][-1] == number - 1:
            found[-1] = [found[-1][0], number]
        else:
            found.append([number])
    words = ["–".join(map(str, span)) for span in found]
    return ", ".join(words) if len(words) <= _MOST_SPANS else f"{words[0]}, {words[1]} … {words[-1]}"


def passes_label(out: set[int], n_out: int, into: set[int], n_in: int) -> str:
    """In which passes of the upper and of the lower box an edge is there, as far as it is not in all of them.

    >>> passes_label({1, 2}, 3, {2, 3}, 3), passes_label({1}, 1, {1, 2}, 2)
    ('Out 1–2 In 2–3', '')
    """
    words = [f"Out {spans(out)}"] if len(out) < n_out else []
    words += [f"In {spans(into)}"] if len(into) < n_in else []
    return " ".join(words)
