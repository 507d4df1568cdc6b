"""Which part of a value is meant: units, heads, positions, samples, or any index."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, TypedDict

import numpy as np
import torch
from torch import Tensor, nn

from cutaway.capture.interventions.token_positions import standing_now
from cutaway.core.errors import EditError, InputError, UnitError
from cutaway.core.units.layout import UnitLayout

Index = Any
"""What may stand between the brackets of a tensor."""

_HEADS = ("num_heads", "n_head", "n_heads", "num_attention_heads", "nhead", "num_key_value_heads")


class Part(TypedDict, total=False):
    """The keywords by which a part of a value is chosen; what is left out means all."""

    units: int | Sequence[int]
    """By their flat index `#k`; which dimensions count units follows from the graph of the model."""
    unit_dim: int | Sequence[int]
    """The dimension that counts units, or several in the order of the flat index, where the graph does not tell."""
    heads: int | Sequence[int]
    """Attention heads: equal parts of the units, one after another."""
    n_heads: int
    """How many heads there are, where the model does not say."""
    positions: int | slice | Sequence[int]
    """Tokens of a sequence; while a model writes, those of the whole text. Of attention scores, the queries."""
    samples: int | slice | Sequence[int]
    """Along the dimension that the model never computes across."""
    index: Index
    """Any index, as between brackets: `np.s_[:, 3]`. Alone."""


@dataclass(frozen=True, slots=True)
class Region:
    """A part of every value of one place."""

    units: tuple[int, ...] | None = None
    heads: tuple[int, ...] | None = None
    n_heads: int | None = None
    positions: Index = None
    samples: Index = None
    index: Index = None
    unit_dim: tuple[int, ...] | None = None
    """What the caller states."""

    @staticmethod
    def of(part: Part, units: Sequence[int] | None = None) -> Region:
        """Read the keywords; `units` are those that the site itself names."""
        unknown = set(part) - set(Part.__annotations__)
        if unknown:
            known = ", ".join(f"{name}=" for name in Part.__annotations__)
            raise InputError(f"{sorted(unknown)[0]!r} chooses no part of a value; there are {known}.")
        own = _several(part.get("units"))
        if "index" in part and (len(part) > 1 or units):
            raise InputError("index= already says all; give it without units=, heads=, positions= or samples=.")
        if own is not None and units:
            raise InputError(f"the site names unit {units[0]}, so units= is one choice too many.")
        return Region(
            units=tuple(units) if units else own,
            heads=_several(part.get("heads")),
            n_heads=part.get("n_heads"),
            positions=_index(part.get("positions")),
            samples=_index(part.get("samples")),
            index=part.get("index"),
            unit_dim=_several(part.get("unit_dim")),
        )

    @property
    def is_whole(self) -> bool:
        return self == _WHOLE or self == Region(n_heads=self.n_heads, unit_dim=self.unit_dim)

    @property
    def needs_samples(self) -> bool:
        """Whether it has to be known which dimensions count samples or positions."""
        return self.samples is not None or self.positions is not None

    @property
    def needs_units(self) -> bool:
        """Whether it has to be known which dimensions count units."""
        return self.units is not None or self.heads is not None

    def put(self, new: Tensor, value: Tensor, module: nn.Module | None, layout: UnitLayout | None) -> Tensor:
        """The value, with the new one in this part of it."""
        return new if self.is_whole else torch.where(self.mask(value, module, layout), new, value)

    def mask(self, value: Tensor, module: nn.Module | None, layout: UnitLayout | None) -> Tensor:
        """True where the value is meant; it broadcasts to the value.

        Args:
            layout: what the dimensions count; needed for all parts but `index=`.
        """
        if self.index is not None:
            mask = torch.zeros(value.shape, dtype=torch.bool, device=value.device)
            mask[self.index] = True
            return mask
        if layout is None:
            layout = UnitLayout.refused(value.shape, "nothing is known of it")
        axes = _Axes(value, layout.for_shape(value.shape))
        if self.samples is not None:
            axes.choose(axes.samples(), self.samples)
        if self.positions is not None:
            axis = axes.positions()
            now, size = standing_now(), axes.sizes[axis]
            axes.choose(axis, self.positions if now is None else now.here(self.positions, size))
        if self.units is not None:
            axes.choose_units(self.units)
        if self.heads is not None:
            axes.choose_units(self._units_of_heads(axes.layout, module))
        return axes.mask()

    def _units_of_heads(self, layout: UnitLayout, module: nn.Module | None) -> list[int]:
        """The units of some heads: equal parts of the flat index, one after another."""
        n = self.n_heads or heads_of(module)
        if n is None:
            raise EditError("heads= needs to know how many heads there are: add n_heads=.")
        width, rest = divmod(layout.n_units, n)
        if rest:
            raise EditError(
                f"{n} heads do not divide the {layout.n_units} units of a value of shape {list(layout.shape)}."
            )
        if any(not -n <= head < n for head in self.heads or ()):
            raise EditError(f"heads={list(self.heads or ())}: there are {n}, 0 to {n - 1}.")
        return [(head % n) * width + i for head in self.heads or () for i in range(width)]


_WHOLE = Region()


class _Axes:
    """A mask in the making, over a value with every dimension cut into its factors."""

    def __init__(self, value: Tensor, layout: UnitLayout) -> None:
        self.value, self.layout = value, layout
        self.sizes = layout.sizes
        self._mask = torch.ones((1,) * len(self.sizes), dtype=torch.bool, device=value.device)

    def samples(self) -> int:
        if len(self.layout.samples) != 1:
            raise UnitError(
                f"samples= was given, and which dimension of a value of {_shape(self.value)} counts samples is not "
                "known: use index=."
            )
        return self.layout.samples[0]

    def positions(self) -> int:
        axis = self.layout.position if self.layout.is_known else next(iter(self.layout.tokens), None)
        if axis is None:
            raise UnitError(
                f"positions= was given, and no dimension of a value of {_shape(self.value)} counts positions: "
                "use index=."
            )
        return axis

    def choose(self, axis: int, chosen: Index) -> None:
        """Keep some indices of one axis."""
        size = self.sizes[axis]
        row = torch.zeros(size, dtype=torch.bool, device=self.value.device)
        try:
            row[chosen] = True
        except IndexError:
            dim = self.layout.dim_of(axis)
            raise EditError(f"{chosen} lies outside dimension {dim} of a value of {_shape(self.value)}.") from None
        self._mask = self._mask & row.view([size if at == axis else 1 for at in range(len(self.sizes))])

    def choose_units(self, units: Sequence[int]) -> None:
        """Keep some units, by their flat index."""
        layout, n = self.layout, self.layout.n_units
        flat = torch.zeros(n, dtype=torch.bool, device=self.value.device)
        outside = [unit for unit in units if not -n <= unit < n]
        if outside:
            raise EditError(
                f"unit {outside[0]} was asked for, and a value of {_shape(self.value)} has {n} units: 0 to {n - 1}."
            )
        flat[list(units)] = True
        self._mask = self._mask & layout.along_units(flat)

    def mask(self) -> Tensor:
        """As it broadcasts to the value: dimensions that it does not tell apart have size 1."""
        wide, shape, axis = list(self._mask.shape), [], 0
        for dim in self.layout.split:
            axes = range(axis, axis + len(dim))
            if any(wide[at] != 1 for at in axes):
                wide[axis : axis + len(dim)] = dim
            shape.append(prod(wide[at] for at in axes))
            axis += len(dim)
        return self._mask.expand(wide).reshape(shape)


def heads_of(module: nn.Module | None) -> int | None:
    """How many attention heads a module says it has, itself or through its configuration."""
    for holder in (module, getattr(module, "config", None)):
        for name in _HEADS:
            n = getattr(holder, name, None)
            if isinstance(n, int) and not isinstance(n, bool):
                return n
    return None


def _several(value: int | Sequence[int] | None) -> tuple[int, ...] | None:
    if value is None:
        return None
    if isinstance(value, int) and not isinstance(value, bool):
        return (value,)
    return tuple(_numbers(value))


def _index(value: Any) -> Index:
    if value is None or isinstance(value, slice):
        return value
    return [value] if isinstance(value, int) and not isinstance(value, bool) else _numbers(value)


def _numbers(value: Any) -> list[int]:
    """Indices, from several of them or from a mask."""
    found = np.asarray(value)
    if found.ndim != 1 or (found.size and found.dtype.kind not in "iub"):
        raise InputError(f"{value!r} are no indices: give an integer, several, or a mask of one dimension.")
    return [int(each) for each in (np.flatnonzero(found) if found.dtype.kind == "b" else found)]


def _shape(value: Tensor) -> str:
    return f"shape {list(value.shape)}"
