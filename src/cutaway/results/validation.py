"""The report of `trace.validate()`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Outcome = Literal["exact", "close", "failed", "opaque", "undefined", "without inputs", "not saved"]
"""What was found out about one op:

exact            called again on its parents' values, its function gave the saved value bit for bit
close            the same within a tolerance: kernels differ between two runs, or with the layout of memory
failed           it gave something else, or raised
opaque           it stands for code that cannot be called on its own
undefined        its contents are arbitrary (`empty`); shape and dtype were compared
without inputs   a value it was computed from was not saved
not saved        its own value was not saved
"""
What = Literal["value", "edge", "output", "graph"]


@dataclass(frozen=True, slots=True)
class Failure:
    """One thing that is not as it should be."""

    what: What
    """A value that is wrong, an edge that carries nothing, an output that differs, a graph that contradicts itself."""
    op: str
    """Label of the op; "" where it is about none."""
    source: str
    """The line of the program that led to it."""
    reason: str

    def __str__(self) -> str:
        where = f" at {self.source}" if self.source else ""
        return f"{self.op or self.what}: {self.reason}{where}"


@dataclass(frozen=True, slots=True)
class Coverage:
    """How many ops came to which end; together they are all ops of the trace."""

    exact: int = 0
    close: int = 0
    failed: int = 0
    opaque: int = 0
    undefined: int = 0
    without_inputs: int = 0
    not_saved: int = 0

    @property
    def total(self) -> int:
        return (
            self.exact + self.close + self.failed + self.opaque + self.undefined + self.without_inputs + self.not_saved
        )

    @property
    def proven(self) -> int:
        """Ops whose saved value came out again."""
        return self.exact + self.close

    def __str__(self) -> str:
        rest = [
            (self.close, "of them within tolerance"),
            (self.failed, "failed"),
            (self.opaque, "opaque"),
            (self.undefined, "with undefined contents"),
            (self.without_inputs, "without saved inputs"),
            (self.not_saved, "not saved"),
        ]
        said = [f"{n:,} {what}" for n, what in rest if n]
        return ", ".join([f"{self.proven:,} of {self.total:,} ops proven", *said])


@dataclass(frozen=True, slots=True)
class Validation:
    """Whether a trace holds what happened. True if nothing failed and something was proven.

    `failures` says what failed, `notes` what could not be asked.
    """

    failures: tuple[Failure, ...]
    coverage: Coverage
    outcomes: Mapping[str, Outcome]
    """Label of each op → what was found out."""
    edges_felt: int
    """Arguments that the result depends on: with other values in their place it changed."""
    edges_unfelt: int
    """Arguments whose values make no difference here: masked, overwritten, only asked for their shape."""
    outputs_compared: int
    """Outputs that were held against a run of the model that nobody watched."""
    largest_deviation: float
    """Among the ops within tolerance, relative to the largest element."""
    notes: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return not self.failures and (self.coverage.proven > 0 or self.outputs_compared > 0 or not self.coverage.total)

    def __repr__(self) -> str:
        lines = [f"{'valid' if self else 'NOT VALID' if self.failures else 'nothing proven'}: {self.coverage}"]
        if self.edges_felt or self.edges_unfelt:
            lines.append(f"  {_counted(self.edges_felt, 'argument')} felt, {self.edges_unfelt:,} without influence")
        if self.outputs_compared:
            lines.append(f"  {_counted(self.outputs_compared, 'output')} compared with a run that was not watched")
        if self.coverage.close:
            lines.append(f"  largest deviation {self.largest_deviation:.1e}")
        lines += [f"  {note}" for note in self.notes]
        lines += [f"  {failure}" for failure in self.failures[:10]]
        if len(self.failures) > 10:
            lines.append(f"  and {len(self.failures) - 10:,} more failures")
        return "\n".join(lines)


def _counted(n: int, what: str) -> str:
    return f"{n:,} {what}" if n == 1 else f"{n:,} {what}s"
