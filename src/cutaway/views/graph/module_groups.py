"""The module calls that can be frames or folded boxes, and how they are nested."""

from __future__ import annotations

from collections.abc import Iterable

from cutaway.graph.tables import OP
from cutaway.graph.trace import Trace


class Groups:
    """The module calls with more than one op, numbered in the order of their calls; 0 is the whole picture.

    A call that contains all ops is the whole picture, not a group: the header names the model already.
    """

    def __init__(self, trace: Trace) -> None:
        rows, self._of_node = trace.tables.calls, trace.tables.nodes.call
        n = len(rows)
        failed = trace.tables.failed_op
        calls_of_ops = [self._of_node[row] for row in trace.op_nodes] + ([failed.call] if failed else [])
        self.n_ops = [0] * n
        """Call → number of ops in it."""
        first, last = [len(calls_of_ops)] * n, [-1] * n
        for position, call in enumerate(calls_of_ops):
            while call:
                self.n_ops[call] += 1
                first[call], last[call] = min(first[call], position), position
                call = rows[call].parent
        self.call, self.parent, self.depth = [0], [-1], [-1]
        """Group → its call, its parent group, and its nesting depth in calls."""
        self.of_call = [0] * n
        """Call → its innermost group."""
        depth = [-1] * n
        for call in range(1, n):
            above = rows[call].parent
            depth[call] = depth[above] + 1
            self.of_call[call] = self.of_call[above]
            # Calls in parallel threads interleave their ops: folding two such calls could make a cycle.
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
        """The innermost group that contains all of these."""
        common = -1
        for group in groups:
            if common < 0:
                common = group
            while group != common:  # a group has a higher number than its parent
                if group > common:
                    group = self.parent[group]
                else:
                    common = self.parent[common]
        return max(common, 0)

    def rolled(self, trace: Trace) -> tuple[list[int], list[int]]:
        """For each group, the group that represents all passes of its module in a loop, and its pass."""
        table, calls = trace.tables.nodes, trace.tables.calls
        first_pass, pass_, n_passes = list(range(len(self.call))), [1] * len(self.call), [1] * len(self.call)
        known: set[tuple[int, int]] = set()
        for row in trace.op_nodes:
            first = trace.rolled.nodes_of(row)[0] if table.kind[row] == OP else row
            here, there = self.of_row(first), self.of_row(row)
            # Each pair of groups is compared once, however many ops it has.
            while here != there and here and there and (here, there) not in known:
                known.add((here, there))
                if calls[self.call[here]].module != calls[self.call[there]].module or first_pass[here] != here:
                    break
                if first_pass[there] == there:
                    n_passes[here] += 1
                    first_pass[there], pass_[there] = here, n_passes[here]
                here, there = self.parent[here], self.parent[there]
        return first_pass, pass_
