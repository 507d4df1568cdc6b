"""Stratified train/test splits that keep sentences, word types or groups together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from cutaway.core.errors import InputError
from cutaway.core.formatting import plural
from cutaway.neurons.labels.labels import EncodedLabels

Ints = NDArray[np.int64]
By = Literal["item", "word", "row"]
_N_BINS = 4
"""Numbers are stratified by quartile."""


@dataclass(frozen=True, slots=True, eq=False)
class Split:
    """Training and test rows."""

    train: Ints
    test: Ints


def groups_of(acts: Any, n_rows: int, by: By, given: Any = None, words: Any = None) -> tuple[Ints, str]:
    """(row,): the group index of each row, from 0 without gaps; and the name of the groups.

    Sentences with the same words form one group, so that no test sentence was seen in training.

    Args:
        given: your own groups, one per row.
        words: one word per row, if the activations have none.
    """
    if given is not None:
        return _group_codes(_one_per_row(given, n_rows, "groups")), "groups"
    if by not in ("item", "word", "row"):
        raise InputError(f"by={by!r}: use 'item' (sentence), 'word' or 'row'.")
    if by == "word":
        types = words_of(acts, n_rows, words)
        if types is None:
            raise InputError("by='word' needs the words: pass words=[…], one per row.")
        return _group_codes(types), "word types"
    items = getattr(acts, "items", None) if by == "item" else None
    if items is None or callable(items):
        return np.arange(n_rows), "rows"
    return _group_by_text(acts, _group_codes(np.asarray(items)), words), "sentences"


def _group_by_text(acts: Any, items: Ints, given: Any) -> Ints:
    """Group items by their words, including words of rows that were not selected."""
    whole = acts if given is not None else getattr(acts, "whole", acts)
    numbers = np.asarray(whole.items)
    words = words_of(whole, len(numbers), given)
    if words is None or _has_single_words(whole, words):
        return items
    texts: dict[int, list[str]] = {}
    for item, word in zip(numbers.tolist(), words.tolist(), strict=True):
        texts.setdefault(item, []).append(word)
    firsts: dict[tuple[str, ...], int] = {}
    first = {item: firsts.setdefault(tuple(text), item) if any(text) else item for item, text in texts.items()}
    return _group_codes(np.array([first[item] for item in np.asarray(acts.items).tolist()]))


def _has_single_words(acts: Any, words: NDArray[Any]) -> bool:
    """Whether each row is a single word that was not collected, so that its sentence is unknown."""
    is_collected = bool(getattr(acts, "provenance", None))
    is_alone = len(np.unique(np.asarray(acts.items))) == len(words)
    return is_alone and not is_collected and not any(" " in word for word in words.tolist())


def words_of(acts: Any, n_rows: int, given: Any = None) -> NDArray[Any] | None:
    """The word of each row; None if unknown."""
    assigned = given if given is not None else getattr(acts, "words", None)
    if assigned is None or (given is None and not any(assigned)):
        return None
    return _one_per_row(assigned, n_rows, "words")


def splits_of(encoded: EncodedLabels, groups: Ints, n_folds: int, seed: int, test: Any = None) -> list[Split]:
    """Cross-validation folds stratified by class, or a single split.

    Args:
        test: a fraction or a mask of rows to test on, for a single split.
    """
    n_rows = len(groups)
    if test is not None and np.ndim(test):
        return [_split_by_mask(np.asarray(test), groups)]
    if test is not None:
        share = float(test)
        if not 0 < share <= 0.5:
            raise InputError(f"test={test!r}: must be a fraction of the rows in (0, 0.5], or a mask of rows.")
        n_folds = max(2, round(1 / share))
    if not isinstance(n_folds, (int, np.integer)) or n_folds < 2:
        raise InputError(f"folds={n_folds!r}: must be a whole number of 2 or more; use test=0.2 for a single split.")
    n_groups = int(groups.max()) + 1
    if n_groups < n_folds:
        raise InputError(
            f"{n_folds} folds need at least {n_folds} groups, but there are {n_groups:,}. Use fewer folds, or by='row' "
            "if rows are independent."
        )
    fold = assign_folds(_strata(encoded), groups, n_folds, seed)
    rows = np.arange(n_rows)
    assigned = [Split(rows[fold != each], rows[fold == each]) for each in range(n_folds)]
    return assigned[:1] if test is not None else assigned


def assign_folds(strata: Ints, groups: Ints, n_folds: int, seed: int) -> Ints:
    """(row,): the fold of each row, with groups kept together and classes balanced.

    >>> assign_folds(np.array([0, 0, 1, 1]), np.array([0, 1, 2, 3]), 2, seed=0).tolist() in ([0, 1, 0, 1], [0, 1, 1, 0])
    True
    """
    random = np.random.default_rng(seed)
    n_groups, n_strata = int(groups.max()) + 1, int(strata.max()) + 1
    # Single rows can be dealt out class by class, which balances exactly and needs no search.
    if n_groups == len(groups):
        return _assign_rows(strata, n_folds, random)
    sums = np.zeros((n_groups, n_strata))
    np.add.at(sums, (groups, strata), 1)
    sums /= sums.sum(axis=0)  # fraction of each class in each group
    sizes = np.bincount(groups)
    shuffled = random.permutation(n_groups)
    order = shuffled[np.argsort(-sizes[shuffled], kind="stable")]  # largest first, ties in random order
    shares_in_fold, n_rows, assigned = np.zeros((n_folds, n_strata)), np.zeros(n_folds), np.empty(n_groups, np.int64)
    for group in order.tolist():
        more = (sums[group] * (2 * shares_in_fold + sums[group])).sum(axis=1)  # increase of the sum of squares
        # Rounded, so that equal folds tie in spite of rounding errors, and the smaller one wins.
        best = int(np.lexsort((n_rows, more.round(12)))[0])
        shares_in_fold[best] += sums[group]
        n_rows[best] += sizes[group]
        assigned[group] = best
    return np.asarray(assigned[groups])


def _assign_rows(strata: Ints, n_folds: int, random: np.random.Generator) -> Ints:
    shuffled = random.permutation(len(strata))
    order = shuffled[np.argsort(strata[shuffled], kind="stable")]
    assigned = np.empty(len(strata), np.int64)
    assigned[order] = np.arange(len(strata)) % n_folds
    return assigned


def _strata(encoded: EncodedLabels) -> Ints:
    if encoded.kind == "classes":
        return np.asarray(encoded.codes)
    # Ties can empty a quartile, and codes of strata must have no gaps; hence unique.
    cuts = np.quantile(encoded.codes, np.arange(1, _N_BINS) / _N_BINS)
    return np.unique(np.searchsorted(cuts, encoded.codes), return_inverse=True)[1].reshape(-1)


def _split_by_mask(mask: NDArray[Any], groups: Ints) -> Split:
    if mask.dtype.kind != "b" or mask.shape != groups.shape or mask.all() or not mask.any():
        raise InputError(
            f"test= is a mask of dtype {mask.dtype} and shape {list(mask.shape)}: pass bools, one for each of "
            f"{len(groups):,} rows, with both values."
        )
    # A mask may cut through a sentence, which folds never do.
    both = np.intersect1d(groups[mask], groups[~mask])
    if len(both):
        row = int(np.flatnonzero(groups == both[0])[0])
        raise InputError(
            f"the mask puts {plural(len(both), 'group')} on both sides, the first that of row {row}. Rows of one "
            "sentence are similar, so the score would be too high. Use by='row' to allow it."
        )
    return Split(np.flatnonzero(~mask), np.flatnonzero(mask))


def _one_per_row(given: Any, n_rows: int, what: str) -> NDArray[Any]:
    values = np.array([str(each) for each in given], object) if what == "words" else np.asarray(given)
    if values.shape != (n_rows,):
        raise InputError(f"{what}= has shape {list(values.shape)} for {n_rows:,} rows: pass one per row.")
    return values


def _group_codes(values: NDArray[Any]) -> Ints:
    return np.unique(values, return_inverse=True)[1].reshape(-1).astype(np.int64)
