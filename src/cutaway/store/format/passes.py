"""The passes of recorded tensors: which rows of a schema hold the same tensor, and in which order it was computed.

A recorder writes `cell` where a module ran once in a step, and `cell:1`, `cell:2` where it ran twice. Both name one
tensor, `cell`: of each step it has one or several *passes*, and a pass is known by its iteration (0 outside of
`run.iteration()`) and its number within that iteration, from 1.
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
    """0 where it ran outside of `run.iteration()`."""
    number: int
    """Within the iteration, from 1."""


class PassKey(NamedTuple):
    """What of a tensor, in which pass."""

    of: str
    iteration: int
    pass_: int

    @property
    def where(self) -> Pass:
        """The pass alone."""
        return Pass(self.iteration, self.pass_)


class Tensors:
    """The tensors of one schema by each of their names; what the samples are is no tensor.

    Args:
        rows: those of the schema, in its order.
    """

    def __init__(self, rows: Sequence[Row]) -> None:
        self._rows: dict[str, dict[PassKey, int]] = {}
        self._passes: dict[str, tuple[Pass, ...]] = {}
        own = [(number, row) for number, row in enumerate(rows) if not row.is_sample]
        for number, row in own:
            base, pass_ = split_pass(row.site)
            self._rows.setdefault(base, {}).setdefault(PassKey(row.of, row.iteration, pass_), number)
        self.sites: frozenset[str] = frozenset(self._rows)
        """Their first names, without passes."""
        self.homes: dict[str, set[str]] = {}
        """Further name → the sites of the tensors that have it: several where passes came from several modules."""
        for number, row in own:
            for name in row.names:
                base, pass_ = split_pass(name)
                # What is called so itself goes before what is only known by that name as well.
                known = self._rows.setdefault(base, {})
                known.setdefault(PassKey(row.of, row.iteration, pass_), number)
                if base not in self.sites:
                    self.homes.setdefault(base, set()).add(row.base)

    @property
    def names(self) -> Iterable[str]:
        """Every name, without passes: sites, then further ones."""
        return self._rows

    def rows(self, name: str) -> Mapping[PassKey, int]:
        """What was recorded of a tensor → its row; empty if there is none of that name."""
        return self._rows.get(name, {})

    def passes(self, name: str) -> tuple[Pass, ...]:
        """The passes of a tensor in order of execution.

        They are those of the tensor, whatever of it was recorded: a gradient stands where its value does.
        """
        found = self._passes.get(name)
        if found is None:
            rows = self.rows(name)
            # Values are written in the order they were computed in; gradients come in another one.
            values = {key.where: row for key, row in rows.items() if key.of == "value"}
            others = sorted({key.where for key in rows} - values.keys())
            found = self._passes[name] = (*sorted(values, key=values.__getitem__), *others)
        return found

    def site(self, name: str) -> str:
        """The first name of the tensor with a name: the name itself where it stands for some passes of another one."""
        homes = self.homes.get(name, set())
        if len(homes) == 1:
            [home] = homes
            own, its = self.rows(name), self.rows(home)
            # A writer may give further names to values alone: the gradients belong to the tensor all the same.
            if own.items() <= its.items() and {key.where for key in own} == {key.where for key in its}:
                return home
        return name


def sites_of(schemas: Iterable[Tensors]) -> dict[str, str]:
    """Every name of a tensor in a run → its first name, which two names share only if they always mean the same."""
    found: dict[str, str | None] = {}
    """None where a name means another tensor now and then, and so is one of its own."""
    known = list(schemas)
    for tensors in known:
        for name in tensors.names:
            site = tensors.site(name)
            found[name] = site if found.get(name, site) == site else None
    for tensors in known:
        for name, home in found.items():
            if home not in (None, name) and home in tensors.sites and name not in tensors.homes:
                found[name] = None
    return {name: site or name for name, site in found.items()}


def is_picked(pass_: Pass, iteration: int | None, number: int | None) -> bool:
    """Whether a pass is among those asked for; None asks for all."""
    return (iteration is None or pass_.iteration == iteration) and (number is None or pass_.number == number)


def pass_name(site: str, pass_: int | None) -> str:
    """A site with its pass, where one was picked."""
    return site if pass_ is None else f"{site}:{pass_}"


def said_pass(pass_: Pass) -> str:
    """A pass in words.

    >>> said_pass(Pass(0, 2)), said_pass(Pass(3, 1))
    ('pass 2', 'iteration 3, pass 1')
    """
    return f"iteration {pass_.iteration}, pass {pass_.number}" if pass_.iteration else f"pass {pass_.number}"


def covers(pattern: Site, name: str) -> bool:
    """Whether a pattern covers a tensor of this name in any of its passes."""
    try:
        return pattern.matches(Site.parse(name))
    except ValueError:  # SiteSyntaxError, or a number of thousands of digits
        return False


def stacked(arrays: Sequence[Array | None], passes: Sequence[Pass], who: str, how: str) -> Array:
    """The values of several passes over a new first dimension; NaN where a pass has none."""
    there = [(array, pass_) for array, pass_ in zip(arrays, passes, strict=True) if array is not None]
    first, first_pass = there[0]
    for array, pass_ in there:
        if (array.shape, array.dtype) != (first.shape, first.dtype):
            raise ShapesDifferError(
                f"the passes of {who} cannot be stacked: {said_pass(first_pass)} has shape {list(first.shape)} and "
                f"{first.dtype}, {said_pass(pass_)} shape {list(array.shape)} and {array.dtype}. {how}"
            )
    dtype = first.dtype if len(there) == len(arrays) else np.result_type(first.dtype, np.float32)
    out = np.full((len(arrays), *first.shape), np.nan if len(there) < len(arrays) else 0, dtype)
    for place, value in enumerate(arrays):
        if value is not None:
            out[place] = value
    return out
