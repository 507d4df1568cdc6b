"""Holds what the hooks of a step see, and passes it on, in order, when the step is kept.

A held tensor costs a reference. What the program overwrites cannot wait: a version counter that has moved tells that a
tensor was written to. Its site is then copied at once in all later steps, and only the step that found out lacks it.
Values that every optimizer overwrites, those of parameters, are copied at once from the start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from cutaway.capture.tensors.aliasing import storage_of, version_of
from cutaway.core.formatting import plural
from cutaway.recording.error_guard import ErrorGuard
from cutaway.recording.hooks.gradients import Arrival, Gradients, is_batched
from cutaway.recording.hooks.unoptimized import local_part
from cutaway.recording.models import NamedParameter
from cutaway.recording.recorded_units import PendingTensors
from cutaway.recording.tensors import RecordedTensor, StepTensors
from cutaway.store.format.records import GRAD


@dataclass(slots=True, eq=False)
class HeldTensor:
    """A tensor, its version when it was seen, and the gradients that have arrived for it since."""

    tensor: Tensor
    version: int | None
    site: str
    copy: Tensor | None = None
    is_leaf: bool = False
    arrivals: list[Arrival] = field(default_factory=list)
    record: RecordedTensor | None = None
    """Its record, once it was passed on."""

    @property
    def is_overwritten(self) -> bool:
        """Whether the program has written to it since."""
        return self.copy is None and version_of(self.tensor) != self.version

    @property
    def value(self) -> Tensor:
        """The tensor as it was seen."""
        return self.tensor if self.copy is None else self.copy


Event = Callable[[], None]


class HeldStep:
    """What one step holds.

    Args:
        tensors: counts iterations; gets the tensors when the step is kept.
        gradients: gets the gradients when the step is kept.
        overwritten: sites that an earlier step has seen overwritten; learns of more.
        most_bytes: beyond this, everything is passed on at once.
    """

    def __init__(
        self,
        tensors: StepTensors,
        gradients: Gradients,
        guard: ErrorGuard,
        *,
        overwritten: set[str],
        most_bytes: int,
    ) -> None:
        self._tensors = tensors
        self._gradients = gradients
        self._guard = guard
        self._overwritten = overwritten
        self._most_bytes = most_bytes
        self._n_bytes = 0
        self._held: dict[tuple[int, int | None], HeldTensor] = {}
        self._by_value: dict[int, HeldTensor] = {}
        self._events: list[tuple[int, Event]] = []
        self.is_over = False
        """Whether the step was passed on or dropped."""
        self.was_full = False
        """Whether it was passed on early, for lack of memory."""
        self.lost: dict[str, None] = {}
        """Sites that were overwritten before the step was kept."""

    # holding

    def add(self, event: Event) -> None:
        """Call an event when the step is kept, in the iteration that runs now."""
        self._events.append((self._tensors.iteration, event))

    def hold(self, tensor: Tensor, site: str, *, has_gradient: bool) -> HeldTensor:
        """Hold a tensor until the step is kept, with the gradients that arrive for it."""
        version = version_of(tensor)
        key = id(tensor), version
        held = self._held.get(key)
        if held is not None and version is not None:
            return held
        held = self._held[key] = HeldTensor(tensor, version, site, is_leaf=tensor.is_leaf)
        # Without a version counter (inference_mode), a change could not be noticed.
        if version is None or site in self._overwritten:
            self.copy(held)
        self._by_value[id(held.value)] = held
        self.count_bytes(tensor)
        if has_gradient:
            self._gradients.hook(tensor, self._hook(held))
        return held

    def hold_parameter(self, parameter: NamedParameter, *, is_still: bool) -> HeldTensor:
        """Hold the value of a parameter or buffer, as a copy unless it was never seen to change."""
        value, site = local_part(parameter.tensor), parameter.names[0]
        held = HeldTensor(value, version_of(value), site)
        if not is_still or held.version is None or site in self._overwritten:
            held.copy = value.clone()
            self.count_bytes(held.copy)
        return held

    def copy(self, held: HeldTensor) -> None:
        """Copy a held tensor, before it is overwritten."""
        held.copy = held.tensor.detach().clone()
        if held.tensor.requires_grad:
            held.copy.requires_grad_()
        self._by_value[id(held.copy)] = held

    def count_bytes(self, tensor: Tensor) -> None:
        """Count what is held; pass everything on if it is too much."""
        if not tensor.is_sparse and not tensor.is_nested:
            self._n_bytes += tensor.nbytes
        if self._n_bytes > self._most_bytes:
            self.was_full = True

    def _hook(self, held: HeldTensor) -> Callable[[Tensor | None], None]:
        def arrived(grad: Tensor | None) -> None:
            if grad is not None:
                self._guard(self._hold_gradient, held, grad)

        return arrived

    def _hold_gradient(self, held: HeldTensor, grad: Tensor) -> None:
        arrival = self._gradients.arrival(grad)
        if held.record is not None or is_batched(grad):
            if held.record is not None:
                self._gradients.add_arrival(arrival, held.record, [GRAD], held.is_leaf)
            return
        if f"{held.site}/grad" in self._overwritten:
            arrival.grad = grad.detach().clone()
        arrival.version = version_of(arrival.grad)
        held.arrivals.append(arrival)
        self.count_bytes(grad)

    def before_write(self, tensors: Iterable[Any]) -> None:
        """A traced step is about to write to tensors: copy those that are held."""
        written = {storage_of(tensor) for tensor in tensors if isinstance(tensor, Tensor)} - {None}
        for held in self._held.values():
            if held.copy is None and not held.is_overwritten and storage_of(held.tensor) in written:
                self._overwritten.add(held.site)
                self.copy(held)

    # the end

    def pass_on(self) -> None:
        """The step is kept: call all events in order."""
        self.is_over = True  # first: what the events call must record, not hold
        before = self._tensors.iteration
        events, self._events = self._events, []
        # Tensors that were held until now say nothing about whether others of their sites are overwritten. If the step
        # is over, nothing writes to them any more.
        self._tensors.assumed_stable = not self.was_full
        try:
            for iteration, event in events:
                self._tensors.iteration = iteration
                self._guard(event)
            self._pass_on_gradients()
        finally:
            self._tensors.iteration = before
            self._tensors.assumed_stable = None

    def usable(self, held: HeldTensor) -> bool:
        """Whether a tensor still is what it was; else its loss is noted."""
        if held.is_overwritten:
            self.lose(held.site)
            return False
        return True

    def lose(self, site: str) -> None:
        """Note that a site was overwritten before it was recorded."""
        self._overwritten.add(site)
        self.lost[site] = None

    def take_record(self, tensor: Tensor, record: RecordedTensor) -> bool:
        """Note the record of a held tensor, to which its gradients belong. Returns False for one that is not held."""
        held = self._by_value.get(id(tensor))
        if held is None:
            return False
        held.record = record
        return True

    def _pass_on_gradients(self) -> None:
        """Pass on the gradients after all values: by then the layouts of the values are known."""
        for held in self._held.values():
            arrivals, held.arrivals = held.arrivals, []
            for arrival in arrivals if held.record is not None else ():
                assert held.record is not None
                if version_of(arrival.grad) != arrival.version:
                    self.lose(f"{held.site}/grad")
                else:
                    self._guard(self._gradients.add_arrival, arrival, held.record, [GRAD], held.is_leaf)

    def name_original(self, pending: PendingTensors | None) -> None:
        """Let the trace, which knows the program's tensors only, find the layout of a copy that was just recorded."""
        last = pending.pending[-1] if pending is not None and pending.pending else None
        held = None if last is None else self._by_value.get(id(last.seen))
        if last is not None and held is not None and held.copy is last.seen:
            last.seen, last.copy = held.tensor, held.copy

    def drop(self) -> None:
        """The step is dropped, or over: forget everything, but learn what was overwritten."""
        for held in self._held.values():
            if held.is_overwritten:
                self._overwritten.add(held.site)
            if any(version_of(arrival.grad) != arrival.version for arrival in held.arrivals):
                self._overwritten.add(f"{held.site}/grad")
        self.is_over = True
        self._events.clear()
        self._held.clear()
        self._by_value.clear()

    @property
    def notes(self) -> list[str]:
        """What is missing in the step, and why."""
        if not self.lost:
            return []
        sites = plural(len(self.lost), "tensor")
        first = next(iter(self.lost))
        return [
            f"{sites} of a step that was kept afterwards, {first!r} among them, had been overwritten in place by then "
            "and are missing in that step; later steps copy them in time"
        ]
