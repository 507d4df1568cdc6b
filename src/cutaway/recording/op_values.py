"""Steps that are traced as well: for results of single ops, and for the dependency graph of a new structure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import Tensor, nn

from cutaway.capture.saved.save_policy import Saver
from cutaway.capture.session import Session, register_fork_handler
from cutaway.core.sites import Site
from cutaway.core.units.layout import UnitLayout
from cutaway.graph.trace import Trace
from cutaway.recording.recorded_units import RecordedUnits, WaitingTensors, layouts_so_far
from cutaway.recording.tensors import Place, Sighting, Sightings


class TracedStep:
    """A capture around one recorded step. Values of the ops asked for are taken in as they come into being."""

    def __init__(
        self,
        root: nn.Module,
        ops: Sequence[Site],
        sightings: Sightings,
        follow: Callable[[Tensor, Sighting], None],
        guard: Callable[..., None],
    ) -> None:
        register_fork_handler()
        self.trace = Trace()
        self._sightings = sightings
        self._guard = guard
        self.is_on = False
        self._saver = _Taking(ops, sightings, follow, guard)
        self._session = Session(self.trace, root, self._saver, gradients=False)
        if ops:
            self._session.resolver.resolve_immediately()  # a gradient can only be waited for before it comes

    def start(self) -> None:
        """Switch the capture on."""
        waiting = self._sightings.waiting = WaitingTensors()
        self._session.resolver.on_write = lambda tensors: self._guard(waiting.before_write, tensors)
        self._session.start()
        self.is_on = True

    def settle_units(self, units: RecordedUnits, parameters: Mapping[int, str], *, is_final: bool) -> int:
        """Give the tensors that wait their layouts; gives how many were overwritten before those were known.

        Args:
            is_final: whether the step is over.
        """
        waiting = self._sightings.waiting
        if waiting is None or not self.is_on:
            return 0
        found = layouts_so_far(self._session, parameters, units.batch_dim)
        units.is_traced = True
        for name, layout in found.parameters.items():
            if layout is not None:
                units.learn(name, 1, layout)

        def take(tensor: Tensor | None, sighting: Sighting, layout: UnitLayout | None) -> None:
            if tensor is not None and not sighting.place.base.startswith("op "):
                layout = units.as_stated(sighting.place.base, layout, tensor)
            self._sightings.complete(tensor, sighting, layout)
            if sighting.place.role == "input":
                self._sightings.keeper.count(layout)
            for place in (sighting.place, *sighting.aliases):
                if layout is not None and not place.base.startswith("op "):
                    units.learn(place.base, place.overall, layout)

        n_lost = waiting.settle(found.of, take, is_final=is_final)
        if is_final:
            self._sightings.share_layouts()
            self._sightings.waiting = None
        return n_lost

    def name(self, name: str, tensor: Tensor) -> None:
        """Let a tensor be known by a name."""
        self.trace.tensor(name, tensor)

    def stop(self, error: BaseException | None) -> None:
        """Switch it off; the ops that were taken in get their sites. Calling it again does nothing."""
        if not self.is_on:
            return
        self.is_on = False
        self._session.stop(error)
        for node, sighting in self._saver.taken.items():
            site = str(self.trace.names.site(node))
            place = Place(site, site, 1, sighting.place.iteration, "value")
            self._sightings.move(sighting.place, place)


class _Taking(Saver):
    """A saver that keeps no values but hands them to the sightings, while they are what they are."""

    def __init__(
        self,
        ops: Sequence[Site],
        sightings: Sightings,
        follow: Callable[[Tensor, Sighting], None],
        guard: Callable[..., None],
    ) -> None:
        super().__init__([str(site) for site in ops] or None, "reference", None)
        self.taken: dict[int, Sighting] = {}
        self._sightings = sightings
        self._follow = follow
        self._guard = guard

    def keep(self, node: int, tensor: Tensor) -> tuple[Any, bool]:
        if node not in self.taken:
            self._guard(self._take, node, tensor)
        return None, False

    def _take(self, node: int, tensor: Tensor) -> None:
        place = Place(f"op {node}", f"op {node}", 1, self._sightings.iteration, "value")
        sighting = self._sightings.take(tensor, place)
        self.taken[node] = sighting
        self._follow(tensor, sighting)
