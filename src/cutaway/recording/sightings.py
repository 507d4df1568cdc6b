"""What was seen in one recorded step: which tensors, their statistics, and the values that are kept of them."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np
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
    unit_dim: int = -1
    """The dimension that counts its units: the channels of images, else the last."""


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
    taken: dict[str, int] = field(default_factory=dict)
    """What was taken of it (its gradient, its update), and how often so far."""
    had_graph: bool = True
    """Whether autograd knew where it came from."""
    batch_dim: int | None = None
    """Which of its dimensions counts samples."""
    is_kept: bool = True
    """Whether its values may be kept."""
    what: str = ""
    """`of` without a number."""


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
        self._without_graph: dict[str, list[Sighting]] = {}
        self._again: list[tuple[Sighting, list[Sighting]]] = []
        """Tensors that a checkpoint computed again, and what each may be."""
        self._handles: list[Any] = []
        self._gathered: list[tuple[Tensor, Sighting]] | None = None

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

    def see(
        self, tensor: Tensor, place: Place, others: Iterable[str] = (), *, batch_dim: int | None = None
    ) -> tuple[Sighting, bool]:
        """Take a tensor in; gives what is known of it, and whether that is new.

        One that was seen already in this iteration, and not written to since, only gets another name.

        Args:
            others: further names of the place.
        """
        places = [place, *[replace(place, base=other) for other in others]]
        version = _version(tensor)
        known = self._known.get(id(tensor))
        if known is not None and known[0]() is tensor and known[1] == version is not None:
            sighting = known[2]
            if sighting.place.iteration == place.iteration:
                names = {(one.base, one.pass_) for one in (sighting.place, *sighting.aliases)}
                sighting.aliases += [one for one in places if (one.base, one.pass_) not in names]
                sighting.place = _told(sighting.place, place)
                return sighting, False
        sighting = self._take(tensor, place, VALUE, self.keeper.batch_dim_of(tensor, batch_dim))
        sighting.aliases = places[1:]
        sighting.had_graph = tensor.requires_grad
        if version is not None:
            self._known[id(tensor)] = (weakref.ref(tensor), version, sighting)
        if not sighting.had_graph:
            self._without_graph.setdefault(place.base, []).append(sighting)
        return sighting, True

    def take(self, tensor: Tensor, place: Place) -> Sighting:
        """Take in a tensor that is seen at this place only."""
        return self._take(tensor, place, VALUE, self.keeper.batch_dim_of(tensor))

    def take_of(self, tensor: Tensor, sighting: Sighting, of: str) -> Sighting:
        """Take in the gradient or the update of what was seen; one that comes again is numbered."""
        sighting.taken[of] = n_taken = sighting.taken.get(of, 0) + 1
        taken = self._take(tensor, sighting.place, _numbered(of, n_taken), sighting.batch_dim, is_kept=sighting.is_kept)
        taken.aliases, taken.what = sighting.aliases, of
        return taken

    def _take(self, tensor: Tensor, place: Place, of: str, batch_dim: int | None, *, is_kept: bool = True) -> Sighting:
        """Statistics of a tensor, and its value if it is to be kept."""
        if self._gathered is not None and not is_kept:
            sighting = Sighting(place, of, -1, batch_dim=batch_dim)
            self._gathered.append((tensor, sighting))
        else:
            number = self.summary.add(tensor, batch_dim=batch_dim, unit_dim=place.unit_dim)
            sighting = Sighting(place, of, number, batch_dim=batch_dim)
        sighting.is_kept = is_kept
        self.seen.append(sighting)
        if is_kept:
            sighting.kept = self.keeper.keep(tensor, batch_dim)
        return sighting

    @contextmanager
    def together(self) -> Iterator[None]:
        """A block in which tensors of which no values are kept are gathered, and taken in at once at its end.

        None of them may change before that.
        """
        self._gathered = []
        try:
            yield
        finally:
            gathered, self._gathered = self._gathered, None
            self._take_gathered(gathered)

    def _take_gathered(self, gathered: list[tuple[Tensor, Sighting]]) -> None:
        try:
            numbers = self.summary.add_many([tensor for tensor, _ in gathered])
        except Exception:
            self._take_one_by_one(gathered)
            return
        for (_, sighting), number in zip(gathered, numbers, strict=True):
            sighting.number = number

    def _take_one_by_one(self, gathered: list[tuple[Tensor, Sighting]]) -> None:
        """The one that cannot be taken in costs only itself."""
        lost: dict[int, Exception] = {}
        for tensor, sighting in gathered:
            try:
                sighting.number = self.summary.add(tensor)
            except Exception as error:
                lost[id(sighting)] = error
        self.seen = [sighting for sighting in self.seen if id(sighting) not in lost]
        if lost:
            raise next(iter(lost.values()))

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
            guard(self._take_gradient, grad, sighting, name)

        handle = tensor.register_hook(arrived)  # type: ignore[no-untyped-call]
        self._handles.append(handle)
        return handle

    def _take_gradient(self, grad: Tensor, sighting: Sighting, name: Callable[[], str]) -> None:
        self.take_of(grad, sighting, name())

    def again(self, tensor: Tensor, base: str) -> Sighting | None:
        """A tensor that a checkpoint computed again: what stands for it, if its first self had no gradient.

        Which pass of its module it belongs to shows at the end, by its values: in what order checkpoints run their
        parts again is nobody's promise.
        """
        first = self._without_graph.get(base)
        if not first:
            return None
        dim = first[0].batch_dim  # it is the same tensor, so that all its statistics must come out the same
        place = replace(first[0].place)  # its own, so that what is taken of it can be told apart
        stand_in = Sighting(place, VALUE, self.summary.add(tensor, batch_dim=dim), batch_dim=dim)
        self._again.append((stand_in, list(first)))
        return stand_in

    def settle(self) -> None:
        """Give the gradients of what was computed again to the tensors they belong to, or leave them out."""
        if not self._again:
            return
        rows = self.summary.matrix()
        stand_ins = {id(stand_in.place): (stand_in, first) for stand_in, first in self._again}
        kept = []
        for sighting in self.seen:
            stand_in, first = stand_ins.get(id(sighting.place), (None, ()))
            if stand_in is not None:
                mine = rows[stand_in.number]
                same = [one for one in first if np.array_equal(rows[one.number], mine, equal_nan=True)]
                if len(same) != 1:
                    continue
                what = sighting.what
                same[0].taken[what] = n_taken = same[0].taken.get(what, 0) + 1
                sighting.of = _numbered(what, n_taken)
                sighting.place, sighting.aliases = same[0].place, same[0].aliases
            kept.append(sighting)
        self.seen = kept
        self._again.clear()

    def release(self) -> None:
        """Take all hooks off the tensors again."""
        while self._handles:
            self._handles.pop().remove()
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
            place, aliases = sighting.place, sighting.aliases
            names = tuple(dict.fromkeys([self.site(alias) for alias in aliases])) if aliases else ()
            found.append(
                _row(self.site(place), sighting.of, place.iteration, place.role, place.node, place.part, names)
            )
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

    def values(self) -> dict[int, Raw]:
        """The kept values, by the number of the row."""
        kept = {number: sighting.kept for number, sighting in enumerate(self.seen)}
        some = {number: tensor for number, tensor in kept.items() if tensor is not None}
        arrived = zip(some, collected(list(some.values())), strict=True)
        return {number: raw for number, raw in arrived if raw is not None}

    def arrays(self, rows: list[Row]) -> dict[Row, Raw]:
        """What full statistics hold beside the matrix of these rows: of each unit, of each sample."""
        found: dict[Row, Raw] = {}
        for row, sighting in zip(rows, self.seen, strict=True):
            for name, array in self.summary.arrays(sighting.number).items():
                of = name if row.of == VALUE else f"{name}/{row.of}"
                found[replace(row, of=of)] = Raw.of(array)
        return found


_row = lru_cache(1 << 15)(Row)
"""The same at every step, and found faster than made."""


def _told(known: Place, place: Place) -> Place:
    """What is known of a tensor, with what its new name says of it: a role, a node."""
    if known.role in ("", "value") and place.role not in ("", "value"):
        known = replace(known, role=place.role)
    if place.node and not known.node:
        known = replace(known, node=place.node, part=place.part)
    return known


def _numbered(of: str, number: int) -> str:
    return of if number == 1 else f"{of}/{number}"


def _version(tensor: Tensor) -> int | None:
    try:
        return tensor._version
    except RuntimeError:  # made under inference_mode: nobody counts, and it may have been written to
        return None


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
