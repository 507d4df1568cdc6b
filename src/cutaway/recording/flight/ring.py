"""The last steps, in memory and on request in a memory-mapped file."""

from __future__ import annotations

from cutaway.recording.flight.flight_step import STATISTICS, FlightStep
from cutaway.store.format.frames import Plain
from cutaway.store.format.records import Row, Schema, StepRecord
from cutaway.store.writing.flight_ring import FlightRing

KIND = "flight"
"""The kind of the steps that a flight recorder writes."""
KILLED = "the process ended without closing the run"


class Ring:
    """The last steps by their place in the sequence of all steps.

    Args:
        n_steps: how many steps it holds.
        file: a file that mirrors it; None without one.
    """

    def __init__(self, n_steps: int, file: FlightRing | None = None) -> None:
        self._n_steps = n_steps
        # One more: when a step is judged, the step after it is here already.
        self._slots: list[tuple[int, FlightStep] | None] = [None] * (n_steps + 1)
        self._file = file
        self._schemas: dict[tuple[Row, ...], Schema] = {}

    def put(self, place: int, step: FlightStep) -> None:
        """Put a step in its place; it replaces the step that is a whole ring older, or an earlier state of itself."""
        self._slots[place % len(self._slots)] = (place, step)
        # Recorded steps, too: the writer's thread may not have written them when the process is killed.
        if self._file is not None:
            about = about_step(step) | {KIND: {"reason": KILLED}}
            record = StepRecord(step.number, KIND, step.time, step.elapsed, 0, None, None, about)
            self._file.put(place % self._n_steps, record, self._schema(step.rows), step.matrix)

    def _schema(self, rows: tuple[Row, ...]) -> Schema:
        schema = self._schemas.get(rows)
        if schema is None:
            schema = self._schemas[rows] = Schema(0, rows, STATISTICS)
        return schema

    def at(self, place: int) -> FlightStep | None:
        """The step at a place; None if it is no longer in the ring."""
        entry = self._slots[place % len(self._slots)]
        return entry[1] if entry is not None and entry[0] == place else None

    def before(self, place: int) -> list[FlightStep]:
        """The steps before a place, the oldest first."""
        slots, n = self._slots, len(self._slots)
        numbers = range(max(0, place - self._n_steps + 1), place)
        return [entry[1] for number in numbers if (entry := slots[number % n]) is not None and entry[0] == number]

    def close(self) -> None:
        """Remove the file."""
        if self._file is not None:
            self._file.remove()


def about_step(step: FlightStep) -> dict[str, Plain]:
    """What the record of a step says beside its numbers."""
    about: dict[str, Plain] = {"kind": step.kind} if step.kind else {}
    if step.losses:
        about["losses"] = dict(list(step.losses.items())[:16])
    if step.error:
        about["error"] = step.error[:1000]
    return about
