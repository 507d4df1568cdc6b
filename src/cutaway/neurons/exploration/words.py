"""Top words, top contexts and histograms of a unit."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from cutaway.core.errors import InputError
from cutaway.core.matrices import Matrix, as_matrix
from cutaway.core.units.unit_sites import unit_name
from cutaway.neurons.labels.labels import encode
from cutaway.neurons.ranking.class_statistics import dead_units
from cutaway.neurons.ranking.combine import refuse_numbers
from cutaway.neurons.ranking.rank import Compat, unit_indices
from cutaway.neurons.ranking.thresholds import has_label
from cutaway.results.neurons.words import ALL, Context, Histograms, TopContexts, TopWords

Floats = NDArray[np.float64]
_NEUROX_LEAST = 0.1


def top_words(acts: Any, unit: int | str, n: int = 20, *, min_count: int = 2, compat: Compat = "") -> TopWords:
    """The words with the strongest mean z-score of a unit, strongest first.

    The score is negative if the unit falls at the word. A dead unit has no words.

    Args:
        acts: the result of `cutaway.collect`, or `Activations.of(x, words=…)`.
        unit: index, or name such as `encoder.layer.3#17`.
        n: the number of words.
        min_count: minimum number of occurrences; without it, words that occur once would dominate.
        compat: "neurox" for NeuroX's score: mean magnitude divided by the largest, for all words above 0.1.
    """
    matrix = as_matrix(acts)
    words = _words(acts)
    index = unit_of(unit, matrix)
    scores = standard_scores(matrix, index)
    # The z-score of a word that occurs once is that of a single row, so rare words would lead.
    least = 1 if compat else max(min_count, 1)
    types, codes, counts = _types(words)
    means = np.bincount(codes, np.abs(scores) if compat else scores) / counts
    is_listed = (counts >= least) & (means != 0)
    if compat and is_listed.any():
        means = means / means.max()
        is_listed &= means > _NEUROX_LEAST
    chosen = np.flatnonzero(is_listed)
    order = chosen[np.lexsort((types[chosen], -np.abs(means[chosen])))][:n]
    return TopWords(
        unit=unit_name(matrix.names, index),
        words=tuple(types[order].tolist()),
        scores=means[order],
        counts=counts[order],
        min_count=least,
        n_left_out=int((counts < least).sum()),
    )


def top_contexts(
    acts: Any, unit: int | str, n: int = 10, *, width: int = 5, sign: Literal[-1, 0, 1] = 0
) -> TopContexts:
    """The rows where a unit is farthest from its mean, with the surrounding words; strongest first.

    Repeated sentences appear once.

    Args:
        acts: the result of `cutaway.collect`, or `Activations.of(x, words=…)`.
        unit: index, or name such as `encoder.layer.3#17`.
        n: the number of rows.
        width: how many words to show before and after.
        sign: 1 for rows above the mean, -1 for rows below, 0 for both.
    """
    matrix = as_matrix(acts)
    words = _words(acts)
    index = unit_of(unit, matrix)
    scores = standard_scores(matrix, index)
    if sign not in (-1, 0, 1):
        raise InputError(f"sign={sign!r}: use 1 for rows above the mean, -1 for rows below, or 0 for both.")
    strength = np.abs(scores) if sign == 0 else sign * scores
    values = matrix.columns([index])[:, 0]
    items = np.asarray(acts.items)
    seen = set()
    contexts: list[Context] = []
    for row in np.argsort(-strength, kind="stable").tolist():
        if len(contexts) == n or strength[row] <= 0:
            break
        before, after = _around(items, row, len(items))
        text = (tuple(words[other] for other in before), words[row], tuple(words[other] for other in after))
        # A single word without neighbors is not a repeated sentence.
        if text in seen and (before or after):
            continue
        seen.add(text)
        before, after = before[-width:] if width else [], after[:width]
        contexts.append(
            Context(
                row=row,
                item=int(items[row]),
                before=tuple(words[other] for other in before),
                word=words[row],
                after=tuple(words[other] for other in after),
                value=float(values[row]),
                score=float(scores[row]),
                around=tuple(scores[[*before, row, *after]].tolist()),
            )
        )
    return TopContexts(unit_name(matrix.names, index), tuple(contexts))


def histograms(acts: Any, unit: int | str, labels: Any = None, *, bins: int = 40) -> Histograms:
    """Histograms of the values of a unit, one per label with shared bins; without labels, one for all rows.

    Args:
        acts: `Activations`, or rows × units as an array or tensor.
        unit: index, or name such as `encoder.layer.3#17`.
        labels: one class per row.
        bins: the number of bins.
    """
    matrix = as_matrix(acts)
    index = unit_of(unit, matrix)
    values = matrix.columns([index])[:, 0].astype(np.float64)
    edges = np.histogram_bin_edges(values, bins)
    classes, groups = _groups(values, labels)
    return Histograms(
        unit=unit_name(matrix.names, index),
        labels=classes,
        edges=edges,
        counts=np.stack([np.histogram(group, edges)[0] for group in groups]),
        means=np.array([group.mean() for group in groups]),
        stds=np.array([group.std() for group in groups]),
    )


def unit_of(unit: int | str, matrix: Matrix) -> int:
    """Index of a unit given by index or name."""
    return int(unit_indices([unit], matrix)[0])


def standard_scores(matrix: Matrix, unit: int) -> Floats:
    """(row,): z-scores of a unit; 0 for a dead unit."""
    values = matrix.columns([unit])[:, 0].astype(np.float64)
    mean, std = values.mean(), values.std()
    if len(dead_units(np.array([std]), np.array([mean]), matrix.dtype)):
        return np.zeros(len(values))
    return np.asarray((values - mean) / std)


def _groups(values: Floats, labels: Any) -> tuple[tuple[Any, ...], list[Floats]]:
    """The labels, and the values of the rows with each label."""
    if labels is None:
        return (ALL,), [values]
    encoded = encode(labels, len(values))
    refuse_numbers(encoded, "histograms", "histograms group rows by class.", "Turn them into classes first.")
    return encoded.classes, [values[has_label(encoded, label)] for label in range(len(encoded.classes))]


def _types(words: list[str]) -> tuple[NDArray[Any], NDArray[np.int64], NDArray[np.int64]]:
    """The distinct words, the index of each row's word, and the number of occurrences of each word."""
    numbers: dict[str, int] = {}
    codes = np.fromiter((numbers.setdefault(word, len(numbers)) for word in words), np.int64, len(words))
    # np.array of strings would give each the width of the longest, and drop trailing NULs.
    types = np.empty(len(numbers), object)
    types[:] = list(numbers)
    return types, codes, np.bincount(codes, minlength=len(numbers))


def _around(items: NDArray[Any], row: int, width: int) -> tuple[list[int], list[int]]:
    """The rows of the same item before and after this row."""
    same = np.flatnonzero(items == items[row])
    place = int(np.searchsorted(same, row))
    return same[max(place - width, 0) : place].tolist(), same[place + 1 : place + 1 + width].tolist()


def _words(acts: Any) -> list[str]:
    words = getattr(acts, "words", None)
    if words is None:
        raise InputError("a plain array has no words: pass cutaway.Activations.of(x, words=…).")
    return list(words)
