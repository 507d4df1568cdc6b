"""Intersection over union of the rows where a unit is active and the rows with the label.

Mu & Andreas, "Compositional Explanations of Neurons", NeurIPS 2020, after Bau et al., "Network Dissection", CVPR 2017:
a unit is active where it exceeds its own threshold, the 99.5th percentile of its values. For text units after a ReLU,
they use the threshold 0.
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
from cutaway.results.neurons.ranking import Ranking

if TYPE_CHECKING:
    from cutaway.neurons.labels.labels import EncodedLabels

_ALTERNATIVES = "Turn them into classes, for example labels > median, or use 'mean_select', which ranks by correlation."
_MOST_VALUES = 2**18
"""Values to process at once, to bound the memory of the boolean masks."""


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
    """`|active ∩ label| / |active ∪ label|` of each unit, the larger of the values for x and -x.

    Args:
        share: a unit is active on this fraction of rows, those with its largest values, as in the paper. "best"
            chooses a threshold per unit and label on half of the rows and scores on the other half. A fixed share
            limits the score to share / (fraction of rows with the label), which is low for common labels.
        threshold: a unit is active above this value instead; the paper uses 0 for units after a ReLU.
        absolute: if False, use x only.
        seed: seed of the split for `share="best"`.
    """
    refuse_numbers(encoded, "iou", "it compares rows with and without a label.", _ALTERNATIVES)
    if share != "best" and not 0 < share < 1:
        raise InputError(f"share={share!r}: must be a fraction of the rows in (0, 1), or 'best'.")
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
            rising = scorer.scores(some)  # (label, unit)
            falling = scorer.scores(-some) if absolute else np.full_like(rising, -1.0)
            scores[:, where] = np.maximum(rising, falling)
            signs[:, where] = np.where(falling > rising, -1, 1)
    threshold_option = {"threshold": threshold} if threshold is not None else {"share": share}
    return combine_labels(
        "iou",
        matrix,
        encoded,
        scores=scores,
        signs=signs,
        dead=dead,
        overall=overall,
        absolute=absolute,
        **threshold_option,
    )


class _FixedThreshold:
    """One threshold per unit, shared by all labels."""

    def __init__(self, encoded: EncodedLabels, share: float | str, threshold: float | None) -> None:
        self._encoded = encoded
        self._n_rows = n_rows_of(encoded)
        self._share, self._threshold = share, threshold

    def scores(self, block: Array) -> Floats:
        """(label, unit)."""
        if self._threshold is None:
            # Strictly above: after a ReLU the quantile may be 0, and >= would call every row active.
            is_active = block > np.quantile(block, 1 - float(self._share), axis=1, keepdims=True)
        else:
            is_active = block > self._threshold
        both = np.stack([_counts(self._encoded, row) for row in is_active], axis=1)
        return _overlap(both, is_active.sum(axis=1), self._n_rows)


class _BestThreshold:
    """One threshold per unit and label: the best on half of the rows, scored on the other half."""

    def __init__(self, encoded: EncodedLabels, seed: int) -> None:
        is_train = split_in_half(encoded, seed)
        self._train, self._test = np.flatnonzero(is_train), np.flatnonzero(~is_train)
        self._encoded = encoded
        self._train_labels = replace(encoded, codes=encoded.codes[self._train])
        n_train, n_all = n_rows_of(self._train_labels)[:, 0], n_rows_of(encoded)[:, 0]
        lacking = np.flatnonzero((n_train == 0) | (n_train == n_all))
        if len(lacking):
            raise InputError(
                f"label {encoded.classes[lacking[0]]!r} has rows in one half of the data only: share='best' chooses a "
                "threshold on one half and scores it on the other. Pass more rows of this label, or a number as share=."
            )

    def scores(self, block: Array) -> Floats:
        """(label, unit)."""
        train, test = sorted_block(block[:, self._train]), block[:, self._test]
        overlaps = []
        for label, places in enumerate(train.places(self._train_labels)):
            _, best = train.down(places).best_overlap
            at = np.take_along_axis(places, best[:, None], axis=1)
            is_active = test >= np.take_along_axis(train.values, at, axis=1)
            hit = has_label(self._encoded, label)[self._test]
            both = is_active[:, hit].sum(axis=1).astype(np.float64)
            overlaps.append(_overlap(both, is_active.sum(axis=1), np.float64(hit.sum())))
        return np.stack(overlaps)


def split_in_half(encoded: EncodedLabels, seed: int) -> NDArray[np.bool_]:
    """(row,): whether the row is in the first half; stratified by class if rows have one label."""
    codes = encoded.codes if encoded.kind == "classes" else np.zeros(len(encoded), np.int64)
    order = np.lexsort((np.random.default_rng(seed).random(len(codes)), codes))
    is_first = np.zeros(len(codes), np.bool_)
    is_first[order[::2]] = True
    return is_first


def _counts(encoded: EncodedLabels, is_active: NDArray[np.bool_]) -> Floats:
    """(label,): the number of active rows with each label."""
    codes = encoded.codes[is_active]
    if encoded.kind == "classes":
        return np.bincount(codes, minlength=len(encoded.classes)).astype(np.float64)
    return np.asarray(codes.sum(axis=0), np.float64)


def _overlap(both: Floats, n_active: Array, n_label: Floats | np.float64) -> Floats:
    union = n_active + n_label - both
    return np.asarray(both / union)
