"""Runs of identical blocks in a graph: `h.0` to `h.23`, which a picture shows once, ×24."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

from cutaway.layout.graph_view import OUTPUT, BlockRun, GraphView

_FEWEST = 3
"""Two blocks alike are as quickly read as one with a sign that there are two."""

_RETURNED = -1
"""Stands for whoever called the model."""

Shape = tuple[object, ...]
Feed = tuple[int, str, str, int]
"""What comes into a block: which of its nodes takes it, as what, from the block "before" or "outside", which node."""


def with_runs(view: GraphView, likeness: Callable[[int], object]) -> GraphView:
    """The same graph, with the runs of identical blocks that it holds.

    Args:
        likeness: by node, all that is not in the graph and must be the same in identical blocks.
    """
    finder = _Finder(view, likeness)
    runs: list[BlockRun] = []
    run, place = list(view.groups.run), list(view.groups.place)
    for blocks in finder.found():
        for at, group in enumerate(blocks):
            run[group], place[group] = len(runs), at
        runs.append(BlockRun(tuple(blocks), _label(view.groups.label[blocks[0]], view.groups.label[blocks[-1]])))
    return replace(view, runs=tuple(runs), groups=replace(view.groups, run=tuple(run), place=tuple(place)))


def _label(first: str, last: str) -> str:
    """From the first to the last, what they have in common said once.

    >>> _label("model.h.0", "model.h.11")
    'model.h.0 … 11'
    """
    home, _, name = last.rpartition(".")
    return f"{first} … {name if first.rpartition('.')[0] == home else last}"


class _Finder:
    def __init__(self, view: GraphView, likeness: Callable[[int], object]) -> None:
        self.view, self.nodes, self.groups = view, view.nodes, view.groups
        self.likeness = cache(likeness)
        self.into: list[list[int]] = [[] for _ in self.nodes.row]
        self.out_of: list[list[int]] = [[] for _ in self.nodes.row]
        for edge, (parent, child) in enumerate(zip(view.edges.parent, view.edges.child, strict=True)):
            self.into[child].append(edge)
            self.out_of[parent].append(edge)
        self._shapes: dict[int, Shape] = {}
        self._feeds: dict[int, list[tuple[int, str, int]]] = {}

    def found(self) -> list[list[int]]:
        """Each run as its groups, in order of their first blocks."""
        children: dict[int, list[int]] = {}
        for group, parent in enumerate(self.groups.parent):
            if group:
                children.setdefault(parent, []).append(group)
        runs = []
        for groups in children.values():
            at: list[int] = []
            for group in [*groups, -1]:
                if at and group >= 0 and self._goes_on(at, group):
                    at.append(group)
                    continue
                if len(at) >= _FEWEST and self._is_one(at):
                    runs.append(at)
                at = [group]
        return sorted(runs)

    def _goes_on(self, at: list[int], group: int) -> bool:
        """Whether a group is the next block of a run."""
        groups, last = self.groups, at[-1]
        if groups.first[group] != groups.end[last] or groups.class_name[group] != groups.class_name[last]:
            return False
        if groups.end[group] - groups.first[group] != groups.end[last] - groups.first[last]:
            return False
        if self._shape(group) != self._shape(last):
            return False
        before, after = self._fed(last, at[-2] if len(at) > 1 else -1), self._fed(group, last)
        if len(at) > 1:
            return before == after
        return [feed[:2] for feed in before] == [feed[:2] for feed in after]

    def _shape(self, group: int) -> Shape:
        """What is in a block, and how it hangs together; the same for identical blocks."""
        if group not in self._shapes:
            nodes, first, end = self.nodes, self.groups.first[group], self.groups.end[group]
            found: list[object] = [self._said(group)]
            inner = group + 1  # what is inside a group follows it
            while inner < len(self.groups.first) and self.groups.first[inner] < end:
                found.append((self.groups.parent[inner] - group, *self._said(inner)))
                inner += 1
            feeds = []
            for i in range(first, end):
                size = nodes.lines[i][:1]
                found.append((nodes.function[i], nodes.kind[i], nodes.form[i], size, nodes.flags[i] & ~OUTPUT))
                found.append((nodes.group[i] - group, nodes.rolled[i] - i, len(nodes.lines[i]), self.likeness(i)))
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

    def _said(self, group: int) -> tuple[str, str, str]:
        """What a box says of a group, but for its name."""
        return self.groups.class_name[group], self.groups.size[group], self.groups.parameters[group]

    def _fed(self, group: int, previous: int) -> list[Feed]:
        """All that comes into a block, seen from it: the same where it is fed as its neighbor is."""
        self._shape(group)
        low, high = (self.groups.first[previous], self.groups.end[previous]) if previous >= 0 else (0, 0)
        return [
            (at, argument, "before", parent - low) if low <= parent < high else (at, argument, "outside", parent)
            for at, argument, parent in self._feeds[group]
        ]

    def _is_one(self, run: list[int]) -> bool:
        """Whether all blocks but the last give the same to the same others: else folding would hide who reads what."""
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
