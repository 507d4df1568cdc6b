"""Which module calls can be frames of a picture, or be folded into a box, and how they lie within each other."""

from __future__ import annotations

from collections.abc import Iterable

from cutaway.graph.tables import OP
from cutaway.graph.trace import Trace


class Groups:
    """The module calls with more than one op, numbered as they were entered; 0 is the whole picture.

    A call around everything is the whole picture itself: the header names the model already.
    """

    def __init__(self, trace: Trace) -> None:
        rows, self._of_node = trace.tables.calls, trace.tables.nodes.call
        n = len(rows)
        failed = trace.tables.failed_op
        calls_of_ops = [self._of_node[row] for row in trace.op_nodes] + ([failed.call] if failed else [])
        self.n_ops = [0] * n
        """By call: how many ops ran in it."""
        first, last = [len(calls_of_ops)] * n, [-1] * n
        for position, call in enumerate(calls_of_ops):
            while call:
                self.n_ops[call] += 1
                first[call], last[call] = min(first[call], position), position
                call = rows[call].parent
        self.call, self.parent, self.depth = [0], [-1], [-1]
        """By group: number of its call, the group around it, and how many calls are around it."""
        self.of_call = [0] * n
        """By call: the innermost group."""
        depth = [-1] * n
        for call in range(1, n):
            above = rows[call].parent
            depth[call] = depth[above] + 1
            self.of_call[call] = self.of_call[above]
            # Calls in parallel threads mix their ops: two such boxes could each need what the other makes.
            if not last[call] - first[call] + 1 == self.n_ops[call] > 1:
                continue
            if self.n_ops[call] == len(calls_of_ops) and self.call == [0]:
                self.call, self.depth = [call], [depth[call]]
            else:
                self.of_call[call] = len(self.call)
                self.call.append(call)
                self.parent.append(self.of_call[above])
                self.depth.append(depth[call])

    def of_row(self, row: int) -> int:
        """The innermost group of an op."""
        return self.of_call[self._of_node[row]]

    def common(self, groups: Iterable[int]) -> int:
        """The innermost group around all of these."""
        found = -1
        for group in groups:
            if found < 0:
                found = group
            while group != found:  # a group has a higher number than what is around it
                if group > found:
                    group = self.parent[group]
                else:
                    found = self.parent[found]
        return max(found, 0)

    def rolled(self, trace: Trace) -> tuple[list[int], list[int]]:
        """For each group the one that stands for all runs of its module in a loop, and its number among these."""
        table, calls = trace.tables.nodes, trace.tables.calls
        standing, pass_, n_passes = list(range(len(self.call))), [1] * len(self.call), [1] * len(self.call)
        known: set[tuple[int, int]] = set()
        for row in trace.op_nodes:
            first = trace.rolled.nodes_of(row)[0] if table.kind[row] == OP else row
            here, there = self.of_row(first), self.of_row(row)
            while here != there and here and there and (here, there) not in known:
                known.add((here, there))
                if calls[self.call[here]].module != calls[self.call[there]].module or standing[here] != here:
                    break
                if standing[there] == there:
                    n_passes[here] += 1
                    standing[there], pass_[there] = here, n_passes[here]
                here, there = self.parent[here], self.parent[there]
        return standing, pass_
