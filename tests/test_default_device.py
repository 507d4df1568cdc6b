"""With another default device, every verb gives what it gives without: Cutaway makes no tensor without a device.

The default device is `meta`, whose tensors have no values, so that any use of one shows; the models are on the CPU.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils._device import _device_constructors

import cutaway
from tests.lm.tiny_lms import tiny, tokenizer

SOURCES = Path(cutaway.__file__).parent
FACTORIES = {function.__name__ for function in _device_constructors()}
"""The functions that `torch.set_default_device` affects."""


@contextmanager
def default_device(device: str) -> Iterator[None]:
    before = torch.get_default_device()
    torch.set_default_device(device)
    try:
        yield
    finally:
        torch.set_default_device(before if before.type != "cpu" else None)


def on_meta(verb: Callable[[], Any]) -> tuple[Any, Any]:
    """What a verb returns without and with another default device."""
    torch.manual_seed(0)
    plain = verb()
    torch.manual_seed(0)
    with default_device("meta"):
        return plain, verb()


@pytest.fixture(scope="module")
def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 3), nn.BatchNorm1d(3))


@pytest.fixture(scope="module")
def x() -> Tensor:
    torch.manual_seed(1)
    return torch.randn(12, 6)


def test_every_factory_call_names_its_device() -> None:
    without = [
        f"{path.relative_to(SOURCES)}:{node.lineno} torch.{node.func.attr}"
        for path in sorted(SOURCES.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == "torch"
        and node.func.attr in FACTORIES
        and not any(keyword.arg in ("device", None) for keyword in node.keywords)
        and path.parent.name != "cli"  # the input of a traced model: it follows the default, as the model does
    ]
    assert not without


def test_a_trace_is_saved_loaded_and_validated(model: nn.Module, x: Tensor, tmp_path: Path) -> None:
    paths = iter((tmp_path / "plain", tmp_path / "meta"))

    def verb() -> Any:
        fresh = deepcopy(model)  # its running statistics change with every run
        with cutaway.watch(fresh) as trace:
            fresh(x).square().mean().backward()
        trace.save(path := next(paths))
        report = trace.validate()
        assert report, report
        loaded = cutaway.load(path)
        values = [np.asarray(op.value) for op in loaded.ops]
        return values, [np.asarray(op.grad) for op in loaded.ops[:3]], report.coverage

    plain, other = on_meta(verb)
    for before, after in zip(plain[0] + plain[1], other[0] + other[1], strict=True):
        np.testing.assert_array_equal(before, after)
    assert plain[2] == other[2]


def test_edits_and_replays(model: nn.Module, x: Tensor) -> None:
    model.eval()
    trace = cutaway.trace(model, x)

    def verb() -> list[Tensor]:
        with cutaway.edit(model, at="1", to=np.full(8, 0.5)):
            edited = model(x)
        with cutaway.edit(model, at="0", units=[1, 2], to=0.0):
            lesioned = model(x)
        noisy = trace.replay("1", cutaway.edit.noise(0.1)).outputs[0].value
        return [edited, lesioned, trace.replay("1", 0.0).outputs[0].value, noisy]

    plain, other = on_meta(verb)
    assert all(torch.equal(before, after) for before, after in zip(plain, other, strict=True))


def test_recording_collecting_ranking_and_studies(model: nn.Module, x: Tensor, tmp_path: Path) -> None:
    model.eval()
    paths = iter((tmp_path / "plain", tmp_path / "meta"))
    labels = ["a", "b", "c"] * 4

    def verb() -> list[Any]:
        with cutaway.record(path := next(paths), model, every=1, samples=2) as run:
            for _ in range(2):
                with run.step():
                    loss = model(x).square().mean()
                    loss.backward()
                    run.log(loss=loss)
        model.zero_grad()
        recorded = cutaway.load(path)
        acts = cutaway.collect(model, x, at="1")
        rankings = [
            cutaway.neurons.rank(acts, labels, method=method).scores for method in ("linear", "gaussian", "iou")
        ]
        lesions = cutaway.studies.lesion(model, lambda: float(model(x).detach().sum()), at=["0", "1"])
        attributed = cutaway.neurons.attribute(model, x, at="1", target=0)
        return [
            recorded["1"].stats("std"),
            recorded.scalars["loss"].values,
            np.asarray(acts),
            *rankings,
            lesions.scores,
            attributed.scores,
        ]

    plain, other = on_meta(verb)
    for before, after in zip(plain, other, strict=True):
        np.testing.assert_array_equal(np.asarray(before), np.asarray(after))


def test_explanations_of_a_language_model() -> None:
    gen = cutaway.generate(tiny("gpt2"), tokenizer(), "the cat sat", max_new_tokens=2)

    def verb() -> list[Any]:
        return [
            gen.lens().ranks,
            gen.saliency().scores,
            gen.saliency(method="rollout").scores,
            gen.attention().weights,
            gen.factors(2).weights,
            gen.logit_attribution().values,
        ]

    plain, other = on_meta(verb)
    for before, after in zip(plain, other, strict=True):
        np.testing.assert_array_equal(np.asarray(before), np.asarray(after))
