"""Passes of recorded tensors: which rows are the same tensor, in execution order.

A recorder writes `cell` for a module that ran once in a step, and `cell:1`, `cell:2` for one that ran twice. Both name
one tensor, `cell`. In each step it has one or more *passes*, identified by iteration (0 outside `run.iteration()`) and
number within that iteration, from 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from cutaway.core.arrays import Array
from cutaway.core.errors import ShapesDifferError
from cutaway.core.sites import Site, split_pass

if TYPE_CHECKING:
    from cutaway.store.format.records import Row

PASS_DTYPE: Final = np.dtype([("iteration", np.int64), ("pass", np.int64)])


class Pass(NamedTuple):
    """One pass of a tensor within a step."""

    iteration: int
    """0 outside `run.iteration()`."""
    number: int
    """Within the iteration, from 1."""


class PassKey(NamedTuple):
    """A recorded quantity ("value", "grad"…) of a tensor in one pass."""

    of: str
    iteration: int
    pass_: int

    @property
    def where(self) -> Pass:
        """The pass alone."""
        return Pass(self.iteration, self.pass_)


class Tensors:
    """Index of the tensors of one schema, by each of their names; rows that describe samples are not included.

    Args:
        rows: the rows of the schema, in order.
    """

    def __init__(self, rows: Sequence[Row]) -> None:
        self._rows: dict[str, dict[PassKey, int]] = {}
        self._passes: dict[str, tuple[Pass, ...]] = {}
        tensor_rows = [(number, row) for number, row in enumerate(rows) if not row.is_sample]
        for number, row in tensor_rows:
            base, pass_ = split_pass(row.site)
            self._rows.setdefault(base, {}).setdefault(PassKey(row.of, row.iteration, pass_), number)
        self.sites: frozenset[str] = frozenset(self._rows)
        """Primary names, without passes."""
        self.alias_sites: dict[str, set[str]] = {}
        """Alias → sites of the tensors that have it; more than one if its passes came from several modules."""
        for number, row in tensor_rows:
            for name in row.names:
                base, pass_ = split_pass(name)
                # A primary name takes precedence over an alias.
                known = self._rows.setdefault(base, {})
                known.setdefault(PassKey(row.of, row.iteration, pass_), number)
                if base not in self.sites:
                    self.alias_sites.setdefault(base, set()).add(row.base)

    @property
    def names(self) -> Iterable[str]:
        """Every name, without passes: primary names, then aliases."""
        return self._rows

    def rows(self, name: str) -> Mapping[PassKey, int]:
        """Recorded quantities of a tensor → row number; empty for an unknown name."""
        return self._rows.get(name, {})

    def passes(self, name: str) -> tuple[Pass, ...]:
        """The passes of a tensor in order of execution.

        They do not depend on the quantity: a gradient is at the same position as its value.
        """
        passes = self._passes.get(name)
        if passes is None:
            rows = self.rows(name)
            # Values are written in execution order; gradients are not.
            values = {key.where: row for key, row in rows.items() if key.of == "value"}
            others = sorted({key.where for key in rows} - values.keys())
            passes = self._passes[name] = (*sorted(values, key=values.__getitem__), *others)
        return passes

    def site(self, name: str) -> str:
        """The primary name of a tensor; an alias that covers only some passes of a tensor stays a name of its own."""
        alias_sites = self.alias_sites.get(name, set())
        if len(alias_sites) == 1:
            [home] = alias_sites
            alias_rows, home_rows = self.rows(name), self.rows(home)
            # A writer may give aliases to values only; the gradients still belong to the tensor.
            if alias_rows.items() <= home_rows.items() and {key.where for key in alias_rows} == {
                key.where for key in home_rows
            }:
                return home
        return name


def primary_names(schemas: Iterable[Tensors]) -> dict[str, str]:
    """Every tensor name in a run → its primary name; two names share one only if they always mean the same tensor."""
    primary: dict[str, str | None] = {}
    """None for a name that means different tensors at different times, and so stays a name of its own."""
    known = list(schemas)
    for tensors in known:
        for name in tensors.names:
            site = tensors.site(name)
            primary[name] = site if primary.get(name, site) == site else None
    for tensors in known:
        for name, home in primary.items():
            if home not in (None, name) and home in tensors.sites and name not in tensors.alias_sites:
                primary[name] = None
    return {name: site or name for name, site in primary.items()}


def is_selected(pass_: Pass, iteration: int | None, number: int | None) -> bool:
    """Whether a pass is selected; None selects all."""
    return (iteration is None or pass_.iteration == iteration) and (number is None or pass_.number == number)


def pass_name(site: str, pass_: int | None) -> str:
    """A site with its pass, if one is selected."""
    return site if pass_ is None else f"{site}:{pass_}"


def pass_text(pass_: Pass) -> str:
    """Describe a pass.

    >>> pass_text(Pass(0, 2)), pass_text(Pass(3, 1))
    ('pass 2', 'iteration 3, pass 1')
    """
    return f"iteration {pass_.iteration}, pass {pass_.number}" if pass_.iteration else f"pass {pass_.number}"


def covers(pattern: Site, name: str) -> bool:
    """Whether a pattern matches a tensor name, in any pass."""
    try:
        return pattern.matches(Site.parse(name))
    except ValueError:  # SiteSyntaxError, or an integer with thousands of digits
        return False


def stack_passes(arrays: Sequence[Array | None], passes: Sequence[Pass], who: str, how: str) -> Array:
    """Stack the values of several passes along a new first dimension; NaN for a pass without a value."""
    there = [(array, pass_) for array, pass_ in zip(arrays, passes, strict=True) if array is not None]
    first, first_pass = there[0]
    for array, pass_ in there:
        if (array.shape, array.dtype) != (first.shape, first.dtype):
            raise ShapesDifferError(
                f"cannot stack the passes of {who}: {pass_text(first_pass)} has shape {list(first.shape)} and "
                f"{first.dtype}, {pass_text(pass_)} has {list(array.shape)} and {array.dtype}. {how}"
            )
    dtype = first.dtype if len(there) == len(arrays) else np.result_type(first.dtype, np.float32)
    out = np.full((len(arrays), *first.shape), np.nan if len(there) < len(arrays) else 0, dtype)
    for position, value in enumerate(arrays):
        if value is not None:
            out[position] = value
    return out
