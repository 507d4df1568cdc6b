"""The step of a recording that the program is in, so that a trace made there knows its run and step."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class StepOrigin:
    """A step of a recorded run."""

    run: str
    """The id in the manifest of the run: it stays when the folder is renamed."""
    step: int


@dataclass(slots=True)
class OpenStep:
    """An entered step, until it is closed."""

    origin: StepOrigin
    is_open: bool = field(default=True)

    def close(self) -> None:
        """Forget the step. May be called from another context than the one that entered it (asyncio, callbacks)."""
        self.is_open = False


_OPEN: ContextVar[OpenStep | None] = ContextVar("cutaway_open_step", default=None)


def enter_step(run: str, step: int) -> OpenStep:
    """Note that the program has entered a step of a recording.

    >>> entered = enter_step("6f1c", 40)
    >>> current_step()
    StepOrigin(run='6f1c', step=40)
    >>> entered.close()
    >>> current_step() is None
    True
    """
    entered = OpenStep(StepOrigin(run, step))
    _OPEN.set(entered)
    return entered


def current_step() -> StepOrigin | None:
    """The step that the program is in; None outside of recorded steps."""
    entered = _OPEN.get()
    return entered.origin if entered is not None and entered.is_open else None
