"""Folding: what is shown is the graph with parts of it drawn together, and nothing is lost or made up."""

from __future__ import annotations

import pytest
import torch
from tests.layout.test_repeated_blocks import Block
from tests.views.graphs import path, random_fold
from tests.zoo import ZOO
from torch import Tensor, nn

import cutaway
from cutaway.core.errors import InputError
from cutaway.layout.fold import fold, fold_to_depth
from cutaway.layout.graph_view import Fold, GraphView
from cutaway.layout.picture import Picture
from cutaway.views.graph.from_trace import graph_view, picture

X = torch.linspace(-1, 1, 8).reshape(2, 4)
MODELS = ["bert", "t5", "gpt2", "lstm_cell_loop", "cnn", "attention", "shared_modules", "moe_router"]
MODELS = [name for name in MODELS if name in ZOO]


def view_of(name: str) -> GraphView:
    model, args, kwargs = ZOO[name]()
    return graph_view(cutaway.trace(model, *args, **kwargs))


def links(drawn: Picture) -> set[tuple[str, str]]:
    """The edges between boxes by their keys, those of stand-ins as those of what they stand for."""
    boxes = drawn.boxes
    return {
        (upper, boxes[edge.child].key)
        for edge in drawn.edges
        for upper in boxes[edge.parent].stands_for or (boxes[edge.parent].key,)
    }


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", MODELS)
def test_edges_between_boxes_are_the_edges_between_what_is_in_them(name: str, seed: int) -> None:
    view = view_of(name)
    how = random_fold(view, seed)
    how = Fold(how.open, False, frozenset(range(len(view.runs))))

    def box(node: int) -> str:
        around = path(view, view.nodes.group[node])
        closed = [group for group in around if group not in how.open]
        return f"g{closed[-1]}" if closed else f"n{view.nodes.event[node]}"

    wanted = {(box(p), box(c)) for p, c in zip(view.edges.parent, view.edges.child, strict=True)}
    drawn = fold(view, how)
    assert links(drawn) == {(upper, lower) for upper, lower in wanted if upper != lower}
    assert {b.key for b in drawn.boxes if not b.stands_for} == {box(i) for i in range(len(view.nodes.row))}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", MODELS)
def test_boxes_stand_parents_first_and_those_of_a_frame_together(name: str) -> None:
    view = view_of(name)
    for seed in range(6):
        how = random_fold(view, seed)
        drawn = fold(view, how)
        assert len({box.key for box in drawn.boxes}) == len(drawn.boxes)
        assert how.rolled or all(edge.parent < edge.child for edge in drawn.edges)
        for number in range(1, len(drawn.frames)):
            inside = [i for i, box in enumerate(drawn.boxes) if number in _around(drawn, box.frame)]
            assert inside == list(range(inside[0], inside[-1] + 1))


def _around(drawn: Picture, frame: int) -> list[int]:
    found = [frame]
    while drawn.frames[found[-1]].parent >= 0:
        found.append(drawn.frames[found[-1]].parent)
    return found


def stack_of_blocks(n: int = 5) -> GraphView:
    return graph_view(cutaway.trace(nn.Sequential(nn.Linear(4, 4), *(Block() for _ in range(n)), nn.Tanh()), X))


def test_identical_blocks_are_one_box_and_open_as_one_block() -> None:
    view = stack_of_blocks()
    shut = fold(view, Fold(frozenset({0})))
    (box,) = [box for box in shut.boxes if box.stack > 1]
    assert (box.stack, box.lines[:3]) == (5, ("1 … 5 ×5", "Block", "4 ops each"))
    assert [b.lines[0] for b in shut.boxes] == ["input_1", "linear_1_1", "1 … 5 ×5", "tanh_1_22"]
    assert links(shut) == {("n0", "n1"), ("n1", box.key), (box.key, "n22")}
    opened = fold(view, Fold(frozenset({0, box.group})))
    assert [(frame.title, frame.stack) for frame in opened.frames[1:]] == [("1 … 5 ×5 (Block)", 5)]
    assert [b.lines[0] for b in opened.boxes] == [
        *("input_1", "linear_1_1", "linear_2_2", "relu_1_3", "linear_3_4", "add_1_5", "tanh_1_22")
    ]
    inside = {("n1", "n2"), ("n2", "n3"), ("n3", "n4"), ("n4", "n5"), ("n1", "n5")}
    assert links(opened) == {("n0", "n1"), *inside, ("n5", "n22")}


def test_identical_blocks_can_be_drawn_one_by_one() -> None:
    view = stack_of_blocks()
    apart = fold(view, Fold(frozenset({0}), apart=frozenset({0})))
    assert [box.lines[0] for box in apart.boxes] == ["input_1", "linear_1_1", "1", "2", "3", "4", "5", "tanh_1_22"]
    assert all(box.stack == 1 for box in apart.boxes)


def nested_runs() -> GraphView:
    model = nn.Sequential(*(nn.Sequential(*(Block() for _ in range(3))) for _ in range(4)))
    return graph_view(cutaway.trace(model, X))


def test_runs_within_runs_fold_both() -> None:
    view = nested_runs()
    drawn = fold(view, Fold(frozenset(range(len(view.groups.parent)))))
    assert [frame.stack for frame in drawn.frames] == [1, 4, 3]
    assert len(drawn.boxes) == 1 + 4
    assert drawn.boxes[-1].is_output


def test_a_loop_rolls_up_with_its_passes_at_the_edges() -> None:
    class Loop(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cell = nn.Sequential(nn.Linear(4, 4), nn.Tanh())

        def forward(self, x: Tensor) -> Tensor:
            for _ in range(3):
                x = self.cell(x)
            return x

    view = graph_view(cutaway.trace(Loop(), X))
    drawn = fold(view, Fold(frozenset({0}), rolled=True))
    assert [box.lines[0] for box in drawn.boxes] == ["input_1", "cell (×3)"]
    assert {(edge.parent, edge.child, edge.label) for edge in drawn.edges} == {(0, 1, "In 1"), (1, 1, "Out 1–2 In 2–3")}
    opened = fold(view, Fold(frozenset({0, 1}), rolled=True))
    assert [box.lines[0] for box in opened.boxes] == ["input_1", "linear_1_1 (×3)", "tanh_1_2 (×3)"]


def test_a_tensor_with_very_many_users_gets_stand_ins() -> None:
    class Crowd(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            scale = x.sum()
            for i in range(12):
                x = torch.sin(x) * scale if i % 2 else torch.cos(x) * scale
            return x

    drawn = picture(cutaway.trace(Crowd(), X))
    standins = [box for box in drawn.boxes if box.kind == "standin"]
    assert len(standins) == 12
    assert {box.lines for box in standins} == {("sum_1_1",)}
    (source,) = [box for box in drawn.boxes if box.lines[0] == "sum_1_1" and not box.stands_for]
    assert source.lines[-1] == "feeds 12 ops"
    assert all(box.stands_for == (source.key,) for box in standins)


def test_depth_zero_is_the_model_as_one_box() -> None:
    drawn = picture(cutaway.trace(nn.Sequential(nn.Linear(4, 4), nn.ReLU()), X), depth=0)
    assert [box.lines[0] for box in drawn.boxes] == ["input_1", "Sequential"]
    with pytest.raises(InputError, match="depth must be at least 0"):
        fold_to_depth(stack_of_blocks(), -1)


def test_a_model_among_other_ops_goes_by_its_class_and_not_by_a_dot() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    with cutaway.watch(model) as trace:
        model(torch.randn(2, 4)).sum()
    view = graph_view(trace)
    opened = fold(view, fold_to_depth(view, None))
    assert [frame.title for frame in opened.frames[1:]] == ["Sequential"]
    folded = fold(view, fold_to_depth(view, 0))
    assert [box.lines[:2] for box in folded.boxes if box.form == "folded"] == [("Sequential", "2 ops")]
