"""Intersection over union of the rows where a unit fires and the rows with the label.

Mu & Andreas, "Compositional Explanations of Neurons", NeurIPS 2020, after Bau et al., "Network Dissection", CVPR 2017:
a unit fires where its value is above a threshold of its own, which it exceeds on 0.5 % of the data. For units behind a
ReLU, in text, they take the threshold 0.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from cutaway.core.errors import InputError
from cutaway.core.matrices import Matrix
from cutaway.neurons.ranking.class_statistics import Floats, moments, n_rows_of
from cutaway.neurons.ranking.combine import Overall, combine_labels, refuse_numbers
from cutaway.neurons.ranking.thresholds import Array, has_label, sorted_block
from cutaway.results.ranking import Ranking

if TYPE_CHECKING:
    from cutaway.neurons.labels.labels import EncodedLabels

_INSTEAD = "Make classes of them first, for example labels > median; or 'mean_select', which ranks by correlation."
_MOST_VALUES = 2**18


def iou(
    matrix: Matrix,
    encoded: EncodedLabels,
    *,
    share: float | Literal["best"] = 0.005,
    threshold: float | None = None,
    absolute: bool = True,
    overall: Overall = "mean",
    seed: int = 0,
) -> Ranking:
    """`|fires ∩ label| / |fires ∪ label|` of each unit; the larger of that of x and of -x, with its sign.

    Args:
        share: a unit fires on this share of all rows, where it is largest, as in the paper. "best" chooses a threshold
            for each unit and label on half of the rows (drawn by `seed`), and scores on the other half: the paper's
            share can reach no more than share / (share of the label), and tells common labels badly apart.
        threshold: fire above this number instead; 0 is the paper's for units behind a ReLU.
        absolute: False for x alone.
    """
    refuse_numbers(encoded, "iou", "it needs rows with a label and rows without.", _INSTEAD)
    if share != "best" and not 0 < share < 1:
        raise InputError(f"share={share!r}: a share of the rows above 0 and below 1, or 'best'.")
    dead = moments(matrix, encoded).dead
    scorer = (
        _BestThreshold(encoded, seed)
        if share == "best" and threshold is None
        else _FixedThreshold(encoded, share, threshold)
    )
    scores, signs = np.zeros((2, len(encoded.classes), matrix.n_units))
    n_each = max(1, _MOST_VALUES // max(matrix.n_rows, 1))
    for units, block in matrix.column_blocks():
        for first in range(0, len(block), n_each):
            some = block[first : first + n_each]  # (unit, row)
            where = slice(units.start + first, units.start + first + len(some))
            found = scorer.scores(some)  # (label, unit)
            other = scorer.scores(-some) if absolute else np.full_like(found, -1.0)
            scores[:, where] = np.maximum(found, other)
            signs[:, where] = np.where(other > found, -1, 1)
    how = {"threshold": threshold} if threshold is not None else {"share": share}
    return combine_labels(
        "iou", matrix, encoded, scores=scores, signs=signs, dead=dead, overall=overall, absolute=absolute, **how
    )


class _FixedThreshold:
    """One threshold a unit, whatever the label."""

    def __init__(self, encoded: EncodedLabels, share: float | str, threshold: float | None) -> None:
        self._encoded = encoded
        self._n_rows = n_rows_of(encoded)
        self._share, self._threshold = share, threshold

    def scores(self, block: Array) -> Floats:
        """(label, unit)."""
        if self._threshold is None:
            fires = block > np.quantile(block, 1 - float(self._share), axis=1, keepdims=True)
        else:
            fires = block > self._threshold
        both = np.stack([_counts(self._encoded, row) for row in fires], axis=1)
        return _overlap(both, fires.sum(axis=1), self._n_rows)


class _BestThreshold:
    """A threshold for each unit and label: the best on some rows, scored on the others."""

    def __init__(self, encoded: EncodedLabels, seed: int) -> None:
        is_train = split_in_half(encoded, seed)
        self._train, self._test = np.flatnonzero(is_train), np.flatnonzero(~is_train)
        self._encoded = encoded
        self._train_labels = replace(encoded, codes=encoded.codes[self._train])
        n_train, n_all = n_rows_of(self._train_labels)[:, 0], n_rows_of(encoded)[:, 0]
        lacking = np.flatnonzero((n_train == 0) | (n_train == n_all))
        if len(lacking):
            raise InputError(
                f"label {encoded.classes[lacking[0]]!r} has rows in one half of the data only, with which no threshold "
                "can be chosen and scored: share='best' needs several rows of each label; or take a number."
            )

    def scores(self, block: Array) -> Floats:
        """(label, unit)."""
        train, test = sorted_block(block[:, self._train]), block[:, self._test]
        found = []
        for label, places in enumerate(train.places(self._train_labels)):
            _, best = train.down(places).best_overlap
            at = np.take_along_axis(places, best[:, None], axis=1)
            fires = test >= np.take_along_axis(train.values, at, axis=1)
            hit = has_label(self._encoded, label)[self._test]
            both = fires[:, hit].sum(axis=1).astype(np.float64)
            found.append(_overlap(both, fires.sum(axis=1), np.float64(hit.sum())))
        return np.stack(found)


def split_in_half(encoded: EncodedLabels, seed: int) -> NDArray[np.bool_]:
    """(row,): whether it is in the first half; of each class half, too, where a row has one."""
    codes = encoded.codes if encoded.kind == "classes" else np.zeros(len(encoded), np.int64)
    order = np.lexsort((np.random.default_rng(seed).random(len(codes)), codes))
    is_first = np.zeros(len(codes), np.bool_)
    is_first[order[::2]] = True
    return is_first


def _counts(encoded: EncodedLabels, fires: NDArray[np.bool_]) -> Floats:
    """(label,): how many of the rows at which a unit fires have it."""
    codes = encoded.codes[fires]
    if encoded.kind == "classes":
        return np.bincount(codes, minlength=len(encoded.classes)).astype(np.float64)
    return np.asarray(codes.sum(axis=0), np.float64)


def _overlap(both: Floats, n_fires: Array, n_label: Floats | np.float64) -> Floats:
    union = n_fires + n_label - both
    return np.asarray(both / union)
