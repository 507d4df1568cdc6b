"""Turns the value at each collected site into rows × units, by its unit layout.

The layout comes from one traced run. A second run of another size checks it: it must have the right number of samples
and tokens along the dimensions that the layout names.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import torch
from torch import Tensor

from cutaway.capture.api import watch
from cutaway.capture.units.live_units import SiteLayouts, UnitDim, dims_of, trace_hidden_run
from cutaway.collecting.site_values import SiteValues, Value
from cutaway.core.errors import CutawayError, InputError, UnitError
from cutaway.core.formatting import plural
from cutaway.core.sites import Site
from cutaway.core.units.layout import UnitLayout
from cutaway.graph.trace import Trace
from cutaway.store.activations.windows import CollectedSite

_PASSES = "name a pass that always runs, such as ':1'"


@dataclass(frozen=True, slots=True)
class Size:
    """The number of samples of a run, and of tokens per sample (0 if the data is not text)."""

    samples: int
    tokens: int = 0


@dataclass(frozen=True, slots=True)
class Column:
    """One collected site and its layout."""

    name: str
    layout: UnitLayout
    has_positions: bool = True

    @property
    def width(self) -> int:
        return self.layout.n_units

    @property
    def collected_site(self) -> CollectedSite:
        dim = self.layout.unit_dim
        last = len(self.layout.split) - 1
        return CollectedSite(self.name, self.width, -1 if dim in (None, last) else dim, layout=self.layout)  # type: ignore[arg-type]

    def to_rows(self, value: Tensor, n_samples: int) -> Tensor:
        """The value as samples × positions × units; one position if it has none."""
        rows: Tensor = self.layout.for_shape(value.shape, n_samples).rows(value)
        return rows


@dataclass(frozen=True, slots=True)
class Columns:
    """All collected sites."""

    by_site: dict[Site, Column]
    """By the full site, pass included."""
    left_out: dict[str, str] = field(default_factory=dict)
    """Sites that a pattern matches but that have no rows and units → the reason."""
    skipped: frozenset[Site] = frozenset()
    """The same sites, in full."""

    def __iter__(self) -> Iterator[Column]:
        return iter(self.by_site.values())

    @property
    def sites(self) -> tuple[CollectedSite, ...]:
        return tuple(column.collected_site for column in self)

    def column_of(self, value: Value, collected: Container[str]) -> Column | None:
        """The column of a value; None for skipped sites. Raises if the column has a value already in this run."""
        column = self.by_site.get(value.site)
        if column is None and value.site in self.skipped:
            return None
        if column is None or column.name in collected:
            raise InputError(f"{str(value.site)!r} ran more often than on the first items: {_PASSES}.")
        return column

    def check_all(self, collected: Container[str]) -> None:
        """Raise if a column had no value in a run."""
        for column in self:
            if column.name not in collected:
                raise InputError(f"{column.name!r} ran on the first items, but not on a later one: {_PASSES}.")


@dataclass(frozen=True, slots=True)
class ProbeRun:
    """The values of one small run."""

    size: Size
    values: dict[Site, Value]


def run_once(values_at: SiteValues, call: Callable[[], Any]) -> dict[Site, Value]:
    """Run once and return the values by full site."""
    values: dict[Site, Value] = {}
    values_at.run(call, lambda value: values.update({value.site: value}))
    return values


def run_traced(values_at: SiteValues, call: Callable[[], Any]) -> tuple[dict[Site, Value], list[Trace]]:
    """Like `run_once`, and also return traces of the run."""
    # Layouts need the graph only, so no values are saved.
    with watch(values_at.model, save=None) as trace:
        values = run_once(values_at, call)
    traces = [trace]
    if any(value.was_nested for value in values.values()):
        # nn.TransformerEncoder turns padded inputs into nested tensors on its fast path; a trace has no shapes of them.
        was_on = torch.backends.mha.get_fastpath_enabled()
        torch.backends.mha.set_fastpath_enabled(False)
        try:
            traces.append(trace_hidden_run(values_at.model, call))
        finally:
            torch.backends.mha.set_fastpath_enabled(was_on)
    return values, traces


def find_columns(
    values_at: SiteValues,
    runs: Sequence[ProbeRun],
    traces: Sequence[Trace],
    *,
    unit_dim: UnitDim | None = None,
    rows: str = "items",
) -> Columns:
    """The collected sites, in the order requested, then in the order of execution.

    Args:
        runs: the traced run, and one of another size if there is enough data.
        traces: traces of the first run; a value that one trace lacks is looked up in the next.
        unit_dim: the unit dimension of all sites, if the caller states it.
        rows: what a row is. A site without positions can be collected only with rows="items".
    """
    first, last = runs[0].values, runs[-1].values
    asked = values_at.sites
    for requested in asked:
        if not any(requested.matches(site) for site in first) and not requested.is_pattern:
            raise values_at.no_value_error(requested)
    if not first:
        raise values_at.no_value_error(asked[0])
    # Rows of all items must have the same columns.
    if first.keys() != last.keys():
        odd = next(iter(first.keys() ^ last.keys()))
        raise InputError(f"how often {str(odd)!r} runs depends on the input: {_PASSES}.")

    def turn(value: Value) -> int:
        return next(i for i, site in enumerate(asked) if site.matches(value.site))

    # A stable sort: sites of one pattern stay in the order of execution.
    values = sorted(first.values(), key=turn)
    layouts = [SiteLayouts(trace) for trace in traces]
    columns: dict[Site, Column] = {}
    left_out: dict[Site, tuple[str, CutawayError]] = {}
    for value in values:
        name = values_at.name_of(value, values)
        shapes = [tuple(run.values[value.site].tensor.shape) for run in runs]
        try:
            layout = _layout_of(value, name, layouts, unit_dim)
            columns[value.site] = _column(name, layout, shapes, [run.size for run in runs], rows)
        except (InputError, UnitError) as error:
            if values_at.is_named(value.site):
                raise
            left_out[value.site] = (name, error)
    if not columns:
        raise next(iter(left_out.values()))[1]
    return Columns(columns, {name: str(error) for name, error in left_out.values()}, frozenset(left_out))


def _layout_of(value: Value, name: str, layouts: Sequence[SiteLayouts], unit_dim: UnitDim | None) -> UnitLayout:
    shape = tuple(value.tensor.shape)
    candidates = [each.find(value.site) for each in layouts]
    layout = next((each for each in candidates if each is not None and len(each.split) == len(shape)), None)
    if layout is None:
        layout = UnitLayout.refused(shape, "the traced run has no such value")
    if unit_dim is not None:
        layout = layout.for_shape(shape).with_units(dims_of(unit_dim))
    return layout.check(name)


def _column(name: str, layout: UnitLayout, shapes: list[tuple[int, ...]], sizes: list[Size], rows: str) -> Column:
    """One column, checked in every run."""
    shape, size = list(shapes[0]), sizes[0]
    if not layout.samples:
        raise InputError(
            f"{name!r} has no sample dimension: its shape is {shape} for {plural(size.samples, 'sample')}. The model "
            "has selected or mixed its rows, or it is the same for all samples."
        )
    has_positions = True
    for seen, expected in zip(shapes, sizes, strict=True):
        here = _for_run(name, layout, seen, expected)
        counted = prod(here.sizes[axis] for axis in here.samples)
        if counted != expected.samples:
            raise InputError(
                f"{name!r} has {counted} samples in a run of {expected.samples}: its shape is {list(seen)}. Set the "
                "sample dimension of the data with samples=."
            )
        if expected.tokens:
            has_positions = _check_tokens(name, here, expected)
            if not has_positions and rows != "items":
                raise InputError(f"{name!r} has no positions, and so no row per token: collect it with rows='items'.")
    return Column(name, layout, has_positions)


def _for_run(name: str, layout: UnitLayout, shape: tuple[int, ...], size: Size) -> UnitLayout:
    if len(shape) != len(layout.split):
        raise InputError(f"{name!r} has {len(shape)} dimensions in one run and {len(layout.split)} in another.")
    units = [prod(s for a, s in _axes(layout, dim) if a in layout.units) for dim in range(len(shape))]
    for dim, (n, now) in enumerate(zip(units, shape, strict=True)):
        is_whole = all(axis in layout.units for axis, _ in _axes(layout, dim))
        if is_whole and n != now:
            raise InputError(f"{name!r} has {n} units in one run and {now} in another: the number must not change.")
    return layout.for_shape(shape, size.samples)


def _axes(layout: UnitLayout, dim: int) -> list[tuple[int, int]]:
    """(axis, size) for each factor of one dimension."""
    first = sum(map(len, layout.split[:dim]))
    return list(enumerate(layout.split[dim], first))


def _check_tokens(name: str, layout: UnitLayout, size: Size) -> bool:
    """Whether a value of text has positions: one axis, as long as there are tokens. Raises if it has others."""
    sizes = layout.sizes
    long = [axis for axis in layout.positions if sizes[axis] != 1]
    position = next(iter((*layout.tokens, *long)), None)
    if position is None:
        return False
    given = f"{name!r} has shape {list(layout.shape)} for {size.samples} sentences of {size.tokens} tokens"
    if sizes[position] != size.tokens:
        raise InputError(f"{given}: its positions are not the tokens, so its rows would not be words.")
    if any(axis != position for axis in long):
        raise InputError(
            f"{given}: besides its {layout.n_units} units it has several positions per token, so a row would not be a "
            "vector. Collect a site of shape samples × tokens × units."
        )
    return True
