"""Combines the scores of all labels into one `Ranking` with a ranking per label."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from cutaway.core.errors import InputError
from cutaway.core.matrices import Matrix
from cutaway.results.neurons.ranking import Ranking, ranked

if TYPE_CHECKING:
    from cutaway.neurons.labels.labels import EncodedLabels

Overall = Literal["mean", "max"]
"""How to combine the scores of several labels."""


def combine_labels(
    method: str,
    matrix: Matrix,
    encoded: EncodedLabels,
    *,
    scores: NDArray[np.float64],
    signs: NDArray[Any],
    dead: NDArray[np.int64],
    overall: Overall | NDArray[np.float64] = "mean",
    **options: object,
) -> Ranking:
    """The ranking of a method that scores each label separately.

    With two classes, the overall ranking is that of the second in sorted order (`True`, or 1 of 0 and 1). With more
    classes or several labels per row, the overall score is the mean or the maximum over the labels. Labels that are
    numbers have one ranking.

    Args:
        scores: (label, unit), higher is better.
        signs: (label, unit), any numbers; only their signs are used.
        overall: overall scores, if the method has its own rule for more than two classes.
    """
    about = {"kind": encoded.kind, "n_rows": matrix.n_rows, **options}
    fields: dict[str, Any] = {"names": matrix.names, "dead": dead}
    sign_of_label = np.sign(signs).astype(np.int8)
    if encoded.kind == "numbers":
        return ranked(method, scores[0], signs=sign_of_label[0], about=about, **fields)
    counts = dict(zip(encoded.classes, map(int, encoded.counts), strict=True))
    per_label = {
        label: ranked(
            method, scores[i], signs=sign_of_label[i], about={**about, "label": label, "n": counts[label]}, **fields
        )
        for i, label in enumerate(encoded.classes)
    }
    concept = _concept(encoded)
    if concept is not None:
        overall_scores, overall_signs = scores[concept], sign_of_label[concept]
        about["concept"] = encoded.classes[concept]
    else:
        overall_scores, overall_signs = _overall_scores(scores, overall), np.zeros(scores.shape[1], np.int8)
    about["counts"] = counts
    return ranked(method, overall_scores, signs=overall_signs, per_label=per_label, about=about, **fields)


def refuse_numbers(encoded: EncodedLabels, method: str, why: str, instead: str) -> None:
    """Raise if the labels are numbers and the method needs classes."""
    if encoded.kind == "numbers":
        raise InputError(f"method={method!r} needs classes, but the labels are numbers: {why} {instead}")


def _concept(encoded: EncodedLabels) -> int | None:
    n = len(encoded.classes)
    if encoded.kind == "classes":
        return 1 if n == 2 else None
    return 0 if n == 1 else None


def _overall_scores(scores: NDArray[np.float64], overall: Overall | NDArray[np.float64]) -> NDArray[np.float64]:
    if isinstance(overall, np.ndarray):
        return overall
    if overall not in ("mean", "max"):
        raise InputError(f"overall={overall!r}: use 'mean' or 'max'.")
    overall_scores: NDArray[np.float64] = scores.mean(axis=0) if overall == "mean" else scores.max(axis=0)
    return overall_scores
