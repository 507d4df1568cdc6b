"""The answer for one value: which axes count its units, which its samples, which its positions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any, Literal, get_args

import numpy as np

from cutaway.core.errors import UnitError

Source = Literal["producers", "consumers", "elimination", "whole", "module", "stated", "refused"]
"""How it was decided: by the layers that made the value, by those that read it, because one dimension was left, as
one unit because no unit dimension is left, by the module itself, by the caller, or not at all."""

_HOW = "say which dimension counts units with unit_dim="


@dataclass(frozen=True, slots=True)
class UnitLayout:
    """What the dimensions of a value count.

    >>> layout = UnitLayout(((2,), (4,), (5,), (3,)), units=(1, 3), samples=(0,))
    >>> layout.n_units, layout.positions, layout.unit_dims
    (12, (2,), (1, 3))
    """

    split: tuple[tuple[int, ...], ...]
    """The shape, each dimension cut into its factors."""
    units: tuple[int, ...] = ()
    """Axes of the flattened split, in the order of the flat index `#k`; none if the whole value is one unit."""
    samples: tuple[int, ...] = ()
    tokens: tuple[int, ...] = ()
    """Positions that are still a dimension of an input, such as the tokens of a text."""
    source: Source = "producers"
    reason: str = ""
    """Why it was refused."""

    @property
    def is_known(self) -> bool:
        return self.source != "refused"

    @property
    def sizes(self) -> tuple[int, ...]:
        """The flattened split."""
        return tuple(size for dim in self.split for size in dim)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(prod(dim) for dim in self.split)

    @property
    def positions(self) -> tuple[int, ...]:
        """All other axes of the flattened split."""
        taken = {*self.units, *self.samples}
        return tuple(axis for axis in range(len(self.sizes)) if axis not in taken)

    @property
    def n_units(self) -> int:
        """How many units there are: `#0` to `#n_units - 1`."""
        self.check()
        sizes = self.sizes
        return prod(sizes[axis] for axis in self.units)

    @property
    def unit_dims(self) -> tuple[int, ...]:
        """The dimensions of the value that hold unit axes, in order."""
        return tuple(dict.fromkeys(self.dim_of(axis) for axis in self.units))

    @property
    def unit_dim(self) -> int | None:
        """The one dimension that counts units and nothing else; None if there is no such single dimension."""
        dims = self.unit_dims
        whole = len(dims) == 1 and prod(self.sizes[axis] for axis in self.units) == prod(self.split[dims[0]])
        return dims[0] if whole and list(self.units) == sorted(self.units) else None

    def dim_of(self, axis: int) -> int:
        """The dimension of the value that an axis of the flattened split is part of."""
        for dim, sizes in enumerate(self.split):
            if axis < len(sizes):
                return dim
            axis -= len(sizes)
        raise IndexError(axis)

    @property
    def position(self) -> int | None:
        """The axis that `positions=` means: the first that is still a dimension of an input, else the first."""
        return next(iter((*self.tokens, *self.positions)), None)

    # values: arrays and tensors alike

    def cut(self, value: Any) -> Any:
        """The value with every dimension cut into its factors: a view."""
        return value.reshape(self.for_shape(value.shape).sizes)

    def unit_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """The shape of one unit of a value: without the dimensions that count units."""
        layout = self.for_shape(shape)
        left: list[int] = []
        axis = 0
        for dim in layout.split:
            axes = range(axis, axis + len(dim))
            rest = [size for at, size in zip(axes, dim, strict=True) if at not in self.units]
            if rest or not dim:
                left.append(prod(rest))
            axis += len(dim)
        return tuple(left)

    def unit(self, value: Any, k: int) -> Any:
        """One unit of a value.

        >>> import numpy as np
        >>> UnitLayout(((2,), (2,), (3,)), units=(1, 2)).unit(np.arange(12).reshape(2, 2, 3), 4)
        array([ 4, 10])
        """
        layout = self.for_shape(value.shape).check()
        layout.check_unit(k)
        if not self.units:
            return value
        index: list[Any] = [slice(None)] * len(layout.sizes)
        for axis, place in zip(self.units, layout.place_of(k), strict=True):
            index[axis] = place
        return value.reshape(layout.sizes)[tuple(index)].reshape(self.unit_shape(value.shape))

    def rows(self, value: Any) -> Any:
        """The value as samples × positions × units, each of them flattened; axes in their order."""
        layout = self.for_shape(value.shape).check()
        sizes, order = layout.sizes, (*self.samples, *self.positions, *self.units)
        moved = value.reshape(sizes)
        if order != tuple(range(len(order))):
            moved = moved.permute(order) if hasattr(moved, "permute") else moved.transpose(order)
        counts = [prod(sizes[axis] for axis in axes) for axes in (self.samples, self.positions, self.units)]
        return moved.reshape(counts)

    def samples_first(self, value: Any) -> tuple[Any, UnitLayout]:
        """The value with its samples as the first dimension, and the layout that it has then.

        A value without a single axis of samples is given back as it is.
        """
        layout = self.for_shape(value.shape)
        if len(layout.samples) != 1 or (layout.samples == (0,) and len(layout.split[0]) == 1):
            return value, layout
        (axis,) = layout.samples
        sizes = layout.sizes
        moved = np.moveaxis(np.reshape(value, sizes), axis, 0)
        split: list[tuple[int, ...]] = [(sizes[axis],)]
        at = 0
        for dim in layout.split:
            rest = tuple(size for number, size in enumerate(dim) if at + number != axis)
            split += [rest] if rest else []
            at += len(dim)

        def now(old: int) -> int:
            return old + 1 if old < axis else old

        units, tokens = tuple(map(now, layout.units)), tuple(map(now, layout.tokens))
        new = replace(layout, split=tuple(split), units=units, samples=(0,), tokens=tokens)
        return moved.reshape(new.shape), new

    def broadcast(self, numbers: Any) -> Any:
        """One number for each unit, as an array that broadcasts to the value with its dimensions cut (`cut`)."""
        order = sorted(range(len(self.units)), key=lambda i: self.units[i])
        block = np.reshape(numbers, [self.sizes[axis] for axis in self.units]).transpose(order)
        return block.reshape([size if axis in self.units else 1 for axis, size in enumerate(self.sizes)])

    def place_of(self, k: int) -> tuple[int, ...]:
        """The index on each unit axis of a flat unit number."""
        sizes, place = self.sizes, []
        for axis in reversed(self.units):
            k, at = divmod(k, sizes[axis])
            place.append(at)
        return tuple(reversed(place))

    def check_unit(self, k: int, what: str = "") -> None:
        n = self.n_units
        if not 0 <= k < n:
            name = repr(what) if what else "the value"
            raise UnitError(f"unit {k} was asked for, and {name} has {n} units: #0 to #{n - 1}.")

    def check(self, what: str = "") -> UnitLayout:
        """Raise `UnitError` if it was refused."""
        if not self.is_known:
            name = f"{what!r} has" if what else "this value has"
            raise UnitError(f"{name} no dimension that is known to count units: {self.reason}; {_HOW}.")
        return self

    def for_shape(self, shape: Sequence[int], n_samples: int | None = None) -> UnitLayout:
        """The same layout for a value of other sizes: units stay as many, samples and positions may differ.

        Samples and positions that share a dimension can be told apart again only if the number of samples is given;
        without it they count as positions together. Raises `UnitError` where units cannot be told from the rest.
        """
        if tuple(shape) == self.shape and 0 not in self.sizes:
            return self
        if len(shape) != len(self.split):
            raise UnitError(
                f"a value of shape {list(shape)} came where one of {len(self.split)} dimensions was seen when the "
                f"units were found; {_HOW}."
            )
        split: list[tuple[int, ...]] = []
        new: dict[int, int] = {}  # axis → axis of the new split
        merged: set[int] = set()
        axis = n_axes = 0
        for dim, (old, size) in enumerate(zip(self.split, shape, strict=True)):
            axes = range(axis, axis + len(old))
            groups = self._groups_for(dim, axes, size, n_samples)
            split.append(tuple(count for count, _ in groups))
            for number, (_, members) in enumerate(groups):
                new.update(dict.fromkeys(members, n_axes + number))
                merged.update(members if len(members) > 1 else ())
            axis, n_axes = axis + len(old), n_axes + len(groups)
        units = tuple(new[each] for each in self.units)
        samples = tuple(new[each] for each in self.samples if each not in merged)
        tokens = tuple(dict.fromkeys(new[each] for each in self.tokens))
        return replace(self, split=tuple(split), units=units, samples=samples, tokens=tokens)

    def _groups_for(self, dim: int, axes: range, size: int, n_samples: int | None) -> list[tuple[int, list[int]]]:
        """The new sizes of a dimension, each with the axes that it stands for."""
        sizes = dict(zip(axes, self.split[dim], strict=True))
        if prod(sizes.values()) == size and 0 not in sizes.values():
            return [(count, [axis]) for axis, count in sizes.items()]
        free = [axis for axis in axes if axis not in self.units]
        inside = [axis for axis in free if axis in self.samples]
        if len(free) > 1 and len(inside) == 1 and n_samples is not None:
            sizes[inside[0]] = n_samples
            free.remove(inside[0])
        known = prod(count for axis, count in sizes.items() if axis not in free)
        is_one_run = bool(free) and free[-1] - free[0] == len(free) - 1
        if not is_one_run or not known or size % known:
            raise UnitError(
                f"dimension {dim} has {size} entries: how many of them are samples, positions and units cannot be told; "
                f"{_HOW}."
            )
        groups = [(count, [axis]) for axis, count in sizes.items() if axis not in free]
        groups.append((size // known, free))
        return sorted(groups, key=lambda group: group[1][0])

    def pattern(self) -> UnitLayout:
        """The same without the sizes of samples and positions, which differ from batch to batch: 0 in their place."""
        split, axis = [], 0
        for dim in self.split:
            split.append(tuple(size if axis + at in self.units else 0 for at, size in enumerate(dim)))
            axis += len(dim)
        return replace(self, split=tuple(split))

    # plain data

    def to_list(self) -> list[Any]:
        """As JSON or msgpack keeps it."""
        axes = [list(self.units), list(self.samples), list(self.tokens)]
        return [[list(dim) for dim in self.split], *axes, self.source, self.reason]

    @staticmethod
    def from_list(data: Any) -> UnitLayout:
        """Back from `to_list`; raises `ValueError` where it is no such list."""
        split, units, samples, tokens, source, reason = data
        units, samples, tokens = (tuple(int(axis) for axis in axes) for axes in (units, samples, tokens))
        sizes = tuple(tuple(int(size) for size in dim) for dim in split)
        layout = UnitLayout(sizes, units, samples, tokens, source, str(reason))
        n, axes = len(layout.sizes), (*layout.units, *layout.samples, *layout.tokens)
        if source not in get_args(Source) or any(not 0 <= axis < n for axis in axes):
            raise ValueError(f"{data!r} is no layout of units")
        return layout

    @staticmethod
    def refused(shape: Sequence[int], reason: str) -> UnitLayout:
        return UnitLayout(tuple((int(size),) for size in shape), source="refused", reason=reason)

    @staticmethod
    def of_dims(
        shape: Sequence[int], unit_dims: Sequence[int], sample_dim: int | None = None, source: Source = "stated"
    ) -> UnitLayout:
        """Whole dimensions count units, as a caller says with `unit_dim=`.

        >>> UnitLayout.of_dims((2, 3, 4), [-1]).units
        (2,)
        """
        n = len(shape)
        units = tuple(dim + n if dim < 0 else dim for dim in unit_dims)
        for given, dim in zip(unit_dims, units, strict=True):
            if not 0 <= dim < n:
                raise UnitError(f"unit_dim={given} was given, and the value has {n} dimensions: {list(shape)}.")
        samples = () if sample_dim is None or sample_dim in units else (sample_dim,)
        return UnitLayout(tuple((int(size),) for size in shape), units, samples, source=source)
