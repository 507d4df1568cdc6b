"""What a trace that was read from disk knows without working it out: the code behind it is not stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cutaway.core.units.layout import UnitLayout
from cutaway.graph.control_flow.source import Source


@dataclass(frozen=True, slots=True)
class Asked:
    """One test that a tensor decided; the fields are those of `Conditional`."""

    node: int
    value: bool | None
    kind: str
    source: Source
    test: str | None
    arm: str | None
    arm_lines: tuple[int, int] | None


@dataclass(frozen=True, slots=True, eq=False)
class Known:
    """Results of analyses, as they were when the trace was saved."""

    tests: Sequence[Asked]
    arms: Mapping[int, tuple[int, ...]]
    """Node → the tests in whose arms it ran, the outermost first."""
    recurrent: Sequence[tuple[int, ...]]
    """The nodes that are passes of one op."""
    flops: Mapping[int, int]
    """Node → floating-point operations, where there are any."""
    units: Sequence[UnitLayout | None] | None = None
    """Which dimensions of each node count units; None in a trace that an older Cutaway saved."""

    def around(self, node: int) -> tuple[int, ...]:
        """The tests in whose arms a node ran, the outermost first."""
        return self.arms.get(node, ())


class RecordedError(Exception):
    """Stands for the error that ended a trace which was read from disk; its class has the name of the original's."""

    @staticmethod
    def of(name: str, message: str) -> RecordedError:
        """
        >>> RecordedError.of("OverflowError", "too large")
        OverflowError('too large')
        """
        kind: type[RecordedError] = type(name, (RecordedError,), {"__doc__": RecordedError.__doc__})
        return kind(message)
