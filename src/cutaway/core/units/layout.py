"""`UnitLayout`: the axes of a value that count units, samples and positions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any, Literal, get_args

import numpy as np

from cutaway.core.errors import UnitError

Source = Literal["producers", "consumers", "elimination", "whole", "module", "stated", "refused"]
"""How it was decided: by the layers that compute the value, by those that read it, because one dimension remains, as
one unit because no unit dimension remains, by the module itself, by the caller, or not at all."""

_UNIT_DIM_HINT = "state the unit dimension with unit_dim="


@dataclass(frozen=True, slots=True)
class UnitLayout:
    """What the dimensions of a value count.

    >>> layout = UnitLayout(((2,), (4,), (5,), (3,)), units=(1, 3), samples=(0,))
    >>> layout.n_units, layout.positions, layout.unit_dims
    (12, (2,), (1, 3))
    """

    split: tuple[tuple[int, ...], ...]
    """The shape, with each dimension split into its factors."""
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
        """Number of units: `#0` to `#n_units - 1`."""
        self.check()
        sizes = self.sizes
        return prod(sizes[axis] for axis in self.units)

    @property
    def unit_dims(self) -> tuple[int, ...]:
        """The dimensions of the value that contain unit axes, in order."""
        return tuple(dict.fromkeys(self.dim_of(axis) for axis in self.units))

    @property
    def unit_dim(self) -> int | None:
        """The one dimension that counts units and nothing else; None if there is no such single dimension."""
        dims = self.unit_dims
        whole = len(dims) == 1 and prod(self.sizes[axis] for axis in self.units) == prod(self.split[dims[0]])
        return dims[0] if whole and list(self.units) == sorted(self.units) else None

    @property
    def sample_dim(self) -> int | None:
        """The one dimension that counts samples and nothing else; None if there is no such single dimension."""
        dim = self.dim_of(self.samples[0]) if len(self.samples) == 1 else None
        return dim if dim is not None and len(self.split[dim]) == 1 else None

    def dim_of(self, axis: int) -> int:
        """The dimension of the value that contains an axis of the flattened split."""
        for dim, sizes in enumerate(self.split):
            if axis < len(sizes):
                return dim
            axis -= len(sizes)
        raise IndexError(axis)

    @property
    def position(self) -> int | None:
        """The axis that `positions=` refers to: the first that is still a dimension of an input, else the first."""
        return next(iter((*self.tokens, *self.positions)), None)

    # values: arrays and tensors alike

    def unit_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """The shape of one unit of a value: without the unit dimensions."""
        layout = self.for_shape(shape)
        left: list[int] = []
        axis = 0
        for dim in layout.split:
            axes = range(axis, axis + len(dim))
            rest = [size for at, size in zip(axes, dim, strict=True) if at not in layout.units]
            if rest or not dim:
                left.append(prod(rest))
            axis += len(dim)
        return tuple(left)

    def unit(self, value: Any, k: int) -> Any:
        """One unit of a value.

        >>> UnitLayout(((2,), (2,), (3,)), units=(1, 2)).unit(np.arange(12).reshape(2, 2, 3), 4)
        array([ 4, 10])
        """
        layout = self.for_shape(value.shape).check()
        layout.check_unit(k)
        if not layout.units:
            return value
        index: list[Any] = [slice(None)] * len(layout.sizes)
        for axis, place in zip(layout.units, layout.place_of(k), strict=True):
            index[axis] = place
        return value.reshape(layout.sizes)[tuple(index)].reshape(layout.unit_shape(value.shape))

    def rows(self, value: Any) -> Any:
        """The value as samples × positions × units, each of them flattened."""
        layout = self.for_shape(value.shape).check()
        sizes, groups = layout.sizes, (layout.samples, layout.positions, layout.units)
        order = tuple(axis for axes in groups for axis in axes)
        moved = value.reshape(sizes)
        if order != tuple(range(len(order))):
            # `transpose` of a tensor takes two dimensions, that of an array all.
            moved = moved.permute(order) if hasattr(moved, "permute") else moved.transpose(order)
        return moved.reshape([prod(sizes[axis] for axis in axes) for axes in groups])

    def samples_first(self, value: Any) -> tuple[Any, UnitLayout]:
        """Moves the samples to the first dimension; returns the value and its new layout.

        A value without a single sample axis is returned unchanged.
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

    def from_rows(self, rows: Any, shape: Sequence[int]) -> Any:
        """The inverse of `rows`: a value of the given shape.

        >>> layout, value = UnitLayout(((2,), (2,), (3,)), units=(1,), samples=(2,)), np.arange(12).reshape(2, 2, 3)
        >>> layout.rows(value).shape, bool((layout.from_rows(layout.rows(value), value.shape) == value).all())
        ((3, 2, 2), True)
        """
        layout = self.for_shape(shape)
        sizes, order = layout.sizes, (*layout.samples, *layout.positions, *layout.units)
        moved = rows.reshape([sizes[axis] for axis in order])
        back = sorted(range(len(order)), key=order.__getitem__)
        moved = moved.permute(back) if hasattr(moved, "permute") else moved.transpose(back)
        return moved.reshape(tuple(shape))

    def along_units(self, numbers: Any) -> Any:
        """One number per unit, broadcastable over the flattened split: other axes have size 1."""
        sizes = self.sizes
        block = numbers.reshape([sizes[axis] for axis in self.units])
        order = sorted(range(len(self.units)), key=self.units.__getitem__)
        block = block.permute(order) if hasattr(block, "permute") else block.transpose(order)
        return block.reshape([size if axis in self.units else 1 for axis, size in enumerate(sizes)])

    def spread(self, numbers: Any, shape: Sequence[int]) -> Any:
        """One number per unit, expanded to a value of the given shape.

        >>> UnitLayout(((2,), (3,)), units=(1,)).spread(np.array([5, 6, 7]), (2, 3))
        array([[5, 6, 7],
               [5, 6, 7]])
        """
        layout = self.for_shape(shape)
        block, sizes = layout.along_units(numbers), layout.sizes
        wide = block.expand(sizes) if hasattr(block, "expand") else np.broadcast_to(block, sizes)
        return wide.reshape(tuple(shape))

    def place_of(self, k: int) -> tuple[int, ...]:
        """The index along each unit axis of a flat unit index."""
        sizes, place = self.sizes, []
        for axis in reversed(self.units):
            k, at = divmod(k, sizes[axis])
            place.append(at)
        return tuple(reversed(place))

    def check_unit(self, k: int, what: str = "") -> None:
        """Raises `UnitError` if there is no unit `k`; `what` names the value in the message."""
        n = self.n_units
        if not 0 <= k < n:
            name = repr(what) if what else "the value"
            raise UnitError(f"unit {k} is out of range: {name} has {n} units, #0 to #{n - 1}.")

    def check(self, what: str = "") -> UnitLayout:
        """Returns itself; raises `UnitError` if it was refused."""
        if not self.is_known:
            name = f"{what!r} has" if what else "this value has"
            how = "" if _UNIT_DIM_HINT in self.reason else f"; {_UNIT_DIM_HINT}"
            raise UnitError(f"{name} no known unit dimension: {self.reason}{how}.")
        return self

    def for_shape(self, shape: Sequence[int], n_samples: int | None = None) -> UnitLayout:
        """The same layout for a value of another size: the number of units is fixed, samples and positions may vary.

        Samples and positions that share a dimension can be separated only if `n_samples` is given; without it both
        count as positions. Raises `UnitError` if units cannot be separated from the rest.
        """
        if n_samples is None and tuple(shape) == self.shape and 0 not in self.sizes:
            return self
        if len(shape) != len(self.split):
            raise UnitError(
                f"a value of shape {list(shape)} does not fit the unit layout, which was found for {len(self.split)} "
                f"dimensions; {_UNIT_DIM_HINT}."
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
        """The new sizes of a dimension, each with the axes it combines."""
        sizes = dict(zip(axes, self.split[dim], strict=True))
        free = [axis for axis in axes if axis not in self.units]
        inside = [axis for axis in free if axis in self.samples]
        if len(free) > 1 and len(inside) == 1 and n_samples is not None:
            # Even if the size is unchanged: 2 samples of 6 tokens have as many rows as 3 samples of 4 tokens.
            sizes[inside[0]] = n_samples
            free.remove(inside[0])
        if prod(sizes.values()) == size and 0 not in sizes.values():
            return [(count, [axis]) for axis, count in sizes.items()]
        known = prod(count for axis, count in sizes.items() if axis not in free)
        is_one_run = bool(free) and free[-1] - free[0] == len(free) - 1
        if not is_one_run or not known or size % known:
            raise UnitError(
                f"dimension {dim} had {prod(self.split[dim])} entries when its units were found and has {size} now, so "
                f"they cannot be separated; {_UNIT_DIM_HINT}."
            )
        groups = [(count, [axis]) for axis, count in sizes.items() if axis not in free]
        groups.append((size // known, free))
        return sorted(groups, key=lambda group: group[1][0])

    def pattern(self) -> UnitLayout:
        """The same layout with 0 for the sizes of samples and positions, which vary between batches."""
        split, axis = [], 0
        for dim in self.split:
            split.append(tuple(size if axis + at in self.units else 0 for at, size in enumerate(dim)))
            axis += len(dim)
        return replace(self, split=tuple(split))

    def is_like(self, other: UnitLayout) -> bool:
        """Whether another layout is the same apart from the numbers of samples and positions."""
        return self.pattern() == other.pattern()

    # plain data

    def to_list(self) -> list[Any]:
        """As a list, for JSON or msgpack."""
        axes = [list(self.units), list(self.samples), list(self.tokens)]
        return [[list(dim) for dim in self.split], *axes, self.source, self.reason]

    @staticmethod
    def from_list(data: Any) -> UnitLayout:
        """The inverse of `to_list`; raises `ValueError` for anything else."""
        split, units, samples, tokens, source, reason = data
        units, samples, tokens = (tuple(int(axis) for axis in axes) for axes in (units, samples, tokens))
        sizes = tuple(tuple(int(size) for size in dim) for dim in split)
        layout = UnitLayout(sizes, units, samples, tokens, source, str(reason))
        n, axes = len(layout.sizes), (*layout.units, *layout.samples, *layout.tokens)
        if source not in get_args(Source) or any(not 0 <= axis < n for axis in axes):
            raise ValueError(f"{data!r} is not a unit layout")
        return layout

    @staticmethod
    def refused(shape: Sequence[int], reason: str) -> UnitLayout:
        return UnitLayout(tuple((int(size),) for size in shape), source="refused", reason=reason)

    @staticmethod
    def of_dims(shape: Sequence[int], unit_dims: Sequence[int], source: Source = "stated") -> UnitLayout:
        """Whole dimensions count units; nothing else is known.

        >>> UnitLayout.of_dims((2, 3, 4), [-1]).units
        (2,)
        """
        return UnitLayout(tuple((int(size),) for size in shape)).with_units(unit_dims, source)

    def with_units(self, unit_dims: Sequence[int], source: Source = "stated") -> UnitLayout:
        """The same samples and tokens, with whole dimensions as units: what a caller states with `unit_dim=`.

        >>> UnitLayout(((2, 3), (4,), (5,)), samples=(0,), tokens=(2,)).with_units([-1])
        UnitLayout(split=((2, 3), (4,), (5,)), units=(3,), samples=(0,), tokens=(2,), source='stated', reason='')
        """
        shape, n = self.shape, len(self.split)
        dims = [dim + n if dim < 0 else dim for dim in unit_dims]
        for given, dim in zip(unit_dims, dims, strict=True):
            if not 0 <= dim < n:
                raise UnitError(f"unit_dim={given} is out of range: the value has {n} dimensions, {list(shape)}.")
        if len(set(dims)) < len(dims):
            raise UnitError(f"unit_dim={list(unit_dims)} repeats a dimension.")
        split = tuple((shape[dim],) if dim in dims else sizes for dim, sizes in enumerate(self.split))
        starts = np.cumsum([0, *map(len, split)]).tolist()
        old = np.cumsum([0, *map(len, self.split)]).tolist()

        def moved(axes: tuple[int, ...]) -> tuple[int, ...]:
            remaining = [axis for axis in axes if self.dim_of(axis) not in dims]
            return tuple(starts[self.dim_of(axis)] + axis - old[self.dim_of(axis)] for axis in remaining)

        return UnitLayout(split, tuple(starts[dim] for dim in dims), moved(self.samples), moved(self.tokens), source)


def layout_of_pass(passes: Mapping[int, UnitLayout], pass_: int) -> UnitLayout | None:
    """The layout of one pass of a site; for a pass that was not traced, the layout that all traced ones share.

    >>> once = UnitLayout(((2,), (3,)), units=(1,))
    >>> layout_of_pass({1: once}, 7) is once, layout_of_pass({1: once, 2: UnitLayout(((2,), (3,)), units=(0,))}, 7)
    (True, None)
    """
    layout = passes.get(pass_)
    if layout is None and passes:
        first, *others = passes.values()
        layout = first if all(first.is_like(other) for other in others) else None
    return layout
