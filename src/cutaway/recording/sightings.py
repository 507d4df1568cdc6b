"""What was seen in one recorded step: which tensors, their statistics, and the values that are kept of them."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from cutaway.core.arrays import Raw
from cutaway.graph.dependencies import Recorded
from cutaway.recording.kept import Keeper, collected
from cutaway.recording.statistics import Summary
from cutaway.store.records import VALUE, Row


@dataclass(frozen=True, slots=True)
class Place:
    """Where a tensor was seen."""

    base: str
    """Its site without a pass."""
    counted: str = ""
    """What its passes are counted by: the address of a module, or the name of a tensor."""
    pass_: int = 1
    iteration: int = 0
    role: str = ""
    node: str = ""
    part: str = ""
    overall: int = 1
    """Its pass counted over all iterations, as a trace of the step counts."""


@dataclass(slots=True, eq=False)
class Sighting:
    """One tensor, its gradient or its update."""

    place: Place
    of: str
    number: int
    """Its row in the summary."""
    kept: Tensor | None = None
    aliases: list[Place] = field(default_factory=list)
    """Further places at which the very same tensor was seen."""
    gradients: list[str] = field(default_factory=list)
    """The names under which its gradient came so far."""
    had_graph: bool = True
    """Whether autograd knew where it came from."""


class Sightings:
    """All that was seen in one step, in order."""

    def __init__(self, summary: Summary, keeper: Keeper) -> None:
        self.summary = summary
        self.keeper = keeper
        self.iteration = 0
        self.seen: list[Sighting] = []
        self._passes: dict[tuple[str, int], int] = {}
        self._overall: dict[str, int] = {}
        self._known: dict[int, tuple[weakref.ref[Tensor], int, Sighting]] = {}
        self._by_place: dict[tuple[str, int, int], Sighting] = {}
        self._handles: list[Any] = []

    def next_pass(self, counted: str) -> int:
        """How often this was reached in this iteration, this time included."""
        key = (counted, self.iteration)
        self._passes[key] = self._passes.get(key, 0) + 1
        self._overall[counted] = self._overall.get(counted, 0) + 1
        return self._passes[key]

    def overall(self, counted: str) -> int:
        """How often this was reached in the whole step."""
        return self._overall.get(counted, 0)

    def n_passes(self, counted: str) -> int:
        """How often this was reached in this iteration."""
        return self._passes.get((counted, self.iteration), 0)

    def see(self, tensor: Tensor, place: Place, *, batch_dim: int | None = None) -> Sighting | None:
        """Take a tensor in. One that was seen already, and not written to since, only gets another name."""
        known = self._known.get(id(tensor))
        version = _version(tensor)
        if known is not None and known[0]() is tensor and known[1] == version:
            if place.base not in (known[2].place.base, *(alias.base for alias in known[2].aliases)):
                known[2].aliases.append(place)
            return None
        sighting = self.take(tensor, place, VALUE, batch_dim=batch_dim)
        sighting.had_graph = tensor.requires_grad
        self._known[id(tensor)] = (weakref.ref(tensor), version, sighting)
        self._by_place[place.base, place.pass_, place.iteration] = sighting
        return sighting

    def take(
        self, tensor: Tensor, place: Place, of: str, *, batch_dim: int | None = None, keep: bool = True
    ) -> Sighting:
        """Statistics of a tensor, and its value if it is to be kept."""
        dim = self.keeper.batch_dim_of(tensor, batch_dim) if keep else None
        sighting = Sighting(place, of, self.summary.add(tensor, batch_dim=dim))
        if keep:
            sighting.kept = self.keeper.keep(tensor, batch_dim)
        self.seen.append(sighting)
        return sighting

    def at(self, place: Place) -> Sighting | None:
        """What was seen at a place."""
        return self._by_place.get((place.base, place.pass_, place.iteration))

    def move(self, old: Place, new: Place) -> None:
        """Say that what was seen at a place, gradients included, was seen at another one."""
        for sighting in self.seen:
            if sighting.place is old:
                sighting.place = new

    # gradients

    def follow(self, tensor: Tensor, sighting: Sighting, name: Callable[[], str], guard: Callable[..., None]) -> Any:
        """Take the gradient of a tensor whenever it comes, until `release`, or until the handle is removed.

        Args:
            name: asked at that moment: "grad", or "grad/<loss>".
            guard: runs what it is given, and lets no exception out.
        """

        def arrived(grad: Tensor) -> None:
            guard(self.take_gradient, grad, sighting, name)

        handle = tensor.register_hook(arrived)  # type: ignore[no-untyped-call]
        self._handles.append(handle)
        return handle

    def take_gradient(self, grad: Tensor, sighting: Sighting, name: Callable[[], str]) -> None:
        """A gradient that comes a second time under the same name is numbered."""
        of = name()
        n_before = sighting.gradients.count(of)
        sighting.gradients.append(of)
        taken = self.take(grad, sighting.place, of if not n_before else f"{of}/{n_before + 1}")
        taken.aliases = sighting.aliases

    def release(self) -> None:
        """Take all hooks off the tensors again."""
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        self._known.clear()

    # handing over

    def site(self, place: Place) -> str:
        """The site of a place; its pass is written where there were several."""
        several = self._passes.get((place.counted, place.iteration), 1) > 1
        return f"{place.base}:{place.pass_}" if several else place.base

    def rows(self) -> list[Row]:
        """The row of each sighting."""
        found = []
        for sighting in self.seen:
            place = sighting.place
            names = tuple(dict.fromkeys(self.site(alias) for alias in sighting.aliases))
            row = Row(self.site(place), sighting.of, place.iteration, place.role, place.node, place.part, names)
            found.append(row)
        return _distinct(found)

    def recorded(self) -> list[Recorded]:
        """What the dependency graph is between: the values among the rows."""
        found = []
        for row, sighting in zip(self.rows(), self.seen, strict=True):
            if sighting.of == VALUE:
                place = sighting.place
                node = row.node or (f"{row.site}~{row.iteration}" if row.iteration else "")
                several = self._overall.get(place.counted, 1) > 1
                site = f"{place.base}:{place.overall}" if several else place.base
                names = tuple(dict.fromkeys(name for name in (row.site, *row.names) if name != site))
                # Inside a re-entrant checkpoint results seem to have no graph: of them the trace knows better.
                is_given = row.role in ("input", "target") or row.site.startswith("$")
                has_graph = sighting.had_graph if is_given else None
                found.append(Recorded(site, row.role, node, row.part, names, has_graph))
        return found

    def matrix(self) -> NDArray[np.float32]:
        """The statistics of each sighting."""
        matrix: NDArray[np.float32] = self.summary.matrix()[[sighting.number for sighting in self.seen]]
        return matrix

    def values(self) -> dict[int, Raw]:
        """The kept values, by the number of the row."""
        kept = {number: sighting.kept for number, sighting in enumerate(self.seen)}
        some = {number: tensor for number, tensor in kept.items() if tensor is not None}
        return dict(zip(some, collected(list(some.values())), strict=True))

    def arrays(self) -> dict[Row, Raw]:
        """What full statistics hold beside the matrix: of each unit, of each sample."""
        found: dict[Row, Raw] = {}
        for row, sighting in zip(self.rows(), self.seen, strict=True):
            for name, array in self.summary.arrays(sighting.number).items():
                of = name if row.of == VALUE else f"{name}/{row.of}"
                found[replace(row, of=of)] = Raw.of(array)
        return found


def _version(tensor: Tensor) -> int:
    try:
        return tensor._version
    except RuntimeError:  # made under inference_mode: nobody counts
        return -1


def _distinct(rows: list[Row]) -> list[Row]:
    """No two rows answer to the same name: where that would be, the later one is numbered."""
    found: list[Row] = []
    taken: set[tuple[str, str, int]] = set()
    for row in rows:
        site, again = row.site, 1
        while (site, row.of, row.iteration) in taken:
            again += 1
            site = f"{row.site}:{again}"
        taken.add((site, row.of, row.iteration))
        found.append(row if site == row.site else replace(row, site=site))
    return found


def merged(rows: list[Row], values: Mapping[int, Raw], beside: Mapping[Row, Raw]) -> tuple[list[Row], dict[int, Raw]]:
    """Rows with statistics, and behind them rows that have nothing but arrays."""
    found = dict(values)
    found.update(zip(range(len(rows), len(rows) + len(beside)), beside.values(), strict=True))
    return [*rows, *beside], found
