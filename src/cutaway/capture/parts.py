"""Which part of a value is meant: units, heads, positions, samples, or any index."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypedDict

import numpy as np
import torch
from torch import Tensor, nn

from cutaway.capture.standing import standing_now
from cutaway.core.errors import EditError, InputError

Index = Any
"""What may stand between the brackets of a tensor."""

_HEADS = ("num_heads", "n_head", "n_heads", "num_attention_heads", "nhead", "num_key_value_heads")


class Part(TypedDict, total=False):
    """The keywords by which a part of a value is chosen; what is left out means all."""

    units: int | Sequence[int]
    """Of the last dimension; of dimension 1 for results of convolutions."""
    heads: int | Sequence[int]
    """Attention heads: dimension 1 of (sample, head, position, unit), else equal parts of the last dimension."""
    n_heads: int
    """How many heads there are, where the model does not say."""
    positions: int | slice | Sequence[int]
    """Of the second to last dimension: tokens of a sequence; while a model writes, those of the whole text."""
    samples: int | slice | Sequence[int]
    """Of the first dimension."""
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
        )

    @property
    def is_whole(self) -> bool:
        return self == _WHOLE or self == Region(n_heads=self.n_heads)

    def put(self, new: Tensor, value: Tensor, module: nn.Module | None, unit_dimension: int) -> Tensor:
        """The value, with the new one in this part of it."""
        return new if self.is_whole else torch.where(self.mask(value, module, unit_dimension), new, value)

    def mask(self, value: Tensor, module: nn.Module | None, unit_dimension: int) -> Tensor:
        """True where the value is meant; it broadcasts to the value."""
        if self.index is not None:
            mask = torch.zeros(value.shape, dtype=torch.bool, device=value.device)
            mask[self.index] = True
            return mask
        found = torch.ones((1,) * value.dim(), dtype=torch.bool, device=value.device)
        for dimension, chosen in self._by_dimension(value, module, unit_dimension):
            found = found & _along(value, dimension, chosen)
        return found

    def _by_dimension(self, value: Tensor, module: nn.Module | None, unit_dimension: int) -> list[tuple[int, Index]]:
        chosen: list[tuple[int, Index]] = []
        if self.samples is not None:
            chosen.append((0, self.samples))
        if self.positions is not None:
            if value.dim() < 2:
                raise EditError(f"positions= asks for a second to last dimension, and the value is {_shape(value)}.")
            now = standing_now()
            size = value.shape[-2]
            chosen.append((value.dim() - 2, self.positions if now is None else now.here(self.positions, size)))
        if self.units is not None:
            chosen.append((unit_dimension, list(self.units)))
        if self.heads is not None:
            chosen.append(self._heads(value, module))
        return chosen

    def _heads(self, value: Tensor, module: nn.Module | None) -> tuple[int, Index]:
        n = self.n_heads or heads_of(module)
        if n is None:
            raise EditError("heads= needs to know how many heads there are: add n_heads=.")
        heads = list(self.heads or ())
        if value.dim() == 4 and value.shape[1] == n:
            return 1, heads
        if value.dim() > 2 and value.shape[-1] == value.shape[-2]:
            raise EditError(f"where the heads are in a value of {_shape(value)} cannot be told: use index=.")
        width, rest = divmod(value.shape[-1], n)
        if rest:
            raise EditError(f"{n} heads do not divide the last dimension of a value of {_shape(value)}.")
        return value.dim() - 1, [head * width + i for head in heads for i in range(width)]


_WHOLE = Region()


def heads_of(module: nn.Module | None) -> int | None:
    """How many attention heads a module says it has, itself or through its configuration."""
    for holder in (module, getattr(module, "config", None)):
        for name in _HEADS:
            n = getattr(holder, name, None)
            if isinstance(n, int) and not isinstance(n, bool):
                return n
    return None


def _along(value: Tensor, dimension: int, chosen: Index) -> Tensor:
    size = value.shape[dimension]
    row = torch.zeros(size, dtype=torch.bool, device=value.device)
    try:
        row[chosen] = True
    except IndexError:
        raise EditError(f"{chosen} lies outside dimension {dimension} of a value of {_shape(value)}.") from None
    return row.view([size if d == dimension else 1 for d in range(value.dim())])


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
