"""`FlightStep`: one step as triggers see it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import hypot, isfinite, nan

import numpy as np
from numpy.typing import NDArray

from cutaway.core.errors import SiteError
from cutaway.core.formatting import nearest_hint
from cutaway.store.format.records import VALUE, Row

STATISTICS = ("mean", "norm", "nonfinite")


@dataclass(frozen=True, eq=False)
class FlightStep:
    """One step of the flight recorder. Numbers are on the CPU: a trigger never waits for a GPU."""

    number: int
    """The number of the step."""
    kind: str
    """The kind of the step."""
    losses: Mapping[str, float]
    """The losses by name: what you logged, or "backward" for a tensor that was backpropagated."""
    rows: tuple[Row, ...]
    """What was read: module outputs in order of execution, then gradients of parameters."""
    matrix: NDArray[np.float32]
    """`[row, statistic]`, with the statistics mean, norm and nonfinite; the mean of a gradient is NaN."""
    time: float = 0.0
    """When the step ended, in seconds since 1970."""
    elapsed: float = 0.0
    """Seconds from the start of the session to the end of the step."""
    error: str = ""
    """The exception that ended the step, as "ValueError: …"; "" if none did."""
    is_recorded: bool = False
    """Whether the schedule recorded the step, so that the run has it already."""
    gradients: Mapping[str, float] = field(default_factory=dict)
    """Norms of the gradients of parameters, by parameter."""

    loss: float = field(init=False)
    """The loss named "loss", else the sum of all losses; NaN if none was seen."""
    gradient_norm: float = field(init=False)
    """The norm of all gradients together, as the optimizer read them; NaN if none was seen."""

    def __post_init__(self) -> None:
        # Not properties: each step is compared with every step in the ring.
        losses = self.losses
        loss = losses["loss"] if "loss" in losses else sum(losses.values()) if losses else nan
        object.__setattr__(self, "loss", loss)
        object.__setattr__(self, "gradient_norm", hypot(*self.gradients.values()) if self.gradients else nan)

    @property
    def sites(self) -> tuple[str, ...]:
        """The module outputs that were read, in order of execution."""
        return tuple(row.site for row in self.rows if row.of == VALUE)

    @cached_property
    def nonfinite(self) -> tuple[str, ...]:
        """The module outputs with NaN or Inf, in order of execution: the first one is where it began."""
        flags = self.matrix[:, 2] > 0  # NaN where there was nothing to read
        if not flags.any():
            return ()
        return tuple(row.site for row, flag in zip(self.rows, flags.tolist(), strict=True) if flag and row.of == VALUE)

    @property
    def nonfinite_gradients(self) -> tuple[str, ...]:
        """The parameters whose gradient has NaN or Inf."""
        return tuple(name for name, norm in self.gradients.items() if not isfinite(norm))

    def mean(self, site: str) -> float:
        """The mean of a module output.

        Args:
            site: one of `sites`.
        """
        return float(self.matrix[self._row(site), 0])

    def norm(self, site: str) -> float:
        """The Euclidean norm of a module output.

        Args:
            site: one of `sites`.
        """
        return float(self.matrix[self._row(site), 1])

    def _row(self, site: str) -> int:
        for number, row in enumerate(self.rows):
            if row.of == VALUE and (site == row.site or site in row.names):
                return number
        near = nearest_hint(site, self.sites)
        raise SiteError(f"the flight recorder has no output {site!r} of step {self.number}.{near}")

    def __repr__(self) -> str:
        kind = f" ({self.kind})" if self.kind else ""
        return f"<FlightStep {self.number}{kind}: loss {self.loss:.4g}, gradient norm {self.gradient_norm:.4g}>"
