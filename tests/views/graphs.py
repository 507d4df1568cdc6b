"""What holds for every graph that a view shows, and ways to fold it at random."""

from __future__ import annotations

import random

from cutaway.layout.graph_view import Fold, GraphView

SOURCES = ("input", "buffer", "constant")


def check_graph(view: GraphView) -> None:
    """Parents first, the nodes of a group together, groups in the order they were entered, columns of one length."""
    nodes, groups, edges = view.nodes, view.groups, view.edges
    n, n_groups = len(nodes.row), len(groups.parent)
    for name in ("label", "lines", "kind", "form", "flags", "group", "function", "site", "event", "rolled", "pass_"):
        assert len(getattr(nodes, name)) == n, name
    for name in groups.__dataclass_fields__:
        assert len(getattr(groups, name)) == n_groups, name
    assert all(len(measure.values) == n for measure in view.measures)
    assert len(edges.parent) == len(edges.child) == len(edges.argument)
    assert all(parent < child for parent, child in zip(edges.parent, edges.child, strict=True))
    assert all(parent < group for group, parent in enumerate(groups.parent))
    for group in range(n_groups):
        inside = [i for i in range(n) if group in path(view, nodes.group[i])]
        assert inside == list(range(groups.first[group], groups.end[group])), group
    assert all(rep <= i and nodes.rolled[rep] == rep for i, rep in enumerate(nodes.rolled))
    assert all(rep <= i and groups.rolled[rep] == rep for i, rep in enumerate(groups.rolled))
    for number, run in enumerate(view.runs):
        assert [groups.run[group] for group in run.groups] == [number] * len(run.groups)
        assert [groups.place[group] for group in run.groups] == list(range(len(run.groups)))
        assert len({groups.parent[group] for group in run.groups}) == 1
        assert len({groups.end[group] - groups.first[group] for group in run.groups}) == 1


def path(view: GraphView, group: int) -> list[int]:
    """A group and all around it, the innermost first."""
    found = [group]
    while view.groups.parent[found[-1]] >= 0:
        found.append(view.groups.parent[found[-1]])
    return found


def random_fold(view: GraphView, seed: int) -> Fold:
    rng = random.Random(seed)
    share = rng.choice((0.3, 0.6, 0.9, 1.0))
    opened = frozenset([0] + [group for group in range(1, len(view.groups.parent)) if rng.random() < share])
    apart = frozenset(run for run in range(len(view.runs)) if rng.random() < 0.5)
    return Fold(opened, rng.random() < 0.5, apart)
