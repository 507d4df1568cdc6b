"""Selects a part of a value: units, heads, positions, samples, or any index."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from cutaway.capture.interventions.token_positions import current_token_window
from cutaway.core.errors import EditError, InputError, UnitError
from cutaway.core.formatting import listed, short
from cutaway.core.units.layout import UnitLayout

Index = Any
"""Anything that indexes a tensor: `tensor[index]`."""

_HEADS = ("num_heads", "n_head", "n_heads", "num_attention_heads", "nhead", "num_key_value_heads")


@dataclass(frozen=True, slots=True)
class Region:
    """The part of every value at one site that an edit changes: the parsed keywords of `edit` and `Trace.replay`."""

    units: tuple[int, ...] | None = None
    heads: tuple[int, ...] | None = None
    n_heads: int | None = None
    positions: Index = None
    samples: Index = None
    index: Index = None
    unit_dim: tuple[int, ...] | None = None
    """The unit dimensions that the caller states."""

    @staticmethod
    def of(
        *,
        units: int | Sequence[int] | None = None,
        unit_dim: int | Sequence[int] | None = None,
        heads: int | Sequence[int] | None = None,
        n_heads: int | None = None,
        positions: int | slice | Sequence[int] | None = None,
        samples: int | slice | Sequence[int] | None = None,
        index: Index = None,
    ) -> Region:
        """Parses the keywords; `edit` documents them."""
        others = (units, unit_dim, heads, n_heads, positions, samples)
        if index is not None and any(each is not None for each in others):
            raise InputError(
                "index= cannot be combined with units=, unit_dim=, heads=, n_heads=, positions= or samples=."
            )
        return Region(
            units=_as_tuple("units", units),
            heads=_as_tuple("heads", heads),
            n_heads=n_heads,
            positions=_index("positions", positions),
            samples=_index("samples", samples),
            index=index,
            unit_dim=_as_tuple("unit_dim", unit_dim),
        )

    @property
    def text(self) -> str:
        """The restrictions in words: `units 3, 4`; "" for the whole value."""
        parts = [
            f"{name} {listed(map(str, chosen)) if name in ('units', 'heads') else short(str(chosen))}"
            for name in ("units", "heads", "positions", "samples", "index")
            if (chosen := getattr(self, name)) is not None
        ]
        return ", ".join(parts)

    def with_units(self, units: Sequence[int] | None) -> Region:
        """The region restricted to the units that the site names, `#k`; None for no restriction."""
        if not units:
            return self
        if self.index is not None:
            raise InputError(f"index= cannot be combined with a site that names unit {units[0]}.")
        if self.units is not None:
            raise InputError(f"the site already names unit {units[0]}: leave out units=.")
        return replace(self, units=tuple(units))

    @property
    def is_whole(self) -> bool:
        return self == _WHOLE or self == Region(n_heads=self.n_heads, unit_dim=self.unit_dim)

    @property
    def needs_samples(self) -> bool:
        """Whether the sample and position dimensions must be known."""
        return self.samples is not None or self.positions is not None

    @property
    def needs_units(self) -> bool:
        """Whether the unit dimensions must be known."""
        return self.units is not None or self.heads is not None

    def put(self, new: Tensor, value: Tensor, module: nn.Module | None, layout: UnitLayout | None) -> Tensor:
        """The value, with this part replaced by the new one."""
        return new if self.is_whole else torch.where(self.mask(value, module, layout), new, value)

    def mask(self, value: Tensor, module: nn.Module | None, layout: UnitLayout | None) -> Tensor:
        """A boolean mask of the part; it broadcasts to the value.

        Args:
            layout: what the dimensions count; needed for everything but `index=`.
        """
        if self.index is not None:
            mask = torch.zeros(value.shape, dtype=torch.bool, device=value.device)
            mask[self.index] = True
            return mask
        if layout is None:
            layout = UnitLayout.refused(value.shape, "its layout is unknown")
        axes = _Axes(value, layout.for_shape(value.shape))
        if self.samples is not None:
            axes.choose(axes.samples(), self.samples)
        if self.positions is not None:
            axis = axes.positions()
            now, size = current_token_window(), axes.sizes[axis]
            axes.choose(axis, self.positions if now is None else now.indices(self.positions, size))
        if self.units is not None:
            axes.choose_units(self.units)
        if self.heads is not None:
            axes.choose_units(self._units_of_heads(axes.layout, module))
        return axes.mask()

    def _units_of_heads(self, layout: UnitLayout, module: nn.Module | None) -> list[int]:
        """The units of the selected heads, which are consecutive, equal parts of the flat index."""
        n = self.n_heads or heads_of(module)
        if n is None:
            raise EditError("heads= needs the number of heads: add n_heads=.")
        width, rest = divmod(layout.n_units, n)
        if rest:
            raise EditError(
                f"{n} heads do not divide the {layout.n_units} units of a value of shape {list(layout.shape)} evenly."
            )
        if any(not -n <= head < n for head in self.heads or ()):
            raise EditError(f"heads={list(self.heads or ())}: there are {n} heads, 0 to {n - 1}.")
        return [(head % n) * width + i for head in self.heads or () for i in range(width)]


_WHOLE = Region()


class _Axes:
    """Builds a mask over a value whose dimensions are split into their factors."""

    def __init__(self, value: Tensor, layout: UnitLayout) -> None:
        self.value, self.layout = value, layout
        self.sizes = layout.sizes
        self._mask = torch.ones((1,) * len(self.sizes), dtype=torch.bool, device=value.device)

    def samples(self) -> int:
        if len(self.layout.samples) != 1:
            raise UnitError(
                f"samples= needs the sample dimension, which is unknown for a value of {_shape_text(self.value)}: use "
                "index= instead."
            )
        return self.layout.samples[0]

    def positions(self) -> int:
        axis = self.layout.position if self.layout.is_known else next(iter(self.layout.tokens), None)
        if axis is None:
            raise UnitError(
                f"positions= was given, but no dimension of a value of {_shape_text(self.value)} counts positions: "
                "use index= instead."
            )
        return axis

    def choose(self, axis: int, chosen: Index) -> None:
        """Restricts the mask to some indices of one axis."""
        size = self.sizes[axis]
        row = torch.zeros(size, dtype=torch.bool, device=self.value.device)
        try:
            row[chosen] = True
        except IndexError:
            dim = self.layout.dim_of(axis)
            raise EditError(
                f"{chosen} is out of range for dimension {dim} of a value of {_shape_text(self.value)}."
            ) from None
        self._mask = self._mask & row.view([size if at == axis else 1 for at in range(len(self.sizes))])

    def choose_units(self, units: Sequence[int]) -> None:
        """Restricts the mask to some units, by flat index."""
        layout, n = self.layout, self.layout.n_units
        flat = torch.zeros(n, dtype=torch.bool, device=self.value.device)
        outside = [unit for unit in units if not -n <= unit < n]
        if outside:
            layout.check_unit(outside[0])
        flat[list(units)] = True
        self._mask = self._mask & layout.along_units(flat)

    def mask(self) -> Tensor:
        """The mask, broadcastable to the value: dimensions that it does not restrict have size 1."""
        # The factors of a dimension are merged again: if one of them is restricted, all need their full size.
        wide, shape, axis = list(self._mask.shape), [], 0
        for dim in self.layout.split:
            axes = range(axis, axis + len(dim))
            if any(wide[at] != 1 for at in axes):
                wide[axis : axis + len(dim)] = dim
            shape.append(prod(wide[at] for at in axes))
            axis += len(dim)
        return self._mask.expand(wide).reshape(shape)


def heads_of(module: nn.Module | None) -> int | None:
    """Number of attention heads, from an attribute of the module or of its config."""
    for holder in (module, getattr(module, "config", None)):
        for name in _HEADS:
            n = getattr(holder, name, None)
            if isinstance(n, int) and not isinstance(n, bool):
                return n
    return None


def _as_tuple(keyword: str, value: int | Sequence[int] | None) -> tuple[int, ...] | None:
    if value is None:
        return None
    if isinstance(value, int) and not isinstance(value, bool):
        return (value,)
    return tuple(_as_indices(keyword, value))


def _index(keyword: str, value: Any) -> Index:
    if value is None or isinstance(value, slice):
        return value
    return [value] if isinstance(value, int) and not isinstance(value, bool) else _as_indices(keyword, value)


def _as_indices(keyword: str, value: Any) -> list[int]:
    """Indices from a sequence or from a boolean mask."""
    array = np.asarray(value)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iub"):
        raise InputError(
            f"{keyword}={value!r} is not an index: use an integer, a sequence of integers, or a 1-d boolean mask."
        )
    return [int(each) for each in (np.flatnonzero(array) if array.dtype.kind == "b" else array)]


def _shape_text(value: Tensor) -> str:
    return f"shape {list(value.shape)}"
