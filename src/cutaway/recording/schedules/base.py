"""The `Schedule` protocol and the `Cost` of a recorded step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

State: TypeAlias = dict[str, Any]
"""State of a schedule as strings, numbers, lists and dicts; stored as a document of the run."""


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of recording one step."""

    seconds: float
    """Time spent on recording, without the step itself."""
    n_bytes: int
    """Bytes written."""


class Schedule(Protocol):
    """Decides which steps to record. A subclass needs to implement only `wants`.

    Any of these methods may raise. The recorder then adds a note to the run, warns once, and skips the step.
    """

    def wants(self, step: int, kind: str) -> bool:
        """Return whether to record this step. Called once for each step, in order.

        Args:
            step: the number of the step.
            kind: the kind of the step.
        """
        ...

    def recorded(self, kind: str, cost: Cost) -> None:
        """Called after each recorded step, before the next call of `wants`.

        Args:
            kind: the kind of the step.
            cost: the seconds and bytes that it took.
        """
        return None

    def state(self) -> State:
        """Return the state that a resumed run needs to continue."""
        return {}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore a state. Ignore a state that another class of schedule has saved.

        Args:
            state: what `state` returned in an earlier session.
        """
        return None
