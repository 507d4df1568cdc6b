"""Which dimension of a value counts what: told from two small runs of different sizes, not guessed from numbers.

The model is run on a few samples of a few tokens, then on some more of both. The dimension that has grown with the
samples counts samples, the one that has grown with the tokens counts positions.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from cutaway.collecting.site_values import SiteValues, Value
from cutaway.core.errors import InputError
from cutaway.core.sites import Site
from cutaway.store.activations_windows import CollectedSite

_PASSES = "name a pass that always runs, such as ':1'"


@dataclass(frozen=True, slots=True)
class Size:
    """How many samples, and tokens of each, a run has; no tokens where data is no text."""

    samples: int
    tokens: int = 0


@dataclass(frozen=True, slots=True)
class Column:
    """One site that is collected, and how its values lie."""

    name: str
    width: int
    unit_dim: int
    """Counted from the end for the last one, else from the front: as it is told to others."""
    order: tuple[int, ...]
    """The dimensions in the order samples, positions, units."""
    is_flat: bool = False
    """Whether samples and tokens are one dimension."""
    has_positions: bool = True

    @property
    def collected(self) -> CollectedSite:
        return CollectedSite(self.name, self.width, self.unit_dim)

    def laid_out(self, value: Tensor, n_samples: int) -> Tensor:
        """The value as samples × positions × units, one position where it has none."""
        if self.is_flat:
            return value.reshape(n_samples, -1, value.shape[-1])
        if self.order != tuple(range(value.dim())):
            value = value.permute(self.order)
        return value.reshape(value.shape[0], -1, value.shape[-1])


@dataclass(frozen=True, slots=True)
class Columns:
    """All that is collected."""

    by_site: dict[Site, Column]
    """By the full site, pass included."""

    def __iter__(self) -> Iterator[Column]:
        return iter(self.by_site.values())

    @property
    def sites(self) -> tuple[CollectedSite, ...]:
        return tuple(column.collected for column in self)

    def met(self, value: Value, found: Container[str]) -> Column:
        """The column that a value belongs to, which must not have had one in this run."""
        column = self.by_site.get(value.site)
        if column is None or column.name in found:
            raise InputError(f"{str(value.site)!r} ran more often than on the first items: {_PASSES}.")
        return column

    def check_all(self, found: Container[str]) -> None:
        """Raise where a column had no value in a run."""
        for column in self:
            if column.name not in found:
                raise InputError(f"{column.name!r} ran on the first items, and not on some later ones: {_PASSES}.")


def columns_of(values_at: SiteValues, runs: Sequence[tuple[Size, Callable[[], Any]]]) -> Columns:
    """What is collected at the sites, found in one or two runs: in the order asked for, then in that of the run."""
    seen: list[dict[Site, Value]] = []
    for _, call in runs:
        found: dict[Site, Value] = {}
        values_at.run(call, lambda value, found=found: found.update({value.site: value}))  # type: ignore[misc]
        seen.append(found)
    asked = values_at.sites
    for wanted in asked:
        if not any(wanted.matches(site) for site in seen[0]) and not wanted.is_pattern:
            raise values_at.nothing_at(wanted)
    if not seen[0]:
        raise values_at.nothing_at(asked[0])
    if seen[0].keys() != seen[-1].keys():
        odd = next(iter(seen[0].keys() ^ seen[-1].keys()))
        raise InputError(f"how often {str(odd)!r} runs depends on the input: {_PASSES}.")
    sizes = [size for size, _ in runs]

    def turn(value: Value) -> int:
        return next(i for i, site in enumerate(asked) if site.matches(value.site))

    values = sorted(seen[0].values(), key=turn)
    columns: dict[Site, Column] = {}
    for value in values:
        tensors = [found[value.site].tensor for found in seen]
        columns[value.site] = _column(values_at.name_of(value, values), value, tensors, sizes)
    return Columns(columns)


def _column(name: str, value: Value, tensors: list[Tensor], sizes: list[Size]) -> Column:
    shapes = [tuple(tensor.shape) for tensor in tensors]
    dims = range(len(shapes[0]))

    def counting(counts: list[int]) -> list[int]:
        return [d for d in dims if all(shape[d] == n for shape, n in zip(shapes, counts, strict=True))]

    samples = counting([size.samples for size in sizes])
    if len(sizes) == 1:  # of a single batch, the first dimension that fits
        samples = samples[:1]
    if sizes[0].tokens:
        flat = counting([size.samples * size.tokens for size in sizes])
        if not samples and flat == [0] and len(dims) == 2:
            return Column(name, shapes[0][1], -1, (0, 1), is_flat=True)
    if not samples or any(len(shape) != len(dims) for shape in shapes):
        raise InputError(
            f"{name!r} has no dimension for the samples: its shape is {list(shapes[0])} for {sizes[0].samples}."
        )
    batch = samples[0]
    rest = [d for d in dims if d != batch]
    if not rest:
        return Column(name, 1, -1, (batch,), has_positions=False)
    unit = value.unit_dim if value.unit_dim in rest else rest[-1]
    positions = [d for d in rest if d != unit]
    if sizes[0].tokens:
        positions = [d for d in counting([size.tokens for size in sizes]) if d != batch]
        if not positions and len(rest) == 2:
            raise InputError(
                f"{name!r} has the shape {list(shapes[0])} for {sizes[0].samples} sentences of {sizes[0].tokens} "
                "tokens: its positions are not the tokens, and its rows would be no words."
            )
        if len(positions) > 1 or len(rest) > 1 + len(positions):
            raise InputError(
                f"{name!r} has the shape {list(shapes[0])} for {sizes[0].samples} sentences of {sizes[0].tokens} "
                "tokens: a row of it would be no vector. Collect a site of samples × tokens × units; heads side by "
                "side are what the projection behind them is given, such as '….o_proj@in.0'."
            )
        unit = next((d for d in rest if d not in positions), -1)
        if unit < 0:
            raise InputError(f"{name!r} has the shape {list(shapes[0])}: no dimension of it counts units.")
    widths = {shape[unit] for shape in shapes}
    if len(widths) > 1:
        raise InputError(f"{name!r} has {' and then '.join(map(str, sorted(widths)))} units: their number must stay.")
    told = -1 if unit == len(dims) - 1 else unit
    return Column(name, shapes[0][unit], told, (batch, *positions, unit), has_positions=bool(positions))
