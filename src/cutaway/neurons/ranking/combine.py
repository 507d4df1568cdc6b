"""From scores of every label to one ranking with a ranking for each label inside."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from cutaway.core.errors import InputError
from cutaway.core.matrices import Matrix
from cutaway.results.ranking import Ranking, ranked

if TYPE_CHECKING:
    from cutaway.neurons.labels.labels import EncodedLabels

Overall = Literal["mean", "max"]
"""How the scores of several labels become one."""


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
    """The ranking of a method that scores each label by itself.

    Of two classes, the second in sorted order (`True` of truth values, 1 of 0 and 1) is the concept, and the ranking
    as a whole is its ranking. Of more classes, and where a row has several labels, it is the mean, or the largest, of
    the scores of all. Numbers have one ranking.

    Args:
        scores: (label, unit), larger is better.
        signs: (label, unit), of any number: its sign counts.
        overall: the scores of the whole, where the method has its own rule for more than two classes.
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
    """An error where a method of classes is asked about numbers."""
    if encoded.kind == "numbers":
        raise InputError(f"method={method!r} was asked about labels that are numbers: {why} {instead}")


def _concept(encoded: EncodedLabels) -> int | None:
    n = len(encoded.classes)
    if encoded.kind == "classes":
        return 1 if n == 2 else None
    return 0 if n == 1 else None


def _overall_scores(scores: NDArray[np.float64], overall: Overall | NDArray[np.float64]) -> NDArray[np.float64]:
    if isinstance(overall, np.ndarray):
        return overall
    if overall not in ("mean", "max"):
        raise InputError(f"overall={overall!r}: the scores of several labels are joined by their 'mean' or 'max'.")
    overall_scores: NDArray[np.float64] = scores.mean(axis=0) if overall == "mean" else scores.max(axis=0)
    return overall_scores
