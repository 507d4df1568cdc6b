"""The node or group that represents each node of a folded graph: one pass for a loop, one block for a run."""

from __future__ import annotations

from cutaway.layout.graph_view import Fold, GraphView

_INPUT = "input"


class Representatives:
    """For every node, the node and the folded group that represent it."""

    def __init__(self, view: GraphView, how: Fold) -> None:
        self._view, self._nodes, self._groups, self._how = view, view.nodes, view.groups, how
        groups = view.groups
        n = len(groups.parent)
        self._shift = [0] * n
        """Group → offset from its nodes to those of the block that represents it."""
        self._block = list(range(n))
        """Group → the corresponding group in the block that represents its run."""
        self._run = [-1] * n
        """Group → the run of blocks that it is folded with; -1 for none."""
        for group in range(1, n):
            above = groups.parent[group]
            # A group comes after its parent, so the parent's block is known.
            here = group + self._block[above] - above
            run = groups.run[here]
            if run >= 0 and run not in how.apart:
                self._run[group] = run
                here = view.runs[run].groups[0]
            self._block[group] = here
            self._shift[group] = groups.first[here] - groups.first[group]
        self._instance = [-1] * n
        """Group → the group on its path that is folded into a box, itself or by its representative; -1 for none."""
        for group in range(n):
            above = groups.parent[group]
            if above >= 0 and self._instance[above] >= 0:
                self._instance[group] = self._instance[above]
            elif self._representative(group) not in how.open:
                self._instance[group] = group
        self._n_passes: dict[int, int] = {}
        self._n_calls: dict[int, int] = {}
        if how.rolled:
            for node in view.nodes.rolled:
                self._n_passes[node] = self._n_passes.get(node, 0) + 1
            for group in groups.rolled:
                self._n_calls[group] = self._n_calls.get(group, 0) + 1

    def _representative(self, group: int) -> int:
        """The group whose open or folded state applies to it."""
        return self._block[self._groups.rolled[group] if self._how.rolled else group]

    def node(self, node: int) -> int:
        """The node that represents it."""
        first = self._nodes.rolled[node] if self._how.rolled else node
        return first + self._shift[self._nodes.group[first]]

    def folded_of(self, node: int) -> int:
        """The folded group that represents it; -1 if it has its own box."""
        group = self._nodes.group[self.node(node)]
        # Inputs stay visible even if the whole model is one box.
        return -1 if not group and self._nodes.kind[node] == _INPUT else self._instance[group]

    def is_hidden(self, a: int, b: int) -> bool:
        """Whether two nodes are in the same folded call of a group, so that an edge between them is hidden."""
        groups = self._nodes.group
        return self._instance[groups[a]] >= 0 and self._instance[groups[a]] == self._instance[groups[b]]

    def joins_blocks(self, parent: int, child: int) -> bool:
        """Whether an edge connects two blocks of a run that is drawn once."""
        upper, lower = self._nodes.group[parent], self._nodes.group[child]
        a = b = -1
        # A group has a higher index than its parent, so the larger of two does not contain the other.
        while upper != lower:
            if upper > lower:
                a, upper = upper, self._groups.parent[upper]
            else:
                b, lower = lower, self._groups.parent[lower]
        return a >= 0 and b >= 0 and self._run[a] >= 0 and self._run[a] == self._run[b]

    def pass_of(self, node: int) -> tuple[int, int]:
        """The pass of a node within its box, and the number of passes."""
        folded = self.folded_of(node)
        if folded >= 0:
            instance = self._instance[self._nodes.group[node]]
            return (self._groups.pass_[instance] if instance >= 0 else 1), self.n_calls(folded)
        return self._nodes.pass_[node], self.n_passes(self._nodes.rolled[node])

    def n_passes(self, node: int) -> int:
        """How many passes a node represents."""
        return self._n_passes.get(node, 1)

    def n_calls(self, group: int) -> int:
        """How many calls of its module a group represents."""
        return self._n_calls.get(group, 1)

    def stack(self, group: int) -> int:
        """How many identical blocks a group represents."""
        return len(self._view.runs[self._run[group]].groups) if self._run[group] >= 0 else 1
