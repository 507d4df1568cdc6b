"""The one-screen view of a trace."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.zoo import ZOO
from torch import Tensor, nn

import cutaway


class Crowded(nn.Module):
    """Everything a summary can mention, with names too long for a screen."""

    def __init__(self) -> None:
        super().__init__()
        name = "a_module_with_a_very_long_name_indeed_{}".format
        for i in range(30):
            self.add_module(name(i), nn.Linear(2, 2))
        for i in range(10, 20):
            getattr(self, name(i)).weight = getattr(self, name(0)).weight
        self.requires_grad_(False)
        getattr(self, name(0)).requires_grad_(True)

    def forward(self, **inputs: Tensor) -> dict[str, Tensor]:
        x = sum(inputs.values())
        for layer in list(self.children())[:20]:
            x = layer(x)
        for function in ("sin", "cos", "tanh", "exp", "abs", "relu", "sqrt", "square", "neg", "sigmoid", "erf"):
            x = getattr(torch, function)(x)
        return {f"an_output_with_a_long_name_{i}": x + i for i in range(12)}


def crowded_inputs() -> dict[str, Any]:
    return {f"an_input_with_a_long_name_{i}": torch.ones(1, 2) for i in range(12)}


class Failing(Crowded):
    def forward(self, **inputs: Tensor) -> dict[str, Tensor]:
        result = super().forward(**inputs)
        raise RuntimeError("a long story " * 40 + "\nand more\n" * 100 + repr(result))


def assert_fits_one_screen(text: str) -> None:
    lines = text.splitlines()
    assert len(lines) <= 30
    assert max(map(len, lines)) <= 100


@pytest.mark.parametrize("name", ZOO)
def test_the_summary_of_every_model_fits_one_screen(name: str) -> None:
    model, args, kwargs = ZOO[name]()
    assert_fits_one_screen(repr(cutaway.trace(model, *args, **kwargs)))


def test_the_summary_of_a_crowded_trace_fits_one_screen() -> None:
    model = Crowded()
    with cutaway.watch(model) as trace:
        sum(model(**crowded_inputs()).values()).sum().backward()
    text = repr(trace)
    assert_fits_one_screen(text)
    for word in ("Crowded", "frozen", "tied", "unused", "not called", "gradients", "time by function", "…"):
        assert word in text


def test_the_summary_of_a_trace_that_stopped_fits_one_screen_and_says_why() -> None:
    with pytest.raises(RuntimeError) as caught:
        cutaway.trace(Failing(), **crowded_inputs())
    text = repr(caught.value.cutaway_trace)  # type: ignore[attr-defined]
    assert_fits_one_screen(text)
    assert "STOPPED     RuntimeError: a long story" in text


def test_the_summary_shows_size_cost_and_endpoints() -> None:
    text = repr(cutaway.trace(nn.Sequential(nn.Linear(4, 3), nn.ReLU()), torch.ones(2, 4)))
    assert text.startswith("Trace of Sequential: 2 ops in 3 modules (3 calls), ")
    assert "  values      48 B, all saved" in text
    assert "  parameters  15 (60 B)" in text
    assert "  flops       48" in text
    assert "  inputs      0 2×4" in text
    assert "  outputs     relu_1_2 2×3" in text


def test_the_shares_of_time_are_of_the_time_spent_in_functions() -> None:
    class Several(nn.Module):
        def forward(self, x: Tensor) -> Any:
            return x.chunk(50)

    text = repr(cutaway.trace(Several(), torch.ones(50)))
    assert "100%" in text


def test_an_empty_trace_and_an_open_trace_have_a_summary() -> None:
    assert_fits_one_screen(repr(cutaway.trace(nn.Identity(), torch.ones(1))))
    with cutaway.watch(nn.Identity()) as trace:
        assert "still being made" in repr(trace)
