"""The triggers of the flight recorder: loss spike, NaN or Inf, jump of the gradient norm, exception.

A trigger is a function of a step and of the steps before it in the ring. It returns why it fires, as text, or whether.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isfinite
from statistics import median

import numpy as np

from cutaway.core.errors import InputError, InputTypeError
from cutaway.core.formatting import plural, type_text
from cutaway.core.zscores import MIN_REFERENCES, robust_z
from cutaway.recording.flight.flight_step import FlightStep

Trigger = Callable[[FlightStep, Sequence[FlightStep]], str | bool]
"""Judges a step; the second argument has the steps before it that are in the ring, the oldest first."""


@dataclass(frozen=True, slots=True)
class LossSpike:
    """Fires if the loss is above every loss in the ring, and far above their median. Compares steps of one kind.

    Args:
        factor: how many times the median it must reach; ignored if the median is not positive.
        z: how many robust standard deviations (MAD) above the median it must be.
        least: how many earlier losses it needs.
    """

    factor: float = 1.5
    z: float = 8.0
    least: int = 10

    def __post_init__(self) -> None:
        _check_least(self.least, "LossSpike")

    def __call__(self, step: FlightStep, before: Sequence[FlightStep]) -> str:
        loss = step.loss
        losses = [each.loss for each in before if each.kind == step.kind and isfinite(each.loss)]
        # First what costs little: few steps get past it.
        if not isfinite(loss) or len(losses) < self.least or loss <= max(losses):
            return ""
        middle = median(losses)
        if middle > 0 and loss < self.factor * middle:
            return ""
        z = robust_z(np.array([loss]), np.array(losses)[:, None], ("mean",))[0][0]
        if not z >= self.z:
            return ""
        return f"loss spike: {loss:.4g}, the median of the {plural(len(losses), 'step')} before is {middle:.4g}"


@dataclass(frozen=True, slots=True)
class NonFinite:
    """Fires at the first step with NaN or Inf in a loss, in a module output or in a gradient.

    Args:
        outputs: whether to look at module outputs.
        gradients: whether to look at gradients.
    """

    outputs: bool = True
    gradients: bool = True

    def __call__(self, step: FlightStep, before: Sequence[FlightStep]) -> str:
        parts = []
        if self.outputs and step.nonfinite:
            parts.append(_first("output", step.nonfinite))
        parts += [f"{name!r} is {value}" for name, value in step.losses.items() if not isfinite(value)]
        if self.gradients and not isfinite(step.gradient_norm) and step.gradients:
            parts.append(_first("gradient", step.nonfinite_gradients))
        return f"NaN or Inf: {'; '.join(parts)}" if parts else ""


@dataclass(frozen=True, slots=True)
class GradientJump:
    """Fires if the norm of all gradients is many times its median in the ring. Compares steps of one kind.

    Args:
        factor: how many times the median it must reach.
        least: how many earlier norms it needs.
    """

    factor: float = 10.0
    least: int = 10

    def __post_init__(self) -> None:
        _check_least(self.least, "GradientJump")

    def __call__(self, step: FlightStep, before: Sequence[FlightStep]) -> str:
        norm = step.gradient_norm
        norms = [each.gradient_norm for each in before if each.kind == step.kind and isfinite(each.gradient_norm)]
        if not isfinite(norm) or len(norms) < self.least:
            return ""
        middle = median(norms)
        if not norm > self.factor * middle:
            return ""
        largest = max(step.gradients, key=step.gradients.__getitem__)
        return (
            f"gradient norm jump: {norm:.4g}, the median of the {plural(len(norms), 'step')} before is {middle:.4g}; "
            f"the largest is that of {largest!r}"
        )


@dataclass(frozen=True, slots=True)
class Raised:
    """Fires if an exception ends a step, or the loop between two steps. Ctrl-C does not count."""

    def __call__(self, step: FlightStep, before: Sequence[FlightStep]) -> str:
        return step.error


def parse_triggers(triggers: object) -> tuple[Trigger, ...]:
    """The triggers that the user passed, checked."""
    if callable(triggers) and not isinstance(triggers, type):
        return (triggers,)
    if isinstance(triggers, (str, bytes, type)) or not isinstance(triggers, Sequence):
        raise InputTypeError(
            f"triggers= got {type_text(triggers)}: pass a list, as in [cutaway.triggers.NonFinite(), "
            "lambda step, before: step.loss > 10]."
        )
    for trigger in triggers:
        if isinstance(trigger, type):
            raise InputTypeError(f"triggers= has the class {trigger.__name__}: create it, as in {trigger.__name__}().")
        if not callable(trigger):
            raise InputTypeError(
                f"triggers= has {type_text(trigger)}: pass triggers of cutaway.triggers, or functions of the step and "
                "the steps before it."
            )
    return tuple(triggers)


def name_of(trigger: Trigger) -> str:
    """How a trigger is called in messages: its class, or the name of the function."""
    return getattr(trigger, "__name__", type(trigger).__name__)


def _first(what: str, names: Sequence[str]) -> str:
    more = f" (and {len(names) - 1:,} more)" if len(names) > 1 else ""
    return f"{what} of {names[0]!r}{more}" if names else what


def _check_least(least: int, name: str) -> None:
    if least < MIN_REFERENCES:
        raise InputError(f"{name}(least={least}): pass at least {MIN_REFERENCES}; fewer steps say too little.")


DEFAULT: tuple[Trigger, ...] = (NonFinite(), LossSpike(), GradientJump(), Raised())
"""The triggers of `flight=True`."""
