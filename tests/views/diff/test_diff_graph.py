"""The picture of a diff: every difference is marked, with color and sign."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest
import torch
from tests.zoo import ZOO
from torch import Tensor, nn

import cutaway
from cutaway.core.errors import InputError
from cutaway.layout.fold import fold
from cutaway.layout.graph_view import GraphView
from cutaway.layout.picture import Box, Picture
from cutaway.results.diff import Diff
from cutaway.views.diff.diff_graph import diff_fold, diff_view
from cutaway.views.graph.from_trace import graph_view

X = torch.linspace(-2, 2, 12).reshape(3, 4)


class Block(nn.Module):
    def __init__(self, act: nn.Module, shift: bool) -> None:
        super().__init__()
        self.up, self.down, self.act, self.shift = nn.Linear(4, 8), nn.Linear(8, 4), act, shift

    def forward(self, x: Tensor) -> Tensor:
        h = self.act(self.up(x))
        if self.shift:
            h = h + 1
        return x + self.down(h)


def net(*blocks: nn.Module) -> nn.Sequential:
    model = nn.Sequential(*blocks)
    torch.manual_seed(0)
    for parameter in model.parameters():
        nn.init.normal_(parameter)
    return model


def diff() -> Diff:
    a = net(Block(nn.ReLU(), True), Block(nn.ReLU(), True))
    b = net(Block(nn.ReLU(), True), Block(nn.GELU(), False), nn.Tanh())
    return cutaway.diff(cutaway.trace(a, X), cutaway.trace(b, X))


def differences(diff: Diff, *, depth: int | None = None, rolled: bool = False) -> Picture:
    """What `diff.draw` draws."""
    view = diff_view(diff)
    return fold(view, diff_fold(view, depth, rolled=rolled))


def _marks(view: GraphView) -> tuple[str, ...]:
    assert view.comparison is not None
    return view.comparison.mark


def named(view: Picture) -> dict[str, Box]:
    return {box.lines[0]: box for box in view.boxes}


def test_every_change_has_its_sign_and_its_mark() -> None:
    boxes = named(differences(diff()))
    assert boxes["+ tanh_1_10"].marks == ("new",)
    assert boxes["− add_3_8"].marks == ("removed",)
    assert boxes["~ gelu_1_7"].marks[-1] == "changed"
    assert "was relu" in boxes["~ gelu_1_7"].lines
    assert boxes["linear_1_1"].marks == ()


def test_values_that_differ_are_shaded_and_numbered() -> None:
    found = diff()
    boxes = named(differences(found))
    for row in found.values:
        if row.kind == "op" and row.what == "value":
            (box,) = [
                box for name, box in boxes.items() if name.split(" ")[-1] == row.label and "removed" not in box.marks
            ]
            assert ("apart" in box.marks) == (not row.is_equal)
            assert any(line.startswith("Δ") for line in box.lines) == (not row.is_equal)


def test_what_is_gone_stands_between_what_it_was_between() -> None:
    view = differences(diff())
    number = {box.lines[0]: i for i, box in enumerate(view.boxes)}
    edges = {(edge.parent, edge.child) for edge in view.edges}
    removed = number["− add_3_8"]
    assert (number["~ gelu_1_7"], removed) in edges
    assert (removed, number["linear_4_8"]) in edges
    assert view.boxes[removed].frame == view.boxes[number["linear_4_8"]].frame
    assert all(parent < child for parent, child in edges)


def test_a_module_that_is_gone_is_one_box() -> None:
    a = net(Block(nn.ReLU(), True), Block(nn.ReLU(), True))
    found = cutaway.diff(cutaway.trace(a, X), cutaway.trace(a[:1], X))
    (box,) = [box for box in differences(found).boxes if "removed" in box.marks]
    assert box.lines == ("− 1", "Block", "5 ops", "3×4 · 48 B", "76 parameters")


def test_a_module_that_is_gone_opens_to_what_it_held() -> None:
    a = net(Block(nn.ReLU(), True), Block(nn.ReLU(), True))
    found = cutaway.diff(cutaway.trace(a, X), cutaway.trace(a[:1], X))
    picture = differences(found, depth=2)
    removed = [i for i, box in enumerate(picture.boxes) if "removed" in box.marks]
    labels = [picture.boxes[i].lines[0] for i in removed]
    assert labels == ["− linear_3_6", "− relu_2_7", "− add_3_8", "− linear_4_9", "− add_4_10"]
    (frame,) = {picture.boxes[i].frame for i in removed}
    assert (picture.frames[frame].title, picture.frames[frame].mark) == ("− 1 (Block)", "removed")
    assert picture.frames[1].mark == ""
    edges = {(edge.parent, edge.child) for edge in picture.edges}
    kept = len(picture.boxes) - len(removed) - 1
    assert {(kept, removed[0]), (kept, removed[4]), *pairwise(removed)} <= edges


def test_many_loose_ops_that_are_gone_are_one_box() -> None:
    layers = [nn.Linear(4, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 2)]
    a, b = nn.Sequential(*layers).eval(), nn.Sequential(layers[0], layers[-1]).eval()
    found = cutaway.diff(cutaway.trace(a, X), cutaway.trace(b, X))
    (box,) = [box for box in differences(found).boxes if "removed" in box.marks]
    assert box.lines == ("− 4 ops removed", "batch_norm_1_2 to tanh_1_5", "4 ops")
    fewer = cutaway.diff(cutaway.trace(nn.Sequential(*layers[2:]), X), cutaway.trace(layers[-1], X))
    removed = [box.lines[0] for box in differences(fewer).boxes if "removed" in box.marks]
    assert removed == ["− relu_1_1", "− linear_1_2", "− tanh_1_3"]


def test_what_is_gone_from_a_loop_is_rolled_up_too() -> None:
    class Loop(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.block = Block(nn.ReLU(), False)

        def forward(self, x: Tensor, n: int) -> Tensor:
            for _ in range(n):
                x = self.block(x)
            return x

    model = Loop()
    found = cutaway.diff(cutaway.trace(model, X, 5), cutaway.trace(model, X, 3))
    boxes = named(differences(found, depth=1, rolled=True))
    assert "4 ops" in boxes["− block (×2)"].lines
    assert "block (×3)" in boxes


def test_blocks_that_differ_are_not_drawn_as_one() -> None:
    blocks = [Block(nn.ReLU(), True) for _ in range(5)]
    with torch.no_grad():
        for block in blocks:
            block.down.weight.zero_()
    a = nn.Sequential(*blocks)
    trace = cutaway.trace(a, X)
    blocks[2].shift = False
    found = cutaway.diff(trace, cutaway.trace(a, X))
    assert len(graph_view(trace).runs) == 1
    titles = [frame.title for frame in differences(found, rolled=True).frames]
    assert "2 (Block)" in titles
    assert not any("×5" in title for title in titles)


def test_folded_modules_say_how_many() -> None:
    boxes = named(differences(diff(), depth=1))
    assert "1 removed, 1 changed" in boxes["~ 1"].lines
    assert any(re.fullmatch(r"Δ in 3 ops, at most .*", line) for line in boxes["~ 1"].lines)
    assert boxes["0"].marks == ()
    assert not any("removed" in box.marks for box in boxes.values())


def test_a_parameter_that_differs_is_named_in_the_box_that_reads_it() -> None:
    one, two = nn.Linear(4, 2), nn.Linear(4, 2)
    view = differences(cutaway.diff(cutaway.trace(one, X), cutaway.trace(two, X)))
    (box,) = [box for box in view.boxes if box.lines[0] == "linear_1_1"]
    assert [line.split(" ")[1] for line in box.lines if line.startswith("Δ")][1:] == ["weight", "bias"]


def test_the_drawing_is_one_svg_with_a_legend(tmp_path: Path) -> None:
    path = tmp_path / "diff.svg"
    text = diff().draw(str(path))
    assert path.read_text(encoding="utf-8") == text
    ElementTree.fromstring(text)
    for meaning in ("+ new", "− removed", "~ changed", "Δ values differ a little", "… a lot"):
        assert f">{meaning}</text>" in text
    assert 'class="edge removed"' in text
    plain = cutaway.trace(nn.ReLU(), X).draw()
    assert not re.search(r">\+ new<|>… a lot<|edge removed\"", plain)


def test_the_header_counts_what_differs() -> None:
    found = diff()
    view = diff_view(found)
    n = len(found.different)
    words = f"1 new, 1 removed, 1 changed · {n} values differ · Sequential (10 ops) → Sequential (10 ops)"
    assert (view.title, view.subtitle) == ("Sequential: differences", words)
    trace = cutaway.trace(nn.ReLU(), X)
    assert diff_view(cutaway.diff(trace, trace)).subtitle.startswith("the same ops · 0 values differ")


def test_without_a_difference_nothing_is_marked() -> None:
    trace = cutaway.trace(net(Block(nn.ReLU(), True)), X)
    assert not any(box.marks for box in differences(cutaway.diff(trace, trace)).boxes)


def test_values_can_be_colored_by_their_distance() -> None:
    found = diff()
    view = diff_view(found)
    (measure,) = view.measures
    assert (measure.name, measure.total, measure.scale) == ("distance", "max", "log")
    norms = {row.label: row.distance.norm for row in found.values if row.kind == "op"}
    by_label = {
        label.split(" ")[-1]: v
        for label, v, mark in zip(view.nodes.label, measure.values, _marks(view), strict=True)
        if mark != "removed"
    }
    assert all(by_label[label] == norm for label, norm in norms.items())
    assert by_label["tanh_1_10"] is None
    assert "difference" in str(found.draw(color_by="distance"))


def test_the_order_of_distances_is_that_of_the_diff() -> None:
    found = diff()
    view = diff_view(found)
    assert view.comparison is not None
    order = {label.split(" ")[-1]: at for label, at in zip(view.nodes.label, view.comparison.order, strict=True)}
    far = [row.label for row in found.largest(100) if row.kind == "op"]
    assert sorted(far, key=lambda label: -order[label]) == far
    assert order["linear_1_1"] == 0 < min(order[label] for label in far)


def test_a_replay_is_compared_with_its_trace() -> None:
    trace = cutaway.trace(net(Block(nn.ReLU(), False), Block(nn.ReLU(), False)), X)
    replayed = trace.replay("0.act", lambda value: value / 2)
    boxes = named(differences(cutaway.diff(trace, replayed)))
    apart = {name for name, box in boxes.items() if "apart" in box.marks}
    assert apart == set(replayed.recomputed.labels)


@pytest.mark.parametrize("suffix", [".png", ".pdf", ".dot"])
def test_other_formats_are_written_too(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"diff{suffix}"
    written = diff().draw(path, direction="right")
    assert path.read_bytes() == (written if isinstance(written, bytes) else written.encode())


def test_what_no_format_is_known_for_is_refused() -> None:
    with pytest.raises(InputError, match=r"use \.svg"):
        diff().draw("diff.json")


def test_a_diff_without_its_traces_says_so() -> None:
    with pytest.raises(InputError, match=r"run cutaway\.diff again"):
        Diff("a", "b", (), (), None, 0).draw()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["cnn", "bert", "attention", "lstm", "shared_modules", "in_place_through_views"])
def test_very_different_models_can_be_drawn(name: str) -> None:
    model, args, kwargs = ZOO[name]()
    a, b = cutaway.trace(net(Block(nn.ReLU(), True)), X), cutaway.trace(model, *args, **kwargs)
    for found in (cutaway.diff(a, b), cutaway.diff(b, a)):
        for depth in (None, 1, 0):
            ElementTree.fromstring(found.draw(depth=depth))
        assert repr(found)
