"""Conditionals in the picture: what decides is yellow, and a bold IF stands where a branch begins."""

from __future__ import annotations

import re
from collections import Counter
from xml.etree import ElementTree

import torch
from torch import Tensor, nn

import cutaway
from cutaway.layout.picture import Picture
from cutaway.layout.place import place
from cutaway.views.draw.svg import svg
from cutaway.views.graph.from_trace import picture


class Choosing(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.small, self.large = nn.Linear(3, 3), nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(x)
        if torch.mean(x - 5) > 3:
            return self.large(x)
        return self.small(x)


class Looping(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        while x.sum() < 10:
            x = x + 1
        return x


class Plain(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * float(x.sum())


def named_edges(view: Picture) -> dict[tuple[str, str], str]:
    return {(view.boxes[e.parent].lines[0], view.boxes[e.child].lines[0]): e.label for e in view.edges}


def test_the_edge_where_the_branch_leaves_the_path_says_if() -> None:
    labels = named_edges(picture(cutaway.trace(Choosing(), torch.ones(2, 3))))
    assert [edge for edge, label in labels.items() if label.startswith("IF")] == [("relu_1_1", "sub_1_2")]


def test_what_decides_is_marked_with_its_test_and_its_arm() -> None:
    view = picture(cutaway.trace(Choosing(), torch.ones(2, 3)))
    (box,) = [box for box in view.boxes if box.is_condition]
    assert box.lines == ("bool_1_5", "bool", "if torch.mean(x - 5) > 3", "→ else")
    assert not box.is_light
    text = svg(view, place(view))
    assert len(re.findall(r'<g class="box plain function condition"><rect[^>]*/><text', text)) == 1
    assert text.count('<tspan class="if">IF</tspan>') == 1
    assert ">condition</text>" in text
    ElementTree.fromstring(text)


def test_a_number_that_decides_nothing_is_not_marked() -> None:
    view = picture(cutaway.trace(Plain(), torch.ones(3)))
    assert not any(box.is_condition for box in view.boxes)
    text = svg(view, place(view))
    assert not re.search("IF|>condition<", text)


def test_a_rolled_loop_counts_the_arms_of_all_passes() -> None:
    view = picture(cutaway.trace(Looping(), torch.ones(3)), rolled=True)
    conditions = [box for box in view.boxes if box.is_condition]
    taken = [re.findall(r"(\w+)(?: ×(\d))?", box.lines[-1]) for box in conditions]
    counts = Counter(dict.fromkeys(("body", "end"), 0))
    for arm, times in [pair for pairs in taken for pair in pairs]:
        counts[arm] += int(times or 1)
    assert counts == {"body": 3, "end": 1}


def test_a_decision_inside_a_folded_module_stays_inside() -> None:
    model = nn.Sequential(Choosing(), nn.ReLU())
    view = picture(cutaway.trace(model, torch.ones(2, 3)), depth=1)
    assert not any(box.is_condition for box in view.boxes)
    assert not any(edge.label.startswith("IF") for edge in view.edges)
