"""Companions of a tensor for one sample: a value per token, the model's output, and the target."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

import numpy as np

from cutaway.core.arrays import Array
from cutaway.core.errors import CutawayError
from cutaway.store.format.records import VALUE, Row
from cutaway.store.runs.step import Step
from cutaway.views.run.kept_values import kept_array, kept_values, one_sample, row_at
from cutaway.views.run.rows import RunRows
from cutaway.views.values.value_view import finite_or_none

_FEW: Final = 64
_MEASURES: Final = ("mean", "norm", "max")
_LOOKED_AT: Final = "attention received"
_OUTPUT: Final = re.compile(r"\.(:\d+)?(@out(\.\w+)*)?")
"""Sites of the model's output, or a part of it."""


@dataclass(frozen=True, slots=True)
class TokenValues:
    """The values of a tensor per token of the chosen sample."""

    tokens: tuple[str, ...]
    measures: tuple[str, ...]
    values: tuple[tuple[float | None, ...], ...]
    """(measure, token)."""
    is_square: bool
    """Whether the last two dimensions are both tokens, as in attention weights."""


@dataclass(frozen=True, slots=True)
class Companion:
    """A companion of a tensor for the same sample: the target, or the model's output."""

    row: int
    site: str
    role: str
    shape: tuple[int, ...]
    text: str
    """Its elements, if they are few; else their number."""
    verdict: str
    """For an output: how it compares with the target; "" if unknown."""


def by_token(array: Array, tokens: tuple[str, ...], longest: int, tile: int | None) -> TokenValues | None:
    """One value per token, if some dimension is the tokens; padding is left out.

    Args:
        array: the values of one sample.
        longest: number of tokens of the longest sample.
        tile: for attention weights, the head to show.
    """
    sizes = (longest, len(tokens))
    n = len(tokens)
    if array.ndim > 1 and array.shape[-1] == array.shape[-2] and array.shape[-1] in sizes:
        heads = array[tile : tile + 1] if array.ndim == 3 and tile is not None and tile < len(array) else array
        with np.errstate(all="ignore"):
            looked_at = heads.astype(np.float64).reshape(-1, *array.shape[-2:])[:, :n, :n].mean((0, 1))
        return TokenValues(tokens, (_LOOKED_AT,), (tuple(map(finite_or_none, looked_at)),), is_square=True)
    # Padded length first: a batch pads all samples to the longest one.
    dimension = next((d for size in sizes for d in range(array.ndim) if array.shape[d] == size), None)
    if dimension is None:
        return None
    each = np.moveaxis(array, dimension, 0).reshape(array.shape[dimension], -1)[:n].astype(np.float64)
    if each.shape[1] == 1:
        return TokenValues(tokens, ("value",), (tuple(map(finite_or_none, each[:, 0])),), is_square=False)
    with np.errstate(all="ignore"):
        measured = (each.mean(1), np.sqrt(np.square(each).sum(1)), each.max(1))
    values = tuple(tuple(map(finite_or_none, values)) for values in measured)
    return TokenValues(tokens, _MEASURES, values, is_square=False)


def companions(rows: RunRows, at: Step, number: int, sample: int) -> tuple[Companion, ...]:
    """The output of the model and the target for the same sample; with iterations, those of the same iteration."""
    found: list[tuple[int, Row, Array]] = []
    for other, row in enumerate(rows.rows):
        if row.of != VALUE or not (row.role == "target" or _is_output(row)) or row_at(at, row) is None:
            continue
        try:
            entry = kept_values(rows.run, at, row)
            found.append((other, row, one_sample(kept_array(entry), entry, sample)[0]))
        except CutawayError:
            continue
    rounds = {row.iteration for _, row, _ in found if row.iteration}
    own = rows.row(number).iteration
    shown = own if own in rounds else max(rounds, default=0)
    found = [entry for entry in found if entry[1].iteration in (0, shown)]
    # An output with several passes: the same pass, or all passes if it has no such pass.
    pass_ = rows.row(number).pass_
    paired = {row.base for _, row, _ in found if row.pass_ == pass_}
    found = [entry for entry in found if entry[1].pass_ == pass_ or entry[1].base not in paired]
    # A comparison with float targets is more informative than one with class numbers.
    targets = [(row.base, values) for _, row, values in found if row.role == "target"]
    targets.sort(key=lambda entry: entry[1].dtype.kind != "f")
    verdicts = _verdicts([values for _, row, values in found if row.role != "target"], targets)
    return tuple(
        Companion(
            row=other,
            site=row.base,
            role=row.role if row.role == "target" else "output",
            shape=tuple(values.shape),
            text=_format_values(values) if values.size <= _FEW else f"{values.size:,} values",
            verdict="" if row.role == "target" else verdicts.get(id(values), ""),
        )
        for other, row, values in sorted(found, key=lambda entry: entry[1].role == "target")
    )


def _is_output(row: Row) -> bool:
    return any(_OUTPUT.fullmatch(name) for name in (row.site, *row.names))


def _verdicts(outputs: list[Array], targets: list[tuple[str, Array]]) -> dict[int, str]:
    """How outputs compare with targets, by `id` of the output: class scores with classes, or values with values."""
    verdicts: dict[int, str] = {}
    for name, target in targets:
        like = [
            values for values in outputs if values.shape == target.shape and values.dtype.kind == "f" and values.size
        ]
        scores = [values for values in outputs if _are_class_scores(values, target)]
        for values in like if target.dtype.kind == "f" else []:
            with np.errstate(all="ignore"):
                far = float(np.abs(values.astype(np.float64) - target.astype(np.float64)).mean())
            verdicts.setdefault(id(values), f"mean absolute difference to {name}: {far:.4g}")
        # A returned hidden state also looks like class scores, but it has more entries than there are classes.
        for values in sorted(scores, key=lambda entry: entry.shape[-1])[:1]:
            verdicts.setdefault(id(values), _prediction_text(values.argmax(-1), name, target))
    return verdicts


def _are_class_scores(values: Array, target: Array) -> bool:
    """Whether there is a score for each class the target could name."""
    is_class = target.dtype.kind in "iu" and target.size > 0 and values.dtype.kind == "f"
    return is_class and values.ndim > 0 and values.shape[:-1] == target.shape and 1 < values.shape[-1] > target.max()


def _prediction_text(best: Array, name: str, target: Array) -> str:
    if not target.ndim:
        is_right = int(best) == int(target)
        return f"prediction {int(best)}, {'correct' if is_right else 'wrong'}: {name} is {int(target)}"
    prediction = f"prediction {_format_values(best)}, " if best.size <= _FEW else ""
    counts = target >= 0  # negative classes are ignored, as in cross_entropy's ignore_index
    return f"{prediction}{int((best == target)[counts].sum()):,} of {int(counts.sum()):,} match {name}"


def _format_values(values: Array) -> str:
    """The elements with four significant digits, as a Python list."""
    shown = np.array2string(
        values,
        separator=", ",
        max_line_width=10**6,
        threshold=10**6,
        formatter={"float_kind": lambda entry: f"{entry:.4g}", "int_kind": str},
    )
    return " ".join(shown.split())
