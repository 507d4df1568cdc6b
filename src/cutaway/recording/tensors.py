"""What was seen in one recorded step: which tensors, their statistics, and the values that are kept of them."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator, Mapping, Set
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache

import numpy as np
from torch import Tensor

from cutaway.capture.tensors.aliasing import version_of
from cutaway.core.arrays import Raw
from cutaway.core.units.layout import UnitLayout
from cutaway.graph.dependencies.graph import RecordedSite
from cutaway.recording.recorded_units import WaitingTensors, as_summarized
from cutaway.recording.statistics.summary import Summary
from cutaway.recording.values import Keeper, collected
from cutaway.store.format.records import VALUE, Row


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
    taken: dict[str, int] = field(default_factory=dict)
    """What was taken of it (its gradient, its update), and how often so far."""
    had_graph: bool = True
    """Whether autograd knew where it came from."""
    layout: UnitLayout | None = None
    """Which of its dimensions count units and samples; None if that is not known (yet)."""
    is_kept: bool = True
    """Whether its values may be kept."""
    is_again: bool = False
    """Whether a checkpoint has computed it again, so that it stands for a tensor that was seen before."""


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
        self._owners: dict[Sighting, Sighting | None] = {}
        """What each of those is; None where that does not show."""
        self._gathered: list[tuple[Tensor, Sighting]] | None = None
        self.waiting: WaitingTensors | None = None
        """Tensors whose layouts will be known when the model has returned; None where they will not."""

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
        self, tensor: Tensor, place: Place, others: Iterable[str] = (), *, layout: UnitLayout | None = None
    ) -> tuple[Sighting, bool]:
        """Take a tensor in; gives what is known of it, and whether that is new.

        One that was seen already in this iteration, and not written to since, only gets another name.

        Args:
            others: further names of the place.
            layout: which dimensions count units and samples, where that is known.
        """
        places = [place, *[replace(place, base=other) for other in others]]
        version = version_of(tensor)
        known = self._known.get(id(tensor))
        if known is not None and known[0]() is tensor and known[1] == version is not None:
            sighting = known[2]
            if sighting.place.iteration == place.iteration:
                names = {(one.base, one.pass_) for one in (sighting.place, *sighting.aliases)}
                sighting.aliases += [one for one in places if (one.base, one.pass_) not in names]
                sighting.place = _told(sighting.place, place)
                return sighting, False
        sighting = self._take(tensor, place, VALUE, layout)
        sighting.aliases = places[1:]
        sighting.had_graph = tensor.requires_grad
        if version is not None:
            self._known[id(tensor)] = (weakref.ref(tensor), version, sighting)
        if not sighting.had_graph:
            self._without_graph.setdefault(place.base, []).append(sighting)
        return sighting, True

    def take(self, tensor: Tensor, place: Place) -> Sighting:
        """Take in a tensor that is seen at this place only."""
        return self._take(tensor, place, VALUE, None)

    def take_of(self, tensor: Tensor, sighting: Sighting, of: str) -> Sighting:
        """Take in the gradient or the update of what was seen; one that comes again is numbered: `grad@2`."""
        of = _numbered(of, sighting)
        taken = self._take(tensor, sighting.place, of, sighting.layout, is_kept=sighting.is_kept)
        taken.aliases = sighting.aliases
        return taken

    def take_same(self, taken: Sighting, sighting: Sighting, of: str) -> Sighting:
        """Take the same numbers in under another name as well."""
        same = replace(taken, of=_numbered(of, sighting), taken={})
        self.seen.append(same)
        return same

    def give(self, taken: Sighting, owner: Sighting, of: str) -> None:
        """Say that what was taken of a tensor belongs to the one that it stood for."""
        if taken.place is not owner.place:
            taken.of, taken.place, taken.aliases = _numbered(of, owner), owner.place, owner.aliases

    def drop(self, lost: Set[Sighting]) -> None:
        """Leave these out."""
        if lost:
            self.seen = [sighting for sighting in self.seen if sighting not in lost]

    def _take(
        self, tensor: Tensor, place: Place, of: str, layout: UnitLayout | None, *, is_kept: bool = True
    ) -> Sighting:
        """Statistics of a tensor, and its value if it is to be kept."""
        sighting = Sighting(place, of, -1, layout=layout, is_kept=is_kept)
        if self._gathered is not None and not is_kept:
            self._gathered.append((tensor, sighting))
        else:
            sighting.number = self._summarize(tensor, layout)
        self.seen.append(sighting)
        if layout is None and self.waiting is not None and is_kept and of == VALUE:
            self.waiting.add(tensor, sighting)
        elif is_kept:
            sighting.kept = self.keeper.keep(tensor, layout)
        return sighting

    def _summarize(self, tensor: Tensor, layout: UnitLayout | None) -> int:
        shown, batch_dim, unit_dim = as_summarized(tensor, layout, is_full=self.summary.is_full)
        return self.summary.add(shown, batch_dim=batch_dim, unit_dim=unit_dim)

    def complete(self, tensor: Tensor | None, sighting: Sighting, layout: UnitLayout | None) -> None:
        """The layout of a tensor that was seen has become known: take what needs it.

        Args:
            tensor: None if it was overwritten in the meantime; its first statistics stay.
        """
        sighting.layout = layout
        if tensor is None:
            return
        if layout is not None:
            sighting.number = self._summarize(tensor, layout)
        sighting.kept = self.keeper.keep(tensor, layout)

    def share_layouts(self) -> None:
        """Gradients that came before the layout of their tensor was known have the same one."""
        layouts = {id(one.place): one.layout for one in self.seen if one.of == VALUE and one.layout is not None}
        for one in self.seen:
            if one.layout is None:
                one.layout = layouts.get(id(one.place))

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
            numbers = self._numbers_of(gathered)
        except Exception:
            self._take_one_by_one(gathered)
            return
        for (_, sighting), number in zip(gathered, numbers, strict=True):
            sighting.number = number

    def _numbers_of(self, gathered: list[tuple[Tensor, Sighting]]) -> list[int]:
        if self.summary.is_full:
            return [self._summarize(tensor, sighting.layout) for tensor, sighting in gathered]
        return self.summary.add_many([tensor for tensor, _ in gathered])

    def _take_one_by_one(self, gathered: list[tuple[Tensor, Sighting]]) -> None:
        """The one that cannot be taken in costs only itself."""
        lost: dict[int, Exception] = {}
        for tensor, sighting in gathered:
            try:
                sighting.number = self._summarize(tensor, sighting.layout)
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

    # what a checkpoint computes again

    def again(self, tensor: Tensor, base: str) -> Sighting | None:
        """A tensor that a checkpoint computed again: what stands for it, if its first self had no gradient.

        Which pass of its module it belongs to shows at the end, by its values: in what order checkpoints run their
        parts again is nobody's promise.
        """
        first = self._without_graph.get(base)
        if not first:
            return None
        place, layout = replace(first[0].place), first[0].layout  # its own place: what is taken of it is told apart
        stand_in = Sighting(place, VALUE, self._summarize(tensor, layout), layout=layout, is_again=True)
        self._again.append((stand_in, list(first)))
        return stand_in

    def settle(self) -> None:
        """Find out which tensors those are that were computed again."""
        rows = self.summary.matrix() if self._again else None
        for stand_in, first in self._again:
            assert rows is not None
            mine = rows[stand_in.number]
            same = [one for one in first if np.array_equal(rows[one.number], mine, equal_nan=True)]
            self._owners[stand_in] = same[0] if len(same) == 1 else None
        self._again.clear()

    def owner(self, sighting: Sighting) -> Sighting | None:
        """The tensor itself, or that which it was when it was computed first; None where that does not show."""
        return self._owners.get(sighting, sighting)

    def forget_tensors(self) -> None:
        """Recognize no tensor again: the step is over."""
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
            layout = None if sighting.layout is None else _pattern(sighting.layout)
            about = (place.role, place.node, place.part, names, layout)
            found.append(_row(self.site(place), sighting.of, place.iteration, *about))
        return _distinct(found)

    def recorded(self) -> list[RecordedSite]:
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
                found.append(RecordedSite(site, row.role, node, row.part, names, has_graph))
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
_pattern = lru_cache(1 << 12)(UnitLayout.pattern)
"""The same at every step, and found faster than made."""


def _told(known: Place, place: Place) -> Place:
    """What is known of a tensor, with what its new name says of it: a role, a node."""
    if known.role in ("", "value") and place.role not in ("", "value"):
        known = replace(known, role=place.role)
    if place.node and not known.node:
        known = replace(known, node=place.node, part=place.part)
    return known


def _numbered(of: str, sighting: Sighting) -> str:
    """The name of what is taken of a tensor now; from the second time on with its number."""
    sighting.taken[of] = number = sighting.taken.get(of, 0) + 1
    return of if number == 1 else f"{of}@{number}"


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
