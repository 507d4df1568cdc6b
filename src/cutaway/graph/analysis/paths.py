"""Paths between ops, and the critical path of a trace."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from cutaway.core.arrays import short_repr
from cutaway.core.errors import InputError, PathLimitError
from cutaway.core.formatting import plural
from cutaway.graph.analysis.cost_summary import Measure, weights
from cutaway.graph.analysis.reachability import best_chains, chain, downstream, upstream
from cutaway.graph.selection import Selection
from cutaway.graph.tables import OP

if TYPE_CHECKING:
    from cutaway.graph.trace import Trace


# No slots: `cached_property` needs a `__dict__`.
@dataclass(frozen=True, eq=False)
class Paths:
    """All paths from some ops to others, enumerated only when you iterate.

    A path has at least one edge. If the same tensor is passed as two arguments, they count as one edge. With several
    start or end ops, these are the paths of all pairs.
    """

    trace: Trace
    starts: tuple[int, ...]
    """Rows at which paths start."""
    ends: tuple[int, ...]
    """Rows at which they end."""
    most: int | None = 10_000
    """The number of paths after which iterating raises `PathLimitError`; None for no limit."""

    def __post_init__(self) -> None:
        if self.most is not None and (not isinstance(self.most, int) or self.most < 0):
            raise InputError(f"most must be a number of paths, or None for no limit, got {short_repr(self.most)}.")

    @property
    def ops(self) -> Selection:
        """Every op on any path, including both ends."""
        on = self._links
        reached = {parent for parents in on.values() for parent in parents}
        return Selection(self.trace, [node for node in sorted(on) if on[node] or node in reached])

    @cached_property
    def count(self) -> int:
        """The exact number of paths, computed without enumerating them."""
        # Python integers do not overflow: 200 residual blocks have 2**200 paths.
        starts, ways = set(self.starts), dict[int, int]()
        for node, parents in self._links.items():
            ways[node] = (node in starts) + sum(ways[parent] for parent in parents)
        return sum(ways[end] - (end in starts) for end in self.ends if end in ways)

    @property
    def shortest(self) -> Selection | None:
        """A path with the fewest ops; None if there is no path."""
        return self._best(dict.fromkeys(self._links, -1.0))

    def heaviest(self, by: Measure = "seconds") -> Selection | None:
        """The path with the most seconds, FLOPs or bytes in total; None if there is no path."""
        nodes = list(self._links)
        return self._best(dict(zip(nodes, weights(self.trace, nodes, by), strict=True)))

    def _best(self, weight: dict[int, float]) -> Selection | None:
        links, starts = self._links, set(self.starts)
        total, before = best_chains(links, weight, starts)
        arriving: list[tuple[float, int, int]] = []
        for end in self.ends:
            known = [parent for parent in links.get(end, ()) if parent in total]
            if known:
                parent = max(known, key=total.__getitem__)
                arriving.append((total[parent] + weight[end], end, parent))
        if not arriving:
            return None
        _, end, parent = max(arriving, key=lambda entry: entry[0])
        return Selection(self.trace, [*chain(parent, before), end])

    @cached_property
    def _links(self) -> dict[int, list[int]]:
        """Row on a path → its parents on a path, in order."""
        parents = self.trace.tables.nodes.parents
        below = downstream(self.trace.op_nodes, parents, self.starts)
        above = upstream(parents, self.ends)
        for node in self.starts:
            below[node] = 1
        for node in self.ends:
            above[node] = 1
        links: dict[int, list[int]] = {}
        for node, (is_below, is_above) in enumerate(zip(below, above, strict=True)):
            if is_below and is_above:
                links[node] = [parent for parent in dict.fromkeys(parents[node]) if parent in links]
        return links

    def __iter__(self) -> Iterator[Selection]:
        children: dict[int, list[int]] = {}
        for node, parents in self._links.items():
            for parent in parents:
                children.setdefault(parent, []).append(node)
        ends, given = set(self.ends), 0
        for start in sorted(set(self.starts) & self._links.keys()):
            # An explicit stack, because a path can be longer than Python's recursion limit.
            path, branches = [start], [iter(children.get(start, ()))]
            while branches:
                node = next(branches[-1], -1)
                if node < 0:
                    branches.pop()
                    path.pop()
                    continue
                path.append(node)
                branches.append(iter(children.get(node, ())))
                if node in ends:
                    if given == self.most:
                        raise PathLimitError(
                            f"found {plural(self.count, 'path')}, more than the limit of {given:,}: take "
                            "fewer with itertools.islice, use .count, .ops or .shortest, or set "
                            "trace.paths(…, most=None)."
                        )
                    given += 1
                    yield Selection(self.trace, list(path))

    def __bool__(self) -> bool:
        return self.count > 0

    def __repr__(self) -> str:
        shortest = self.shortest
        if shortest is None:
            return "<no paths>"
        return f"<{plural(self.count, 'path')} over {len(self.ops)} ops, the shortest of {len(shortest)}>"


def critical_path(trace: Trace, by: Measure) -> Selection:
    """The heaviest chain of ops that ends in an output; without outputs, in any op."""
    nodes, kinds = trace.tables.nodes, trace.tables.nodes.kind
    listed = set(trace.op_nodes)
    links = {node: [p for p in dict.fromkeys(nodes.parents[node]) if p in listed] for node in trace.op_nodes}
    weight = dict(zip(links, weights(trace, list(links), by), strict=True))
    total, before = best_chains(links, weight, {node for node, parents in links.items() if not parents})
    ends = [node for _, node in trace.tables.outputs if kinds[node] == OP and node in listed]
    ends = ends or ([] if trace.tables.outputs else list(links))
    return Selection(trace, chain(max(ends, key=total.__getitem__), before) if ends else [])
