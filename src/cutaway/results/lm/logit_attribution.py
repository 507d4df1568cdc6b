"""`LogitAttribution`: what each part of a model adds to a logit, the result of `gen.logit_attribution()`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from cutaway.core.dataframes import to_dataframe
from cutaway.core.errors import InputError
from cutaway.core.formatting import plural
from cutaway.results.lm.token_names import contrast_question
from cutaway.results.result import Result, make_read_only, target_index, to_array

Floats = NDArray[np.float64]
AttributedBy = Literal["layer", "component", "head", "mlp", "neuron"]
PartKind = Literal["embedding", "layer", "attention", "head", "mlp", "neuron", "other", "bias"]
_MOST_SHOWN = 6


@dataclass(frozen=True, slots=True)
class Group:
    """Parts that belong together: the heads of one attention, or a single part."""

    kind: PartKind
    name: str
    """Readable name: "3 attention"."""
    site: str
    """Where to edit it; for heads and neurons, the input of their projection."""
    layer: int = -1
    """-1 for parts outside the layers."""
    n: int = 1
    """Number of parts."""
    is_cross: bool = False
    """Whether it is cross-attention."""
    n_experts: int = 1

    def part(self, index: int) -> str:
        """The name of one part; for neurons, as `cutaway.edit` takes it."""
        if self.kind == "head":
            return f"{self.layer} {'cross ' if self.is_cross else ''}head {index}"
        if self.kind == "neuron" and self.n_experts > 1:
            width = self.n // self.n_experts
            return f"{self.layer} expert {index // width} unit {index % width}"
        return f"{self.site}#{index}" if self.kind == "neuron" else self.name


@dataclass(frozen=True, slots=True, eq=False)
class LogitAttribution(Result):
    """The logit of each target as a sum of contributions to the residual stream. Arrays are read-only."""

    by: AttributedBy
    groups: tuple[Group, ...]
    values: Floats
    """(target, part): groups one after another; each row sums to the logit."""
    logits: Floats
    """(target,): the explained logit as the model computes it, or a difference of two."""
    targets: tuple[str, ...]
    """The text of each target."""
    contrast: tuple[str, ...] = ()
    """The text of the token each target is contrasted with; empty without contrast."""
    is_capped: bool = False
    """Whether the model soft-caps its logits; these are the logits before the cap."""
    about: Mapping[str, object] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        make_read_only(self.values, self.logits)

    def __len__(self) -> int:
        """Number of targets."""
        return len(self.targets)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """`np.asarray(attribution)` is `values`: (target, part)."""
        return to_array(self.values, dtype, copy)

    @property
    def n_parts(self) -> int:
        return int(self.values.shape[1])

    # the sum

    @property
    def total(self) -> Floats:
        """(target,): the sum of all parts."""
        return np.asarray(self.values.sum(1))

    @property
    def gap(self) -> Floats:
        """(target,): the sum minus the logit of the model: rounding error."""
        return self.total - self.logits

    # parts

    @property
    def names(self) -> tuple[str, ...]:
        """The name of each part."""
        return tuple(group.part(i) for group in self.groups for i in range(group.n))

    def name(self, part: int) -> str:
        """The name of one part.

        Args:
            part: index of the part.
        """
        for group, span in self._spans():
            if span.start <= part < span.stop:
                return group.part(part - span.start)
        raise InputError(f"there is no part {part}: there are {self.n_parts:,}, counted from 0.")

    def of(self, kind: PartKind) -> Floats:
        """(target, group, part): all parts of a kind, one group per attention or feed-forward network.

        Args:
            kind: the kind of parts.
        """
        columns = [self.values[:, span] for group, span in self._spans() if group.kind == kind]
        if not columns:
            kinds = ", ".join(repr(each) for each in dict.fromkeys(group.kind for group in self.groups))
            raise InputError(f"there is no {kind!r} here, only {kinds}: call it with by={kind!r}.")
        if len({each.shape[1] for each in columns}) > 1:
            raise InputError(f"layers have different numbers of {kind}s: use .values and .groups.")
        return np.stack(columns, 1)

    def layers(self) -> Floats:
        """(target, layer): what each layer adds, all its parts together."""
        n = max((group.layer for group in self.groups), default=-1) + 1
        totals = np.zeros((len(self), n))
        for group, span in self._spans():
            if group.layer >= 0:
                totals[:, group.layer] += self.values[:, span].sum(1)
        return totals

    def top(self, target: int = -1, n: int = 10) -> list[tuple[str, float]]:
        """The parts with the largest contributions, positive or negative, by name; fewer if there are not as many.

        Args:
            target: index of the target; -1 is the last.
            n: the most parts to return.
        """
        row = self.values[target_index(target, len(self))]
        order = np.argsort(-np.abs(row), kind="stable")[:n]
        return [(self.name(i), float(row[i])) for i in order.tolist()]

    def _spans(self) -> Iterator[tuple[Group, slice]]:
        start = 0
        for group in self.groups:
            yield group, slice(start, start + group.n)
            start += group.n

    # display

    @property
    def what(self) -> str:
        """The explained value, in words."""
        what = "difference of two logits" if self.contrast else "logit"
        return f"{what}, before the cap" if self.is_capped else what

    @property
    def title(self) -> str:
        """A title that tells results apart: a contrast comes first."""
        if self.contrast:
            return f"{contrast_question(self.targets, self.contrast)} What added to the lead, by {self.by}"
        return f"What added to the logit, by {self.by}"

    def table(self) -> Any:
        """One row per target and part: a pandas DataFrame if pandas is installed, else a list of dicts."""
        return to_dataframe(
            {
                "target": row,
                "target_piece": target,
                "part": group.part(i),
                "kind": group.kind,
                "layer": group.layer if group.layer >= 0 else None,
                "value": float(self.values[row, span.start + i]),
                "site": group.site,
            }
            for row, target in enumerate(self.targets)
            for group, span in self._spans()
            for i in range(group.n)
        )

    def __repr__(self) -> str:
        n = plural(len(self), "target")
        lines = [f"Logit attribution by {self.by}: {n}, {self.n_parts:,} parts that sum to the {self.what}"]
        for row, target in enumerate(self.targets[:_MOST_SHOWN]):
            against = f" rather than {self.contrast[row]!r}" if self.contrast else ""
            best = ", ".join(f"{name} {value:+.2f}" for name, value in self.top(row, 4))
            lines.append(f"  {target!r}{against} {self.logits[row]:.2f}: {best}")
        rest = len(self) - _MOST_SHOWN
        return "\n".join([*lines, *([f"  and {rest} more"] if rest > 0 else []), *(f"  {note}" for note in self.notes)])
