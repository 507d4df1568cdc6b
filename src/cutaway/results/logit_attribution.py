"""What each part of a model added to a logit, summing to it. The answer of `gen.logit_attribution()`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from cutaway.core.dataframes import to_dataframe
from cutaway.core.errors import InputError
from cutaway.results.result import Result
from cutaway.results.token_names import question

Floats = NDArray[np.float64]
AttributedBy = Literal["layer", "component", "head", "mlp", "neuron"]
PartKind = Literal["embedding", "layer", "attention", "head", "mlp", "neuron", "other", "bias"]
_MOST_SHOWN = 6


@dataclass(frozen=True, slots=True)
class Group:
    """Parts that stand side by side: the heads of one attention, or one part alone."""

    kind: PartKind
    name: str
    """As people say it: "3 attention"."""
    site: str
    """Where it can be changed: of heads and neurons, what enters their projection."""
    layer: int = -1
    """-1 for what belongs to none."""
    n: int = 1
    """How many parts."""
    is_cross: bool = False
    """Whether an attention takes from the encoder."""
    n_experts: int = 1

    def part(self, index: int) -> str:
        """The name of one part; of neurons, as `cutaway.edit` takes it."""
        if self.kind == "head":
            return f"{self.layer} {'cross ' if self.is_cross else ''}head {index}"
        if self.kind == "neuron" and self.n_experts > 1:
            width = self.n // self.n_experts
            return f"{self.layer} expert {index // width} unit {index % width}"
        return f"{self.site}#{index}" if self.kind == "neuron" else self.name


@dataclass(frozen=True, slots=True, eq=False)
class LogitAttribution(Result):
    """The logit of each target as a sum of what was added to the stream. Arrays cannot be written to."""

    by: AttributedBy
    groups: tuple[Group, ...]
    values: Floats
    """(target, part): groups one after the other; each row sums to the logit."""
    logits: Floats
    """(target,): what is explained, as the model computes it: a logit, or the difference of two."""
    targets: tuple[str, ...]
    """The text of each target."""
    contrast: tuple[str, ...] = ()
    """The text of what each target was compared with; nothing if it was compared with nothing."""
    is_capped: bool = False
    """Whether the model bends its logits to a cap afterwards; these are the ones before."""
    about: Mapping[str, object] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for array in (self.values, self.logits):
            array.flags.writeable = False

    def __len__(self) -> int:
        """How many targets there are."""
        return len(self.targets)

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
        """(target,): the sum less the logit of the model: what rounding leaves."""
        return self.total - self.logits

    # parts

    @property
    def names(self) -> tuple[str, ...]:
        """The name of each part."""
        return tuple(group.part(i) for group in self.groups for i in range(group.n))

    def name(self, part: int) -> str:
        """The name of one part."""
        for group, span in self._spans():
            if span.start <= part < span.stop:
                return group.part(part - span.start)
        raise InputError(f"there is no part {part}: there are {self.n_parts:,}, counted from 0.")

    def of(self, kind: PartKind) -> Floats:
        """(target, group, part): all parts of a kind, one group for each attention or feed-forward that has some."""
        found = [self.values[:, span] for group, span in self._spans() if group.kind == kind]
        if not found:
            kinds = ", ".join(repr(each) for each in dict.fromkeys(group.kind for group in self.groups))
            raise InputError(f"there is no {kind!r} here, only {kinds}: ask for it with by={kind!r}.")
        if len({each.shape[1] for each in found}) > 1:
            raise InputError(f"layers differ in how many {kind}s they have: values and groups have them all.")
        return np.stack(found, 1)

    def layers(self) -> Floats:
        """(target, layer): what each layer added, all its parts together."""
        n = max((group.layer for group in self.groups), default=-1) + 1
        found = np.zeros((len(self), n))
        for group, span in self._spans():
            if group.layer >= 0:
                found[:, group.layer] += self.values[:, span].sum(1)
        return found

    def top(self, target: int = -1, n: int = 10) -> list[tuple[str, float]]:
        """The parts that added most, for or against: names with what they added."""
        row = self.values[target]
        order = np.argsort(-np.abs(row), kind="stable")[:n]
        return [(self.name(i), float(row[i])) for i in order.tolist()]

    def _spans(self) -> Iterator[tuple[Group, slice]]:
        start = 0
        for group in self.groups:
            yield group, slice(start, start + group.n)
            start += group.n

    # showing

    @property
    def what(self) -> str:
        """What is explained, in words."""
        what = "difference of two logits" if self.contrast else "logit"
        return f"{what}, before the cap" if self.is_capped else what

    @property
    def title(self) -> str:
        """By this, several are told apart: what a contrast asks comes first."""
        if self.contrast:
            return f"{question(self.targets, self.contrast)} What added to the lead, by {self.by}"
        return f"What added to the logit, by {self.by}"

    def table(self) -> Any:
        """One row a target and part: a pandas DataFrame where pandas is installed, else a list of dicts."""
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
        n = f"{len(self)} {'target' if len(self) == 1 else 'targets'}"
        lines = [f"Logit attribution by {self.by}: {n}, {self.n_parts:,} parts that sum to the {self.what}"]
        for row, target in enumerate(self.targets[:_MOST_SHOWN]):
            against = f" rather than {self.contrast[row]!r}" if self.contrast else ""
            best = ", ".join(f"{name} {value:+.2f}" for name, value in self.top(row, 4))
            lines.append(f"  {target!r}{against} {self.logits[row]:.2f}: {best}")
        rest = len(self) - _MOST_SHOWN
        return "\n".join([*lines, *([f"  and {rest} more"] if rest > 0 else []), *(f"  {note}" for note in self.notes)])
