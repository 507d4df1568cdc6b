"""Two graphs as one: all of the second, what only the first has where it would have stood, and the rules of a graph."""

from __future__ import annotations

import json
from collections import OrderedDict
from functools import cache
from itertools import combinations

import pytest
import torch
from tests.layout.web import in_typescript
from tests.views.graphs import SOURCES, check_graph, random_fold
from tests.views.pictures import overlap
from tests.zoo import ZOO
from torch import Tensor, nn

import cutaway
from cutaway.graph.diff.align import align
from cutaway.graph.trace import Trace
from cutaway.layout.fold import fold, fold_to_depth
from cutaway.layout.graph_view import GraphView, plain
from cutaway.layout.place import place
from cutaway.views.diff.diff_graph import diff_fold, diff_view
from cutaway.views.graph.from_trace import graph_view

PAIRS = [
    ("mlp", "cnn"),
    ("cnn", "residual_stack"),
    ("residual_stack", "cnn"),
    ("cnn_training", "spectral_and_weight_norm"),
    ("odd_module_names", "checkpointed"),
    ("lstm_cell_loop", "residual_stack"),
    ("transformer_training", "transformer_fast_path"),
    ("nested", "kept_between_calls"),
    ("attention", "mixture_of_experts"),
    ("shared_modules", "deep_nesting"),
    ("in_place_through_views", "one_line"),
    ("containers_changed_later", "attention"),
]


@cache
def traced(name: str) -> Trace:
    model, args, kwargs = ZOO[name]()
    return cutaway.trace(model, *args, **kwargs)


def both_ways(pairs: list[tuple[str, str]]) -> list[tuple[str, str]]:
    return pairs + [(b, a) for a, b in pairs if (b, a) not in pairs]


@cache
def merged(names: tuple[str, str]) -> GraphView:
    return diff_view(cutaway.diff(*map(traced, names)))


def is_removed(view: GraphView, node: int) -> bool:
    assert view.comparison is not None
    return view.comparison.mark[node] == "removed"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("names", both_ways(PAIRS), ids=" to ".join)
def test_it_is_a_graph_as_that_of_a_trace(names: tuple[str, str]) -> None:
    view = merged(names)
    check_graph(view)
    inner = [0]
    for group in range(1, len(view.groups.parent)):  # in preorder: only groups that are still open go on
        while inner[-1] != view.groups.parent[group]:
            inner.pop()
        inner.append(group)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("names", both_ways(PAIRS), ids=" to ".join)
def test_all_of_the_second_is_there_as_it_was(names: tuple[str, str]) -> None:
    view, second = merged(names), graph_view(traced(names[1]))
    kept = [i for i in range(len(view.nodes.row)) if not is_removed(view, i)]
    ops = [view.nodes.row[i] for i in kept if view.nodes.kind[i] not in SOURCES]
    assert ops == [row for row, kind in zip(second.nodes.row, second.nodes.kind, strict=True) if kind not in SOURCES]
    assert sorted(view.nodes.row[i] for i in kept) == sorted(second.nodes.row)
    assert edges(view, view.nodes.row, set(kept)) == edges(second, second.nodes.row, set(range(len(second.nodes.row))))
    module = {row: second.groups.call[g] for row, g in zip(second.nodes.row, second.nodes.group, strict=True)}
    for i in kept:
        if view.nodes.kind[i] not in SOURCES:
            assert view.groups.call[view.nodes.group[i]] == module[view.nodes.row[i]]


def edges(view: GraphView, names: tuple[int, ...], nodes: set[int]) -> list[tuple[int, int, str]]:
    columns = zip(view.edges.parent, view.edges.child, view.edges.argument, strict=True)
    return sorted((names[a], names[b], argument) for a, b, argument in columns if {a, b} <= nodes)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("names", both_ways(PAIRS), ids=" to ".join)
def test_all_that_is_gone_is_there_with_all_its_edges(names: tuple[str, str]) -> None:
    a, b = map(traced, names)
    view, first, found = merged(names), graph_view(a), align(a, b)
    there = {mine: other for mine, other in (*found.ops, *found.sources) if mine >= 0 <= other}
    drawn = set(graph_view(b).nodes.row)
    labels = [
        label for label, row in zip(first.nodes.label, first.nodes.row, strict=True) if there.get(row, -1) not in drawn
    ]
    removed = [view.nodes.label[i].removeprefix("− ") for i in range(len(view.nodes.row)) if is_removed(view, i)]
    assert sorted(removed) == sorted(labels)
    label_of = {row: first.nodes.label[i] for i, row in enumerate(first.nodes.row)}
    name = [label if is_removed(view, i) else view.nodes.row[i] for i, label in enumerate(view.nodes.label)]
    shown = {(name[p], name[c]) for p, c in zip(view.edges.parent, view.edges.child, strict=True)}
    for parent, child in zip(first.edges.parent, first.edges.child, strict=True):
        ends = [first.nodes.row[parent], first.nodes.row[child]]
        names_there = [there[row] if there.get(row, -1) in drawn else f"− {label_of[row]}" for row in ends]
        if not all(isinstance(end, int) for end in names_there):
            assert tuple(names_there) in shown


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("names", PAIRS, ids=" to ".join)
def test_it_folds_at_every_depth_and_nothing_overlaps(names: tuple[str, str]) -> None:
    view = merged(names)
    folds = [fold_to_depth(view, depth, rolled=rolled) for depth in (0, 1, 2) for rolled in (False, True)]
    folds += [diff_fold(view, None), *(random_fold(view, seed) for seed in range(4))]
    for how in folds:
        picture = fold(view, how)
        assert how.rolled or all(edge.parent < edge.child for edge in picture.edges)
        placed = place(picture)
        for i, j in combinations(range(len(picture.boxes)), 2):
            assert not overlap(placed.boxes[i], placed.boxes[j])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", sorted({name for pair in PAIRS for name in pair} - {"transformer_training"}))
def test_a_trace_and_itself_are_its_own_graph(name: str) -> None:
    trace = traced(name)
    view, own = diff_view(cutaway.diff(trace, trace)), graph_view(trace)
    assert (view.nodes, view.groups, view.edges, view.runs) == (own.nodes, own.groups, own.edges, own.runs)
    assert view.comparison is not None
    assert set(view.comparison.mark) == {""}
    assert set(view.comparison.shade) == {0}


def test_what_is_gone_from_one_call_of_a_module_stands_in_that_call() -> None:
    class Twice(nn.Module):
        def __init__(self, shifts: tuple[bool, bool]) -> None:
            super().__init__()
            self.inner, self.shifts = Inner(), shifts

        def forward(self, x: Tensor) -> Tensor:
            for shift in self.shifts:
                x = self.inner(x, shift)
            return x

    class Inner(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(4, 4)

        def forward(self, x: Tensor, shift: bool) -> Tensor:
            x = self.linear(x)
            return torch.relu(x + 1 if shift else x)

    x = torch.ones(2, 4)
    view = diff_view(cutaway.diff(cutaway.trace(Twice((True, True)), x), cutaway.trace(Twice((True, False)), x)))
    (node,) = [i for i in range(len(view.nodes.row)) if is_removed(view, i)]
    assert view.groups.label[view.nodes.group[node]] == "inner:2"


def test_what_stood_between_two_ops_of_a_new_wrapper_stands_in_it() -> None:
    parts: dict[str, nn.Module] = {"up": nn.Linear(4, 4), "act": nn.ReLU(), "squash": nn.Tanh()}
    inner = nn.Sequential(OrderedDict(up=parts["up"], squash=parts["squash"]))
    models = nn.Sequential(OrderedDict(parts)), nn.Sequential(OrderedDict(inner=inner, head=nn.Linear(4, 4)))
    view = diff_view(cutaway.diff(*(cutaway.trace(model, torch.ones(2, 4)) for model in models)))
    (node,) = [i for i in range(len(view.nodes.row)) if is_removed(view, i)]
    assert view.nodes.label[node - 1 : node + 2] == ("linear_1_1", "− relu_1_2", "tanh_1_2")
    assert view.groups.label[view.nodes.group[node]] == "inner"


@pytest.mark.filterwarnings("ignore")
def test_the_browser_folds_it_in_the_same_way() -> None:
    views = [merged(names) for names in PAIRS[1:8]]
    cases = [(view, random_fold(view, seed)) for view in views for seed in range(4)]
    for (view, how), found in zip(cases, in_typescript([("fold", case) for case in cases]), strict=True):
        drawn = json.loads(json.dumps(plain(fold(view, how))))
        for part in ("boxes", "frames", "edges"):
            assert found[part] == drawn[part]
