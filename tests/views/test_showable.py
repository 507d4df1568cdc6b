"""Whatever can be shown becomes a view."""

from __future__ import annotations

import base64
import re
from xml.etree import ElementTree

import pytest
import torch
from tests.server.models import Tower, tower
from torch import nn

import cutaway
from cutaway.core.errors import InputError
from cutaway.views.graph.from_trace import graph_view
from cutaway.views.showable import as_showable, static_html


def drawn(html: str) -> str:
    """The SVG in the image, which has to be well-formed."""
    (data,) = re.findall(r'^<img alt="\w+" style="[^"]*" src="data:image/svg\+xml;base64,([^"]*)">$', html)
    svg = base64.b64decode(data, validate=True).decode()
    ElementTree.fromstring(svg)
    return svg


def test_a_trace_is_shown_with_numbers_to_color_it_by_and_told_op_by_op() -> None:
    trace = tower()
    shown = as_showable(trace)
    assert {"seconds", "flops", "std"} <= {measure.name for measure in shown.view.measures}
    row = trace["head"].node
    assert row in shown.view.nodes.row
    found = shown.detail(row)
    assert found is not None
    assert found.label == trace["head"].label


def test_a_diff_is_shown_as_its_second_trace_with_marks() -> None:
    before, after = tower(3), tower(4)
    shown = as_showable(cutaway.diff(before, after))
    assert shown.view.comparison is not None
    assert "new" in shown.view.comparison.mark
    assert shown.trace is after
    assert "seconds" in {measure.name for measure in shown.view.measures}
    for row, label in zip(shown.view.nodes.row, shown.view.nodes.label, strict=True):
        found = shown.detail(row)
        assert found is None if row < 0 else found is not None and found.label in label


def test_a_view_is_shown_as_it_is_and_knows_no_details() -> None:
    view = graph_view(tower())
    shown = as_showable(view)
    assert shown.view is view
    assert shown.detail(1) is None
    assert shown.details(10**6) == {}


def test_a_row_that_is_not_there_has_no_detail() -> None:
    shown = as_showable(tower())
    assert shown.detail(-1) is None
    assert shown.detail(10**6) is None


def test_details_are_those_of_every_op_that_is_drawn_unless_time_runs_out() -> None:
    trace = tower(40)
    shown = as_showable(trace)
    drawn_rows = {row for row in shown.view.nodes.row if row >= 0}
    assert shown.details(10**7).keys() == drawn_rows
    some = shown.details(10**7, seconds=0).keys()
    assert 0 < len(some) < len(drawn_rows)
    assert max(some) < min(drawn_rows - some)


def test_a_still_picture_stays_small_however_large_the_model() -> None:
    class Branches(nn.Module):
        """Nothing in it repeats, so that it cannot be drawn once for many."""

        def __init__(self) -> None:
            super().__init__()
            self.parts = nn.ModuleList(
                nn.Sequential(nn.Linear(4, 4 + i), nn.ReLU(), nn.Linear(4 + i, 4)) for i in range(40)
            )

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for part in self.parts:
                x = part(x)
            return x

    svg = drawn(static_html(graph_view(cutaway.trace(Branches(), torch.ones(2, 4)))))
    assert "parts.39" in svg
    assert "relu_" not in svg, "the parts are folded"


def test_a_small_model_is_drawn_down_to_its_ops() -> None:
    svg = drawn(static_html(graph_view(tower())))
    assert "relu_1" in svg
    assert "×3" in svg


def test_a_notebook_shows_a_trace_once_it_is_made() -> None:
    with cutaway.watch(model := Tower()) as trace:
        assert trace._repr_html_() is None
        model(torch.ones(2, 4))
    picture = trace._repr_html_()
    assert picture is not None
    assert "linear_1" in drawn(picture)


def test_a_diff_that_lost_its_traces_says_so() -> None:
    diff = cutaway.diff(tower(), tower())
    del diff.__dict__["_traces"]
    with pytest.raises(InputError, match="no longer has its traces"):
        as_showable(diff)
