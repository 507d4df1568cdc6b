"""Watches every step, judges it one step later, and writes the ring to the run when a trigger fires."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from time import time
from typing import TYPE_CHECKING, Any

from torch import Tensor

from cutaway.core.formatting import plural
from cutaway.recording.error_guard import ErrorGuard
from cutaway.recording.flight.flight_hooks import BACKWARD, FlightHooks
from cutaway.recording.flight.flight_step import STATISTICS, FlightStep
from cutaway.recording.flight.readings import MOST_OUTPUTS, Readings, rows_of
from cutaway.recording.flight.recorded import read_recorded
from cutaway.recording.flight.ring import KIND, Ring, about_step
from cutaway.recording.flight.settings import Flight
from cutaway.recording.flight.triggers import Trigger, name_of
from cutaway.recording.models import RecordedModels
from cutaway.store.format.filenames import rank_folder
from cutaway.store.format.frames import Plain
from cutaway.store.format.records import Row
from cutaway.store.writing.flight_ring import FlightRing
from cutaway.store.writing.writer import Writer

if TYPE_CHECKING:
    from cutaway.recording.step import RecordedStep, Step

_REFRESH_EVERY = 64
"""Steps between two looks for new modules: a look costs as much as watching the step."""
_MOST_CACHED_ROWS = 64
_UNSEEN = (
    "the flight recorder sees no module outputs, because the recorded model was not called in the step: with "
    "torch.compile or DDP, pass the model that your loop calls. Losses and gradients are watched all the same"
)
_LEFT_OUT = f"the flight recorder watches the first {MOST_OUTPUTS:,} module outputs of a step; this step has more"


@dataclass(slots=True, eq=False)
class _Entry:
    """A step on its way into the ring."""

    place: int
    number: int
    kind: str
    readings: Readings
    is_recorded: bool = False
    error: str = ""
    time: float = 0.0
    elapsed: float = 0.0
    is_over: bool = False
    is_in_ring: bool = False
    n_losses: int = 0
    """Losses that the step in the ring has."""


class FlightRecorder:
    """The flight recorder of one run. All methods but `release` are called through the guard."""

    def __init__(self, flight: Flight, writer: Writer, models: RecordedModels, guard: ErrorGuard) -> None:
        self._flight = flight
        self._writer = writer
        self._models = models
        self._guard = guard
        file = None
        if flight.disk:
            file = FlightRing(writer.backend, rank_folder(writer.rank), writer.session, flight.steps)
        self._ring = Ring(flight.steps, file)
        self._hooks = FlightHooks(models, flight, guard)
        self._immediate: set[str] = set()
        self._rows: dict[Any, tuple[Row, ...]] = {}
        self._pending: deque[_Entry] = deque()
        """Steps that are not judged yet, the oldest first."""
        self._n_steps = 0
        self._n_hooked = 0
        self._n_writes = 0
        self._written = -1
        """The number of the last step that was written."""
        self._firing: set[int] = set()
        """Triggers that fired at the last step: a training that stays broken is written once."""
        self._error: BaseException | None = None

    # called by the cycle of steps

    def enter(self, step: Step) -> None:
        """Begin a step. One that is recorded anyway needs no hooks, unless it may be dropped."""
        is_shared = step.recorded is not None and not step.has_late_kind
        self._pending.append(_Entry(self._n_steps, step.number, step.kind or "", Readings(self._immediate)))
        self._n_steps += 1
        if not is_shared:
            if self._n_hooked % _REFRESH_EVERY == 0 and step.recorded is None:
                self._models.refresh()
            self._n_hooked += 1
            self._hooks.start(self._pending[-1].readings)

    def stop(self) -> None:
        """At the end of a step, read what is left and remove the hooks."""
        try:
            if self._open is not None:
                self._hooks.read_remaining()
        finally:
            self._hooks.stop()

    def leave(self, step: Step, recorded: RecordedStep | None, error: BaseException | None, is_written: bool) -> None:
        """End a step, and judge the one before; after an exception, this one too.

        Args:
            recorded: the recording of the step, if it has one.
            is_written: whether the recording was written to the run.
        """
        entry = self._open
        if entry is None:
            return
        entry.is_over, entry.is_recorded, entry.kind = True, is_written, step.kind or ""
        entry.time, entry.elapsed = time(), self._writer.elapsed
        if recorded is not None and not step.has_late_kind:
            read_recorded(recorded, entry.readings)
        entry.readings.start_copies()
        if isinstance(error, Exception):
            self._error, entry.error = error, f"{type(error).__name__}: {error}"
        else:
            self._check(entry, step)
        self._put(entry)
        self._judge(n_left=0 if entry.error else 1, wait=bool(entry.error))

    def release(self) -> None:
        """Remove every hook, whatever happened in the step."""
        self._hooks.stop()

    def log(self, number: int, scalars: Mapping[str, Any]) -> None:
        """Take the losses among logged numbers: those named "loss", and tensors that can be backpropagated."""
        for entry in reversed(self._pending):
            if entry.number == number:
                for name, value in scalars.items():
                    if name == "loss" or (isinstance(value, Tensor) and value.requires_grad and value.numel() == 1):
                        entry.readings.add_loss(name, value)
                        self._hooks.wants_roots = False
                return

    def fail(self, error: BaseException) -> None:
        """An exception ends the run outside of a step."""
        if not isinstance(error, Exception) or error is self._error:
            return
        self._judge(n_left=1, wait=True)
        if self._pending:
            self._pending[-1].error = f"{type(error).__name__}: {error}"
            self._put(self._pending[-1], wait=True)
            self._judge(n_left=0, wait=True)

    def close(self) -> None:
        """Judge the last step, and remove the file."""
        try:
            self._hooks.stop()
            self._judge(n_left=0, wait=True)
        finally:
            self._ring.close()

    # the ring

    @property
    def _open(self) -> _Entry | None:
        return self._pending[-1] if self._pending and not self._pending[-1].is_over else None

    def _put(self, entry: _Entry, *, wait: bool = False) -> bool:
        """Put a step into the ring once its numbers have arrived; returns whether they have."""
        readings = entry.readings
        readings.start_copies()  # of losses that were logged after the step
        if not readings.arrive(wait=wait):
            return False
        losses = readings.losses()
        if len(losses) > 1:
            losses.pop(BACKWARD, None)  # it is most likely one of those that were logged
        key = readings.key
        rows = self._rows.get(key)
        if rows is None:
            if len(self._rows) >= _MOST_CACHED_ROWS:  # a model whose modules run another number of times each step
                self._rows.clear()
            rows = self._rows[key] = rows_of(key)
        step = FlightStep(
            entry.number, entry.kind, losses, rows, readings.matrix(), entry.time, entry.elapsed, entry.error,
            entry.is_recorded, readings.gradients(),
        )  # fmt: skip
        self._ring.put(entry.place, step)
        entry.is_in_ring, entry.n_losses = True, len(losses)
        return True

    # judging

    def _judge(self, *, n_left: int, wait: bool) -> None:
        """Judge the steps that are over and whose numbers have arrived, except the last `n_left`."""
        while len(self._pending) > n_left:
            entry = self._pending[0]
            if not entry.is_over:
                self._pending.popleft()
                continue
            # Also where a loss was logged after the end of the step.
            is_whole = entry.is_in_ring and entry.n_losses == len(entry.readings.losses())
            if not is_whole and not self._put(entry, wait=wait):
                return
            self._pending.popleft()
            self._apply_triggers(entry)

    def _apply_triggers(self, entry: _Entry) -> None:
        before = self._ring.before(entry.place)
        step = self._ring.at(entry.place)
        if step is None:
            return
        firing: dict[int, str] = {}
        for number, trigger in enumerate(self._flight.triggers):
            reason = self._ask(trigger, step, before)
            if reason:
                firing[number] = reason
        new = [number for number in firing if number not in self._firing]
        self._firing = set(firing)
        if new:
            names = [name_of(self._flight.triggers[number]) for number in new]
            self._write(entry.place, step, names, "; ".join(firing[number] for number in new))

    def _ask(self, trigger: Trigger, step: FlightStep, before: list[FlightStep]) -> str:
        try:
            answer = trigger(step, before)
        except Exception as error:
            self._guard.report(error)
            return ""
        return answer if isinstance(answer, str) else f"{name_of(trigger)} is true" if answer else ""

    # writing

    def _write(self, place: int, step: FlightStep, triggers: list[str], reason: str) -> None:
        self._n_writes += 1
        if self._n_writes > self._flight.most_writes:
            text = f"flight recorder: {reason}. Not written: most_writes={self._flight.most_writes} is reached."
            if self._n_writes == self._flight.most_writes + 1:
                self._writer.note(text[:2000], step=step.number, level="warning")
            return
        cause: dict[str, Plain] = {"reason": reason[:1000], "triggers": list(triggers), "step": step.number}
        steps = [each for each in [*self._ring.before(place), step] if each.number > self._written]
        new = [each for each in steps if not each.is_recorded]
        for each in new:
            schema = self._writer.schema(each.rows, STATISTICS)
            self._writer.step(
                each.number, schema=schema, kind=KIND, matrix=each.matrix, about=about_step(each) | {KIND: cause},
                when=(each.time, each.elapsed),
            )  # fmt: skip
        self._written = max(self._written, step.number)
        text = f"flight recorder: {reason}. Steps {steps[0].number}–{step.number}: {plural(len(new), 'step')} written"
        recorded = f", {len(steps) - len(new)} recorded already" if len(new) < len(steps) else ""
        self._writer.note(f"{text}{recorded}."[:4000], step=step.number, level="warning", about={KIND: cause})

    # checks

    def _check(self, entry: _Entry, step: Step) -> None:
        """Say once what cannot be seen."""
        readings = entry.readings
        if readings.n_left_out and self._guard.is_new(_LEFT_OUT):
            self._writer.problem(_LEFT_OUT, step=step.number, level="info")
        if not self._flight.outputs:
            return
        if self._hooks.has_seen:
            self._guard(self._hooks.check_sites)
        elif not readings.sites and readings.gradients() and self._guard.is_new(_UNSEEN):
            self._writer.problem(_UNSEEN, step=step.number, level="info")
