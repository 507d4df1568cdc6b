"""Finds runs of identical blocks, such as `h.0` to `h.23`, which a picture shows once, ×24."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

from cutaway.layout.graph_view import OUTPUT, BlockRun, GraphView

_FEWEST = 3
"""The fewest blocks of a run: folding two would save nothing."""

_RETURNED = -1
"""Stands for the caller of the model."""

Shape = tuple[object, ...]
Feed = tuple[int, str, str, int]
"""An input of a block: its node that reads it, the argument, "before" (the previous block) or "outside", the parent."""


def with_runs(view: GraphView, signature: Callable[[int], object]) -> GraphView:
    """The same view, with its runs of identical blocks filled in.

    Args:
        signature: node → everything that is not in the view and must be equal in identical blocks.
    """
    finder = _Finder(view, signature)
    runs: list[BlockRun] = []
    run, place = list(view.groups.run), list(view.groups.place)
    for blocks in finder.runs():
        for at, group in enumerate(blocks):
            run[group], place[group] = len(runs), at
        runs.append(BlockRun(tuple(blocks), _label(view.groups.label[blocks[0]], view.groups.label[blocks[-1]])))
    return replace(view, runs=tuple(runs), groups=replace(view.groups, run=tuple(run), place=tuple(place)))


def _label(first: str, last: str) -> str:
    """The label of a run, without the common prefix of the last block.

    >>> _label("model.h.0", "model.h.11")
    'model.h.0 … 11'
    """
    home, _, name = last.rpartition(".")
    return f"{first} … {name if first.rpartition('.')[0] == home else last}"


class _Finder:
    def __init__(self, view: GraphView, signature: Callable[[int], object]) -> None:
        self.view, self.nodes, self.groups = view, view.nodes, view.groups
        self.signature = cache(signature)
        self.into: list[list[int]] = [[] for _ in self.nodes.row]
        self.out_of: list[list[int]] = [[] for _ in self.nodes.row]
        for edge, (parent, child) in enumerate(zip(view.edges.parent, view.edges.child, strict=True)):
            self.into[child].append(edge)
            self.out_of[parent].append(edge)
        self._shapes: dict[int, Shape] = {}
        self._feeds: dict[int, list[tuple[int, str, int]]] = {}

    def runs(self) -> list[list[int]]:
        """Each run as a list of its groups, in the order of their first blocks."""
        children: dict[int, list[int]] = {}
        for group, parent in enumerate(self.groups.parent):
            if group:
                children.setdefault(parent, []).append(group)
        runs = []
        for groups in children.values():
            at: list[int] = []
            for group in [*groups, -1]:
                if at and group >= 0 and self._continues(at, group):
                    at.append(group)
                    continue
                if len(at) >= _FEWEST and self._has_same_readers(at):
                    runs.append(at)
                at = [group]
        return sorted(runs)

    def _continues(self, at: list[int], group: int) -> bool:
        """Whether a group is the next block of a run."""
        groups, last = self.groups, at[-1]
        if groups.first[group] != groups.end[last] or groups.class_name[group] != groups.class_name[last]:
            return False
        if groups.end[group] - groups.first[group] != groups.end[last] - groups.first[last]:
            return False
        if self._shape(group) != self._shape(last):
            return False
        before, after = self._inputs(last, at[-2] if len(at) > 1 else -1), self._inputs(group, last)
        if len(at) > 1:
            return before == after
        # The first block of a run has no block before it: compare only which of its nodes are fed.
        return [feed[:2] for feed in before] == [feed[:2] for feed in after]

    def _shape(self, group: int) -> Shape:
        """The contents of a block and its inner edges; equal for identical blocks."""
        if group not in self._shapes:
            nodes, first, end = self.nodes, self.groups.first[group], self.groups.end[group]
            found: list[object] = [self._texts(group)]
            inner = group + 1  # inner groups follow the group that contains them
            while inner < len(self.groups.first) and self.groups.first[inner] < end:
                found.append((self.groups.parent[inner] - group, *self._texts(inner)))
                inner += 1
            feeds = []
            for i in range(first, end):
                size = nodes.lines[i][:1]
                found.append((nodes.function[i], nodes.kind[i], nodes.form[i], size, nodes.flags[i] & ~OUTPUT))
                found.append((nodes.group[i] - group, nodes.rolled[i] - i, len(nodes.lines[i]), self.signature(i)))
                if self.view.comparison is not None:
                    found.append((self.view.comparison.mark[i], self.view.comparison.shade[i]))
                for edge in self.into[i]:
                    parent, argument = self.view.edges.parent[edge], self.view.edges.argument[edge]
                    if first <= parent < end:
                        found.append((parent - first, argument))
                    else:
                        feeds.append((i - first, argument, parent))
            self._shapes[group], self._feeds[group] = tuple(found), feeds
        return self._shapes[group]

    def _texts(self, group: int) -> tuple[str, str, str]:
        """The text of the box of a group, without its name."""
        return self.groups.class_name[group], self.groups.size[group], self.groups.parameters[group]

    def _inputs(self, group: int, previous: int) -> list[Feed]:
        """The inputs of a block relative to it: equal if it is fed in the same way as the previous block."""
        self._shape(group)
        low, high = (self.groups.first[previous], self.groups.end[previous]) if previous >= 0 else (0, 0)
        return [
            (at, argument, "before", parent - low) if low <= parent < high else (at, argument, "outside", parent)
            for at, argument, parent in self._feeds[group]
        ]

    def _has_same_readers(self, run: list[int]) -> bool:
        """Whether all blocks but the last feed the same nodes outside the run; else folding would hide edges."""
        groups, edges = self.groups, self.view.edges
        end = groups.end[run[-1]]
        given = set()
        for group in run[:-1]:
            first = groups.first[group]
            inside = range(first, groups.end[group])
            outside = {(i - first, _RETURNED) for i in inside if self.nodes.flags[i] & OUTPUT}
            outside |= {
                (i - first, edges.child[edge]) for i in inside for edge in self.out_of[i] if edges.child[edge] >= end
            }
            given.add(frozenset(outside))
        return len(given) == 1
