"""Analysis results that are saved with a trace, because the code objects they are computed from are not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cutaway.core.units.layout import UnitLayout
from cutaway.graph.control_flow.source import Source


@dataclass(frozen=True, slots=True)
class StoredTest:
    """One test that a tensor decided; the fields are those of `Conditional`."""

    node: int
    value: bool | None
    kind: str
    source: Source
    test: str | None
    arm: str | None
    arm_lines: tuple[int, int] | None


@dataclass(frozen=True, slots=True, eq=False)
class StoredFacts:
    """Analysis results at the time the trace was saved."""

    tests: Sequence[StoredTest]
    arms: Mapping[int, tuple[int, ...]]
    """Node → the tests in whose branches it ran, outermost first."""
    recurrent: Sequence[tuple[int, ...]]
    """Groups of nodes that are passes of one op."""
    flops: Mapping[int, int]
    """Node → floating-point operations, where there are any."""
    units: Sequence[UnitLayout | None] | None = None
    """The unit layout of each node; None in a trace saved by an older Cutaway."""

    nonfinite: int | None = None
    """The node at which NaN or Inf first appears, -1 for none; None in a trace saved by an older Cutaway."""

    def around(self, node: int) -> tuple[int, ...]:
        """The tests in whose branches a node ran, outermost first."""
        return self.arms.get(node, ())


class RecordedError(Exception):
    """Stands for the error that ended a trace loaded from disk; its class has the name of the original class."""

    @staticmethod
    def of(name: str, message: str) -> RecordedError:
        """
        >>> RecordedError.of("OverflowError", "too large")
        OverflowError('too large')
        """
        kind: type[RecordedError] = type(name, (RecordedError,), {"__doc__": RecordedError.__doc__})
        return kind(message)
