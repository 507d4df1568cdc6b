"""The report of `trace.validate()`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from cutaway.core.formatting import plural

Outcome = Literal["exact", "close", "failed", "opaque", "undefined", "without inputs", "not saved"]
"""The outcome for one op:

exact            called again on its parents' values, its function returned the saved value bit for bit
close            the same within a tolerance: kernels differ between runs, or with the memory layout
failed           it returned something else, or raised
opaque           code that cannot be called on its own
undefined        its contents are arbitrary (`empty`); shape and dtype were compared
without inputs   a value it was computed from was not saved
not saved        its value was not saved
"""
What = Literal["value", "edge", "output", "graph"]


@dataclass(frozen=True, slots=True)
class Failure:
    """One failed check."""

    what: What
    """A wrong value, an edge without data flow, an output that differs, or an inconsistent graph."""
    op: str
    """Label of the op; "" if the failure is not about one op."""
    source: str
    """The line of the program that it comes from."""
    reason: str

    def __str__(self) -> str:
        where = f" at {self.source}" if self.source else ""
        return f"{self.op or self.what}: {self.reason}{where}"


@dataclass(frozen=True, slots=True)
class Coverage:
    """The number of ops with each outcome; they add up to all ops of the trace."""

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
        """Ops whose saved value was reproduced, exactly or within tolerance."""
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
        parts = [f"{n:,} {what}" for n, what in rest if n]
        return ", ".join([f"{self.proven:,} of {self.total:,} ops proven", *parts])


@dataclass(frozen=True, slots=True)
class Validation:
    """Whether a trace is correct. True if nothing failed and something was proven.

    `failures` lists what failed, `notes` what could not be checked.
    """

    failures: tuple[Failure, ...]
    coverage: Coverage
    outcomes: Mapping[str, Outcome]
    """Label of each op → its outcome."""
    edges_felt: int
    """Arguments that the result depends on: it changed when they were replaced."""
    edges_unfelt: int
    """Arguments whose values make no difference here: masked, overwritten, or used only for their shape."""
    outputs_compared: int
    """Outputs that were compared with an untraced run of the model."""
    largest_deviation: float
    """Among the ops within tolerance, relative to the largest element."""
    notes: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return not self.failures and (self.coverage.proven > 0 or self.outputs_compared > 0 or not self.coverage.total)

    def __repr__(self) -> str:
        lines = [f"{'valid' if self else 'NOT VALID' if self.failures else 'nothing proven'}: {self.coverage}"]
        if self.edges_felt or self.edges_unfelt:
            n = self.edges_felt + self.edges_unfelt
            changed = f"{'all ' if n > 1 else ''}{n:,}" if not self.edges_unfelt else f"{self.edges_felt:,} of them"
            lines.append(f"  {plural(n, 'input')} perturbed; {changed} changed the result")
        if self.outputs_compared:
            lines.append(f"  {plural(self.outputs_compared, 'output')} compared with an untraced run")
        if self.coverage.close:
            lines.append(f"  largest deviation {self.largest_deviation:.1e}")
        lines += [f"  {note}" for note in self.notes]
        lines += [f"  {failure}" for failure in self.failures[:10]]
        if len(self.failures) > 10:
            lines.append(f"  and {len(self.failures) - 10:,} more failures")
        return "\n".join(lines)
