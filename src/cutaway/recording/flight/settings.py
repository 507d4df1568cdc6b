"""`Flight`: the settings of a flight recorder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from cutaway.core.errors import InputError, InputTypeError
from cutaway.core.formatting import type_text
from cutaway.core.sites import Site
from cutaway.recording.flight.triggers import DEFAULT, Trigger, parse_triggers

MOST_STEPS = 65_536


@dataclass(frozen=True, slots=True)
class Flight:
    """Settings of the flight recorder: `cutaway.record(…, flight=cutaway.Flight(steps=50))`.

        flight = cutaway.Flight(steps=100, triggers=[cutaway.triggers.NonFinite()])
        with cutaway.record("runs/base", model, every=1000, flight=flight) as run: ...

    Args:
        steps: how many steps the ring holds.
        triggers: what writes the ring to the run: triggers of `cutaway.triggers`, or functions of the step and the
            steps before it. By default NaN or Inf, a loss spike, a jump of the gradient norm, and an exception.
        at: which module outputs to watch: sites and patterns. By default all.
        outputs: whether to watch module outputs.
        gradients: whether to watch the gradients of parameters.
        disk: whether the ring is a file, so that it survives `kill -9`.
        most_writes: how often the ring is written in one run; later triggers get a note only.
    """

    steps: int = 50
    triggers: Sequence[Trigger] = DEFAULT
    at: str | Sequence[str] = "**"
    outputs: bool = True
    gradients: bool = True
    disk: bool = False
    most_writes: int = 20

    def __post_init__(self) -> None:
        if type(self.steps) is not int or not 1 <= self.steps <= MOST_STEPS:
            raise InputError(f"Flight(steps={self.steps!r}): pass how many steps to keep, 1 to {MOST_STEPS:,}.")
        if type(self.most_writes) is not int or self.most_writes < 0:
            raise InputError(f"Flight(most_writes={self.most_writes!r}): pass a number from 0.")
        object.__setattr__(self, "triggers", parse_triggers(self.triggers))
        for pattern in [self.at] if isinstance(self.at, str) else self.at:
            site = Site.parse(pattern)
            if site.op is not None or site.name is not None or site.side == "in" or site.unit is not None:
                raise InputError(f"Flight(at={pattern!r}): the flight recorder watches outputs of modules only.")


FlightLike = Flight | bool | Literal["disk"] | None


def parse_flight(flight: object) -> Flight | None:
    """The settings that `flight=` stands for; None if it is off."""
    if flight is None or flight is False:
        return None
    if flight is True:
        return Flight()
    if flight == "disk":
        return Flight(disk=True)
    if isinstance(flight, Flight):
        return flight
    shown = repr(flight) if isinstance(flight, str) else type_text(flight)
    raise InputTypeError(f"flight= got {shown}: pass True, 'disk', or cutaway.Flight(steps=50, triggers=[…]).")
