"""The module tree, counted again by torch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.views.recordings import Net, trained
from torch import nn

import cutaway
from cutaway.layout.graph_view import plain
from cutaway.store.format.records import Row
from cutaway.store.writing.writer import Writer
from cutaway.views.run.module_table import NetworkView, network_view
from cutaway.views.run.rows import RunRows


def recorded(path: Path, model: Any) -> RunRows:
    with cutaway.record(path, model, every=1, graph=False) as run, run.step():
        pass
    return RunRows(cutaway.load(path))


def test_each_module_counts_what_torch_counts(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.Sequential(nn.Linear(4, 4).double(), nn.BatchNorm1d(4)), nn.ReLU())
    model[0].weight.requires_grad_(False)
    view = network_view(recorded(tmp_path / "run", model))
    assert [row.address for row in view.modules] == [name or "." for name, _ in model.named_modules()]
    for row, module in zip(view.modules, model.modules(), strict=True):
        parameters = list(module.parameters())
        assert row.class_name == type(module).__name__
        assert row.n_parameters == sum(p.numel() for p in parameters)
        assert row.n_trainable == sum(p.numel() for p in parameters if p.requires_grad)
        assert row.bytes == sum(p.numel() * p.element_size() for p in parameters)
        assert row.own_parameters == sum(p.numel() for p in module.parameters(recurse=False))
        assert row.n_buffers == sum(b.numel() for b in module.buffers())
    assert (view.n_parameters, view.bytes) == (view.modules[0].n_parameters, view.modules[0].bytes)
    assert view.why_missing == ""


def test_the_tree_is_in_order_and_parents_stand_first() -> None:
    view = network_view(RunRows(trained()))
    for number, row in enumerate(view.modules):
        assert row.parent < number
        around = view.modules[row.parent] if row.parent >= 0 else None
        assert row.depth == (0 if around is None else around.depth + 1)
        assert around is None or around.address == "." or row.address.startswith(f"{around.address}.")
    assert [row.name for row in view.modules if row.address.endswith("mlp.2")] == ["2"] * 4


def test_a_shared_parameter_counts_once() -> None:
    view = network_view(RunRows(trained()))
    assert view.n_parameters == sum(p.numel() for p in Net().parameters())
    by_address = {row.address: row for row in view.modules}
    assert (by_address["embed"].n_parameters, by_address["head"].n_parameters) == (40, 0)


def test_parameters_are_found_by_their_rows() -> None:
    rows = RunRows(trained())
    view = network_view(rows)
    by_address = {row.address: row for row in view.modules}
    assert [rows.rows[row].site for row in by_address["h.1.norm"].rows] == ["h.1.norm.weight", "h.1.norm.bias"]
    assert [rows.rows[row].site for row in by_address["."].rows] == ["scale"]
    found = [row for module in view.modules for row in module.rows]
    held = [n for n, row in enumerate(rows.rows) if row.role in ("parameter", "buffer") and row.of == "value"]
    assert sorted(found) == held


def test_several_models_are_several_roots(tmp_path: Path) -> None:
    view = network_view(recorded(tmp_path / "run", {"G": nn.Linear(2, 3), "D": nn.Sequential(nn.Linear(3, 1))}))
    assert [(row.address, row.depth) for row in view.modules if row.parent < 0] == [("G", 0), ("D", 0)]
    assert view.n_parameters == 9 + 4


def test_without_a_record_of_modules_that_is_said(tmp_path: Path) -> None:
    Writer(tmp_path / "run", kind="run").close()
    view = network_view(RunRows(cutaway.load(tmp_path / "run")))
    assert view == NetworkView((), 0, 0, 0, "this run has no record of its modules: cutaway.record writes one.")


GOOD = {"address": [".", "a"], "class": ["Net", "<b>"], "parameters": [0, 3], "trainable": [0, 3], "bytes": [0, 12],
        "buffers": [0, 0]}  # fmt: skip


@pytest.mark.parametrize(
    "document",
    [
        "text", [], {}, {**GOOD, "bytes": [1]}, {**GOOD, "parameters": [0, -3]}, {**GOOD, "class": [1, 2]},
        {**GOOD, "address": ["a", "a"]}, {**GOOD, "trainable": None}, {**GOOD, "parameters": [0, 2.5]},
    ],
)  # fmt: skip
def test_a_record_that_is_none_is_treated_as_none(tmp_path: Path, document: Any) -> None:
    with Writer(tmp_path / "run", kind="run") as writer:
        writer.document("modules", document)
    assert network_view(RunRows(cutaway.load(tmp_path / "run"))).modules == ()


def test_any_address_has_its_place(tmp_path: Path) -> None:
    addresses = ["b.c.d", "b", ".", "", "b..x", "...", "<script>"]
    n = len(addresses)
    with Writer(tmp_path / "run", kind="run") as writer:
        writer.document("modules", {"address": addresses, "class": ["X"] * n} | {
            name: [1] * n for name in ("parameters", "trainable", "bytes", "buffers")
        })  # fmt: skip
        writer.step(0, schema=writer.schema([Row("w", role="parameter")], ["mean"]), matrix=np.ones((1, 1)))
    view = network_view(RunRows(cutaway.load(tmp_path / "run")))
    assert sorted(row.address for row in view.modules) == sorted(addresses)
    assert view.n_parameters == n
    assert next(row for row in view.modules if row.address == ".").n_parameters == n
    json.dumps(plain(view), allow_nan=False)


def test_lazy_modules_count_once_they_are_made(tmp_path: Path) -> None:
    model = nn.Sequential(nn.LazyLinear(3))
    with cutaway.record(tmp_path / "run", model, every=1, graph=False) as run, run.step():
        model(torch.ones(2, 5))
    assert network_view(RunRows(cutaway.load(tmp_path / "run"))).n_parameters in (0, 18)
