"""Values whose unit k is the constant k: after any operation, the number shows which unit it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from tests.zoo import Fn
from torch import Tensor, nn

import cutaway
from cutaway.core.units.layout import UnitLayout
from cutaway.graph.op import Op

Axes = tuple[int, ...]


def image(n_units: int = 7) -> tuple[nn.Module, Tensor]:
    """(2, 7, 11, 5), with its units in dimension 1."""
    return _filled(nn.Conv2d(3, n_units, 1)), torch.randn(2, 3, 11, 5)


def signal(n_units: int = 7) -> tuple[nn.Module, Tensor]:
    """(2, 7, 11), with its units in dimension 1."""
    return _filled(nn.Conv1d(3, n_units, 1)), torch.randn(2, 3, 11)


def text(n_units: int = 7) -> tuple[nn.Module, Tensor]:
    """(2, 11, 7), with its units in dimension 2."""
    return _filled(nn.Linear(3, n_units)), torch.randn(2, 11, 3)


def row(n_units: int = 7) -> tuple[nn.Module, Tensor]:
    """(2, 7), with its units in dimension 1."""
    return _filled(nn.Linear(3, n_units)), torch.randn(2, 3)


def _filled(layer: Any) -> Any:
    nn.init.zeros_(layer.weight)
    with torch.no_grad():
        layer.bias.copy_(torch.arange(float(len(layer.bias))))
    return layer


@dataclass(frozen=True)
class Case:
    """A function of a value whose unit k is the constant k, and what its result is by plain indexing.

    `numbers` has one entry a unit of the result: a constant, or what `#k` must be as a tensor, or a function of the
    result that gives all of them.
    """

    name: str
    stem: tuple[nn.Module, Tensor]
    function: Callable[..., Any]
    units: Axes
    numbers: Sequence[float | Tensor] | Callable[[Any], Sequence[float | Tensor]]
    samples: Axes = (0,)
    split: tuple[tuple[int, ...], ...] | None = None
    """Where dimensions hold several factors."""
    modules: dict[str, Any] | None = None
    """Layers and parameters that the function reaches as attributes of its second argument."""

    def run(self) -> Op:
        stem, x = self.stem
        wants_model = self.modules is not None
        model = Fn(
            lambda self_, x: self.function(self_.stem(x), self_) if wants_model else self.function(self_.stem(x)),
            stem=stem,
            **(self.modules or {}),
        ).eval()
        with torch.no_grad():
            return cutaway.trace(model, x).outputs[0]

    def check(self) -> None:
        op = self.run()
        layout, value = op.unit_layout, op.value
        split = self.split or tuple((size,) for size in value.shape)
        assert (layout.split, layout.units, layout.samples) == (split, self.units, self.samples), layout
        assert layout.source == "producers"
        expected = self.numbers(value) if callable(self.numbers) else self.numbers
        assert_units(layout, value, expected)


def assert_units(layout: UnitLayout, value: Tensor, expected: Sequence[float | Tensor]) -> None:
    assert layout.n_units == len(expected)
    for k, number in enumerate(expected):
        unit = layout.unit(value, k)
        wanted = number if isinstance(number, Tensor) else torch.full_like(unit, number)
        assert unit.shape == wanted.shape
        torch.testing.assert_close(unit, wanted.to(unit.dtype), equal_nan=True)
