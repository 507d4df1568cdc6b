"""Why each token was written: a score for every token that the model could see. The answer of `gen.saliency()`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from cutaway.core.dataframes import framed
from cutaway.core.errors import InputError
from cutaway.results.generation import Segment
from cutaway.results.result import Result
from cutaway.results.token_names import question

SaliencyUnit = Literal["token", "word", "segment"]


@dataclass(frozen=True, slots=True)
class SaliencyMethod:
    """One line of the table of saliency methods."""

    place: str
    """`module:function` of the code; its keyword-only parameters are the options of the method. The name is resolved on
    first use, so that a result loads without torch."""
    summary: str
    """What a score means, in one sentence for the page."""
    is_signed: bool = True
    """Whether `Saliency.signed` tells for from against; False for attention, which explains no value."""


METHODS: Mapping[str, SaliencyMethod] = {
    "gradient": SaliencyMethod(
        "cutaway.lm.saliency.gradients:gradient",
        "Gradient: how strongly a small change of the token changes the value.",
    ),
    "grad_x_input": SaliencyMethod(
        "cutaway.lm.saliency.gradients:grad_x_input",
        "Gradient × input: what the token adds to the value, to first order.",
    ),
    "integrated_gradients": SaliencyMethod(
        "cutaway.lm.saliency.gradients:integrated_gradients",
        "Integrated gradients: what the token adds to the value on the path from the baseline to the text.",
    ),
    "occlusion": SaliencyMethod(
        "cutaway.lm.saliency.occlusion:occlusion",
        "Occlusion: how much the value drops when the token is replaced or masked.",
    ),
    "rollout": SaliencyMethod(
        "cutaway.lm.saliency.attention_paths:rollout_saliency",
        "Attention rollout: the share of the token after mixing attention through all layers.",
        is_signed=False,
    ),
    "flow": SaliencyMethod(
        "cutaway.lm.saliency.attention_paths:flow_saliency",
        "Attention flow: the maximum flow from the token through the attention of all layers.",
        is_signed=False,
    ),
}
"""All methods of `gen.saliency()`. `lm` runs them and the page describes them, so the table is here, below both."""
_MOST_SHOWN = 8
_MOST_NAMED = 5
REST, WRITTEN = "(rest)", "(written)"
"""Names of what belongs to no segment: of what was given, and of what the model wrote."""


@dataclass(frozen=True, slots=True, eq=False)
class Saliency(Result):
    """How much each position mattered to each target.

    Positions are all tokens that the model read: for an encoder–decoder those of the encoder first. Its arrays belong
    to it alone and cannot be written to.
    """

    method: str
    target: str
    """What was explained of each target: "logit", "logprob", "probability", or the name of a function."""
    scores: NDArray[np.float64]
    """(target, position): the L2 norm over the embedding; each row sums to 1. NaN where a position is in the future."""
    signed: NDArray[np.float64]
    """(target, position): the plain sum over the embedding: above 0 where it spoke for the target, below where against.
    """
    targets: tuple[str, ...]
    """The text of each target."""
    positions: tuple[str, ...]
    """The text of each position."""
    roles: tuple[str, ...]
    """Of each position, which stack read it: "encoder" or "decoder"."""
    is_written: NDArray[np.bool_]
    """(position,): whether the model wrote it."""
    places: NDArray[np.int64]
    """(target,): the position that the target itself stands at; -1 where it is no position."""
    values: NDArray[np.float64]
    """(target,): what was explained, as a number: the logit, say."""
    contrast: tuple[str, ...] = ()
    """The text of what each target was compared with; nothing if it was compared with nothing."""
    delta: NDArray[np.float64] | None = None
    """(target,): of integrated gradients, the sum of `signed` less what the path changed the value by: 0 if exact."""
    baseline_values: NDArray[np.float64] | None = None
    """(target,): of integrated gradients, the value at the baseline."""
    word_of: NDArray[np.int64] | None = None
    """(position,): the number of the word of each position; None where positions are no tokens."""
    spans: tuple[Segment, ...] = ()
    """The segments of the prompt, by positions."""
    unit: SaliencyUnit = "token"
    """What a position is."""
    about: Mapping[str, object] = field(default_factory=dict)
    """Model, baseline, steps: JSON-like."""
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        arrays = (self.scores, self.signed, self.is_written, self.places, self.values, self.delta)
        for array in (*arrays, self.baseline_values, self.word_of):
            if array is not None:
                array.flags.writeable = False

    def __len__(self) -> int:
        """How many targets there are."""
        return len(self.targets)

    @property
    def has_signs(self) -> bool:
        """Whether `signed` tells for and against; what attention lets through does not."""
        return self.method not in METHODS or METHODS[self.method].is_signed

    def top(self, target: int = -1, n: int = 5) -> list[tuple[str, float]]:
        """The positions that mattered most to one target: texts with scores."""
        row = np.nan_to_num(self.scores[target], nan=-1.0)
        order = np.argsort(-row, kind="stable")[:n]
        return [(self.positions[at], float(row[at])) for at in order.tolist() if row[at] >= 0]

    # merged

    def words(self) -> Saliency:
        """The same with the tokens of each word as one position; sums stay what they were."""
        if self.word_of is None:
            raise InputError(f"positions are {self.unit}s here: ask the saliency of tokens for words.")
        groups = [np.flatnonzero(self.word_of == word).tolist() for word in dict.fromkeys(self.word_of.tolist())]
        names = ["".join(self.positions[at] for at in group) for group in groups]
        return self._merged("word", groups, [name.strip() or name for name in names])

    def segments(self) -> Saliency:
        """The same with one position for each segment: which field of a template, or message of a chat, mattered.

        What was given outside all segments is "(rest)", what the model wrote "(written)"; sums stay what they were.
        """
        if not self.spans:
            raise InputError(
                "the prompt has no segments: give cutaway.lm.Template('Q: {question}', question=…), or chat messages."
            )
        groups = [list(range(each.start, each.end)) for each in self.spans]
        taken = {at for group in groups for at in group}
        left = [at for at in range(len(self.positions)) if at not in taken]
        rests = {
            name: [at for at in left if bool(self.is_written[at]) == (name == WRITTEN)] for name in (REST, WRITTEN)
        }
        names = [each.name for each in self.spans] + [name for name, rest in rests.items() if rest]
        return self._merged("segment", [*groups, *(rest for rest in rests.values() if rest)], names)

    def _merged(self, unit: SaliencyUnit, groups: Sequence[Sequence[int]], names: Sequence[str]) -> Saliency:
        kept = [(list(group), name) for group, name in zip(groups, names, strict=True) if group]
        home = {at: i for i, (group, _) in enumerate(kept) for at in group}
        return replace(
            self,
            scores=_summed(self.scores, [group for group, _ in kept]),
            signed=_summed(self.signed, [group for group, _ in kept]),
            positions=tuple(name for _, name in kept),
            roles=tuple(self.roles[group[0]] for group, _ in kept),
            is_written=np.array([bool(self.is_written[group].all()) for group, _ in kept], bool),
            places=np.array([home.get(at, -1) for at in self.places.tolist()], np.int64),
            word_of=None,
            spans=(),
            unit=unit,
        )

    # showing

    def table(self) -> Any:
        """One row a target and position: a pandas DataFrame where pandas is installed, else a list of dicts."""
        return framed(
            {
                "target": row,
                "target_piece": target,
                "position": at,
                "piece": piece,
                "role": self.roles[at],
                "score": float(self.scores[row, at]),
                "signed": float(self.signed[row, at]),
            }
            for row, target in enumerate(self.targets)
            for at, piece in enumerate(self.positions)
            if not np.isnan(self.scores[row, at])
        )

    @property
    def explained(self) -> str:
        """What was explained of each target, in words; against another token, by how much it leads."""
        what = {"logprob": "log-probability"}.get(self.target, self.target)
        return f"lead in {what}" if self.contrast else what

    @property
    def described(self) -> str:
        """The method, and what it explains, in words."""
        return self._method if not self.has_signs else f"{self._method} of the {self.explained}"

    @property
    def _method(self) -> str:
        return self.method.replace("_x_", " × ").replace("grad ", "gradient ").replace("_", " ")

    @property
    def title(self) -> str:
        """By this, several are told apart: what a contrast asks comes first."""
        of = "" if self.unit == "token" else f" of {self.unit}s"
        asked = f"{question(self.targets, self.contrast)} " if self.contrast else ""
        return f"{asked}Saliency{of} by {self._method}"

    def __repr__(self) -> str:
        n, rest = len(self.positions), len(self) - _MOST_SHOWN
        lines = [
            f"Saliency by {self.described}: {len(self)} {'target' if len(self) == 1 else 'targets'}, {n:,} {self.unit}s"
        ]
        for row, target in enumerate(self.targets[:_MOST_SHOWN]):
            against = f" rather than {self.contrast[row]!r}" if self.contrast else ""
            best = ", ".join(f"{piece!r} {score:.0%}" for piece, score in self.top(row, _MOST_NAMED))
            lines.append(f"  {target!r}{against}: {best}")
        return "\n".join([*lines, *([f"  and {rest} more"] if rest > 0 else []), *(f"  {note}" for note in self.notes)])


def _summed(values: NDArray[np.float64], groups: Sequence[Sequence[int]]) -> NDArray[np.float64]:
    """(target, group): sums of what is there; NaN where all of it is in the future."""
    found = np.full((len(values), len(groups)), np.nan)
    for i, group in enumerate(groups):
        part = values[:, list(group)]
        found[:, i] = np.where(np.isnan(part).all(1), np.nan, np.nansum(part, 1))
    return found
