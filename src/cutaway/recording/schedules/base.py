"""What a schedule is: the rule that a recorder asks which steps to record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

State: TypeAlias = dict[str, Any]
"""What a schedule remembers, as texts, numbers, lists and dicts: a document of the store."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What recording one step has cost."""

    seconds: float
    """Time spent on recording, without the step itself."""
    n_bytes: int
    """Bytes written."""


class Schedule(Protocol):
    """A rule for which steps are recorded; a subclass needs `wants` only.

    Any of these methods may raise. The recorder then notes it in the run, warns once, and does not record the step:
    training goes on.
    """

    def wants(self, step: int, kind: str) -> bool:
        """Whether to record this step: asked once for each step, in order."""
        ...

    def recorded(self, kind: str, cost: Cost) -> None:
        """Told after each step that was recorded, before the next one is asked for."""
        return None

    def state(self) -> State:
        """What a resumed run needs to go on where this one is."""
        return {}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a state; one that another sort of schedule has left is passed over."""
        return None
