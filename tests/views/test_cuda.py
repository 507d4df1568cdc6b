"""Pictures of values that lie on a GPU."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from torch import nn

import cutaway
from cutaway.layout.graph_view import plain
from cutaway.views.graph.from_trace import graph_view
from cutaway.views.graph.measures import measures
from cutaway.views.graph.op_details import details

pytestmark = [pytest.mark.cuda, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")]


def traced(device: str, dtype: torch.dtype) -> cutaway.Trace:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 14 * 14, 5)).to(device, dtype)
    images = torch.rand(2, 3, 16, 16).to(device, dtype)
    with cutaway.watch(model) as trace:
        model(images).float().square().mean().backward()
    return trace


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_values_on_a_gpu_have_the_pictures_of_values_on_the_cpu(dtype: torch.dtype) -> None:
    there, here = traced("cuda", dtype), traced("cpu", dtype)
    rows = graph_view(there).nodes.row
    found, wanted = details(there, rows), details(here, graph_view(here).nodes.row)
    json.dumps(plain(found), allow_nan=False)
    for row, one in found.items():
        assert (one.value is None) == (wanted[row].value is None)
        if one.value is not None and wanted[row].value is not None:
            mine, theirs = dict(one.value.statistics), dict(wanted[row].value.statistics)
            assert mine["std"] == pytest.approx(theirs["std"], rel=0.05, abs=1e-3)
            assert one.value.shape == wanted[row].value.shape
    by_name = {measure.name: measure.values for measure in measures(there, rows)}
    assert {"seconds", "bytes", "std", "grad_norm"} <= set(by_name)


def test_a_trace_on_a_gpu_is_drawn_and_shown(tmp_path: Path) -> None:
    trace = traced("cuda", torch.float32)
    assert trace.draw(color_by="std").startswith("<svg")
    picture = trace._repr_html_()
    assert picture is not None
    assert "data:image/svg+xml" in picture
