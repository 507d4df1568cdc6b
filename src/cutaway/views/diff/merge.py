"""Merges two graph views: the second one, with the removed nodes of the first inserted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from cutaway.core.formatting import short
from cutaway.layout.graph_view import EdgeColumns, GraphView, GroupColumns, Kind, NodeColumns
from cutaway.views.diff.removed_nodes import SOURCES, Item, Matches, MergePlan


def merge_views(old: GraphView, new: GraphView, matches: Matches) -> tuple[GraphView, dict[int, int]]:
    """The merged view, and its removed nodes: index in the merged view → node of the first view.

    A removed node is placed in its group, after the op that it ran after. A group that was removed as a whole stays a
    group, and so do many removed ops in a row.
    """
    plan = MergePlan(old, new, matches)
    plan.make()
    return _Columns(plan).view(), {i: node for i, (side, node) in enumerate(plan.nodes) if side == "old"}


class _Columns:
    """Builds the columns of the merged view from a plan."""

    def __init__(self, plan: MergePlan) -> None:
        self.plan, self.old, self.new = plan, plan.old, plan.new
        self.node_at = {item: i for i, item in enumerate(plan.nodes)}
        self.group_at = {item: i for i, item in enumerate(plan.groups)}

    def view(self) -> GraphView:
        return replace(self.new, nodes=self.nodes(), groups=self.groups(), runs=(), edges=self.edges())

    def of(self, side: str) -> GraphView:
        return self.old if side in ("old", "was") else self.new

    def nodes(self) -> NodeColumns:
        new, plan = self.new.nodes, self.plan
        taken = [(self.of(side).nodes, side == "old", i) for side, i in plan.nodes]
        self.rolled_groups, self.group_passes = self._rolled_groups()
        rolled, pass_ = self._rolled_nodes()
        lines = {self.node_at["node", i]: lines for i, lines in new.rolled_lines.items()}
        for i, (of, is_old, node) in enumerate(taken):
            if is_old and of.rolled[node] in of.rolled_lines and rolled[i] != i:
                lines[rolled[i]] = of.rolled_lines[of.rolled[node]]
        plain: Kind = "plain"
        return NodeColumns(
            row=tuple(-1 if is_old else of.row[i] for of, is_old, i in taken),
            label=tuple(of.label[i] for of, _, i in taken),
            lines=tuple(of.lines[i] for of, _, i in taken),
            kind=tuple(plain if is_old and of.kind[i] not in SOURCES else of.kind[i] for of, is_old, i in taken),
            form=tuple(of.form[i] for of, _, i in taken),
            flags=tuple(0 if is_old else of.flags[i] for of, is_old, i in taken),
            group=tuple(plan.group_of),
            function=tuple(of.function[i] for of, _, i in taken),
            site=tuple(of.site[i] for of, _, i in taken),
            event=tuple(self._events()),
            rolled=tuple(rolled),
            pass_=tuple(pass_),
            rolled_lines=lines,
            outputs=tuple((path, self.node_at["node", i]) for path, i in new.outputs),
        )

    def _events(self) -> Iterator[int]:
        first: dict[Item, int] = {}
        for i, (side, node) in enumerate(self.plan.nodes):
            yield first.setdefault((side, self.of(side).nodes.event[node]), i)

    def _rolled_nodes(self) -> tuple[list[int], list[int]]:
        """Removed passes are rolled up only with other removed passes in the same rolled group."""
        rolled: list[int] = []
        pass_: list[int] = []
        met: dict[tuple[int, int], list[int]] = {}
        for i, (side, node) in enumerate(self.plan.nodes):
            nodes = self.of(side).nodes
            if side == "node":
                rolled.append(self.node_at["node", nodes.rolled[node]])
                pass_.append(nodes.pass_[node])
                continue
            alike = met.setdefault((nodes.rolled[node], self.rolled_groups[self.plan.group_of[i]]), [])
            alike.append(i)
            rolled.append(alike[0])
            pass_.append(len(alike))
        return rolled, pass_

    def _rolled_groups(self) -> tuple[list[int], list[int]]:
        rolled: list[int] = []
        pass_: list[int] = []
        met: dict[tuple[int, int], list[int]] = {}
        for i, (side, group) in enumerate(self.plan.groups):
            if side == "group":
                rolled.append(self.group_at["group", self.new.groups.rolled[group]])
                pass_.append(self.new.groups.pass_[group])
                continue
            key = (self.old.groups.rolled[group], rolled[self.plan.parent_of[i]]) if side == "was" else (-1, i)
            alike = met.setdefault(key, [])
            alike.append(i)
            rolled.append(alike[0])
            pass_.append(len(alike))
        return rolled, pass_

    def groups(self) -> GroupColumns:
        plan = self.plan
        n = len(plan.groups)
        first, end = [len(plan.nodes)] * n, [0] * n
        for i, group in enumerate(plan.group_of):
            while group >= 0:
                first[group], end[group] = min(first[group], i), i + 1
                group = plan.parent_of[group]
        depth: list[int] = []
        for i, (side, group) in enumerate(plan.groups):
            depth.append(self.new.groups.depth[group] if side == "group" else depth[plan.parent_of[i]] + 1)
        plain: Kind = "plain"
        taken = [(self.of(side).groups if side != "stretch" else None, i) for side, i in plan.groups]
        is_old = [side != "group" for side, _ in plan.groups]
        return GroupColumns(
            parent=tuple(plan.parent_of),
            label=tuple(of.label[i] if of else self._stretch(i)[0] for of, i in taken),
            rolled_label=tuple(of.rolled_label[i] if of else self._stretch(i)[0] for of, i in taken),
            class_name=tuple(of.class_name[i] if of else self._stretch(i)[1] for of, i in taken),
            size=tuple(of.size[i] if of else "" for of, i in taken),
            parameters=tuple(of.parameters[i] if of else "" for of, i in taken),
            kind=tuple(of.kind[i] if of else plain for of, i in taken),
            flags=tuple(0 if old or of is None else of.flags[i] for (of, i), old in zip(taken, is_old, strict=True)),
            depth=tuple(depth),
            first=tuple(first),
            end=tuple(end),
            n_ops=tuple(of.n_ops[i] if of else len(self._ops(i)) for of, i in taken),
            rolled=tuple(self.rolled_groups),
            pass_=tuple(self.group_passes),
            run=(-1,) * n,
            place=(0,) * n,
            call=tuple(-1 if old or of is None else of.call[i] for (of, i), old in zip(taken, is_old, strict=True)),
        )

    def _ops(self, stretch: int) -> list[int]:
        return [node for node in self.plan.stretches[stretch] if self.old.nodes.kind[node] not in SOURCES]

    def _stretch(self, stretch: int) -> tuple[str, str]:
        """Label and class name of a stretch: many removed ops in a row."""
        ops, labels = self._ops(stretch), self.old.nodes.label
        return f"{len(ops):,} ops removed", short(f"{labels[ops[0]]} to {labels[ops[-1]]}")

    def edges(self) -> EdgeColumns:
        """The edges of the second graph, and those of removed nodes."""
        edges = self.new.edges
        branch_starts = set(edges.branch_starts)
        rows = [
            (self.node_at["node", upper], self.node_at["node", lower], argument, i in branch_starts)
            for i, (upper, lower, argument) in enumerate(zip(edges.parent, edges.child, edges.argument, strict=True))
        ]
        rows += [(upper, lower, argument, False) for upper, lower, argument in self._removed_edges()]
        # By child, as in the view of a trace; the sort is stable, so the order of arguments stays.
        rows.sort(key=lambda row: row[1])
        parent, child, argument, _ = zip(*rows, strict=True) if rows else ((), (), (), ())
        return EdgeColumns(parent, child, argument, tuple(i for i, row in enumerate(rows) if row[3]))

    def _removed_edges(self) -> Iterator[tuple[int, int, str]]:
        edges, known = self.old.edges, set()
        for upper, lower, argument in zip(edges.parent, edges.child, edges.argument, strict=True):
            if upper not in self.plan.units and lower not in self.plan.units:
                continue
            above, below = self._merged_index(upper), self._merged_index(lower)
            is_labeled = lower in self.plan.units  # a kept child has another argument now: no label
            if 0 <= above < below and (is_labeled or (above, below) not in known):
                known.add((above, below))
                yield above, below, argument if is_labeled else ""

    def _merged_index(self, node: int) -> int:
        """The index of a node of the first graph in the merged one; -1 for the op that failed."""
        if node in self.plan.units:
            return self.node_at["old", node]
        return self.node_at["node", self.plan.matches.nodes[node]] if node in self.plan.matches.nodes else -1
