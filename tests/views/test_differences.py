"""The picture of a diff: every difference is marked, with colour and sign."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
import torch
from tests.zoo import ZOO
from torch import Tensor, nn

import cutaway
from cutaway.core.errors import InputError
from cutaway.results.diff import Diff
from cutaway.views.differences import differences
from cutaway.views.picture import Box, View

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


def named(view: View) -> dict[str, Box]:
    return {box.lines[0]: box for box in view.boxes}


def test_every_change_has_its_sign_and_its_mark() -> None:
    boxes = named(differences(diff()))
    assert boxes["+ tanh_1_10"].marks == ("new",)
    assert boxes["− add_3_8"].marks == ("gone",)
    assert boxes["~ gelu_1_7"].marks[-1] == "changed"
    assert "was relu" in boxes["~ gelu_1_7"].lines
    assert boxes["linear_1_1"].marks == ()


def test_values_that_differ_are_shaded_and_numbered() -> None:
    found = diff()
    boxes = named(differences(found))
    for row in found.values:
        if row.kind == "op" and row.what == "value":
            (box,) = [
                box for name, box in boxes.items() if name.split(" ")[-1] == row.label and "gone" not in box.marks
            ]
            assert ("apart" in box.marks) == (not row.is_equal)
            assert any(line.startswith("Δ") for line in box.lines) == (not row.is_equal)


def test_what_is_gone_stands_between_what_it_was_between() -> None:
    view = differences(diff())
    number = {box.lines[0]: i for i, box in enumerate(view.boxes)}
    edges = {(edge.parent, edge.child) for edge in view.edges}
    gone = number["− add_3_8"]
    assert (number["~ gelu_1_7"], gone) in edges
    assert (gone, number["linear_4_8"]) in edges
    assert view.boxes[gone].frame == view.boxes[number["linear_4_8"]].frame
    assert all(parent < child for parent, child in edges)


def test_a_module_that_is_gone_is_one_box() -> None:
    a = net(Block(nn.ReLU(), True), Block(nn.ReLU(), True))
    found = cutaway.diff(cutaway.trace(a, X), cutaway.trace(a[:1], X))
    (box,) = [box for box in differences(found).boxes if "gone" in box.marks]
    assert box.lines == ("− 5 ops gone", "linear_3_6 to add_4_10", "1 (Block)")


def test_folded_modules_say_how_many() -> None:
    boxes = named(differences(diff(), depth=1))
    assert "1 gone, 1 changed" in boxes["~ 1"].lines
    assert any(re.fullmatch(r"Δ in 3 ops, at most .*", line) for line in boxes["~ 1"].lines)
    assert boxes["0"].marks == ()
    assert not any("gone" in box.marks for box in boxes.values())


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
    for meaning in ("+ new", "− gone", "~ changed", "Δ values differ, a little", "much"):
        assert f">{meaning}</text>" in text
    assert 'class="edge gone"' in text
    plain = cutaway.trace(nn.ReLU(), X).draw()
    assert not re.search(r">\+ new<|>much<|edge gone\"", plain)


def test_without_a_difference_nothing_is_marked() -> None:
    trace = cutaway.trace(net(Block(nn.ReLU(), True)), X)
    assert not any(box.marks for box in differences(cutaway.diff(trace, trace)).boxes)


def test_only_svg_is_written() -> None:
    with pytest.raises(InputError, match=r"does not end in \.svg"):
        diff().draw("diff.png")


def test_a_diff_without_its_traces_says_so() -> None:
    with pytest.raises(InputError, match=r"make it again with cutaway\.diff"):
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
