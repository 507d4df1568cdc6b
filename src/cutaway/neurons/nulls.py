"""What would be found if there were nothing to find: labels permuted, p-values, bits that chance tells."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from cutaway.neurons.estimating import held_out
from cutaway.neurons.gaussian_nested import Nested, fitted
from cutaway.neurons.labels import Encoded

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
_CHUNK = 1 << 22
"""Numbers that posteriors of some rows take."""
_POWERS = (0.0, 0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 0.85, 1.0)


def permuted(encoded: Encoded, groups: Ints, random: np.random.Generator) -> Encoded:
    """The labels in another order.

    Where all rows of each group share a label, as words do that have the label of their sentence, the labels of whole
    groups change places; else those of rows.
    """
    first = np.zeros(int(groups.max()) + 1, np.int64)
    first[groups[::-1]] = np.arange(len(groups))[::-1]  # the first row of each group
    of_group = encoded.codes[first]
    if np.array_equal(of_group[groups], encoded.codes):
        codes = random.permutation(of_group)[groups]
    else:
        codes = random.permutation(encoded.codes)
    if encoded.kind == "numbers":
        return replace(encoded, codes=codes)
    return replace(encoded, codes=codes, counts=np.bincount(codes, minlength=len(encoded.classes)))


def p_value(found: float, null: Floats) -> float:
    """How often the null is as large, the value itself counted among it.

    >>> p_value(0.9, np.array([0.5, 0.6, 0.95]))
    0.5
    """
    return float((1 + (null >= found).sum()) / (1 + len(null)))


def told_bits(
    train: Floats, test: Floats, codes: tuple[Ints, Ints], sizes: Ints, *, n_shuffles: int, seed: int
) -> tuple[Floats, Floats]:
    """Bits that the first units tell of each test row (size, row), and the mean of what shuffled labels tell (size,).

    Gaussians with many units and few rows are far too sure of themselves. What they say of a class beyond its share is
    therefore weakened by a power from 0 to 1, which is chosen for each size on a quarter of the training rows.

    Args:
        codes: of the training rows, each class having two at least, and of the test rows.
        sizes: how many of the units; ascending.
    """
    centre, scale = train.mean(axis=0), train.std(axis=0)
    is_alive = scale > 0
    sizes = np.concatenate([[0], is_alive.cumsum()])[sizes]
    train, test = ((x[:, is_alive] - centre[is_alive]) / scale[is_alive] for x in (train, test))
    n_classes = int(codes[0].max()) + 1
    random = np.random.default_rng(seed)

    def told(known: Ints, asked: Ints) -> Floats:
        if not train.shape[1]:
            return np.zeros((len(sizes), len(asked)))
        is_out = held_out(known, len(known), 0.25, seed)
        powers = np.zeros(len(sizes))
        if is_out.any():
            inner = fitted(train[~is_out], known[~is_out], n_classes)
            tried = [_per_row(inner, train[is_out], known[is_out], sizes, np.full(len(sizes), p)) for p in _POWERS]
            powers = np.array(_POWERS)[np.mean(tried, axis=2).argmax(axis=0)]
        return _per_row(fitted(train, known, n_classes), test, asked, sizes, powers)

    null = [told(random.permutation(codes[0]), random.permutation(codes[1])).mean(axis=1) for _ in range(n_shuffles)]
    return told(*codes), np.mean(null, axis=0) if null else np.zeros(len(sizes))


def _per_row(nested: Nested, x: Floats, codes: Ints, sizes: Ints, powers: Floats) -> Floats:
    """(size, row): bits of the class of each row."""
    found = np.zeros((len(sizes), len(x)))
    n_each = max(1, _CHUNK // (x.shape[1] * len(nested.counts)))
    for first in range(0, len(x), n_each):
        rows = slice(first, min(first + n_each, len(x)))
        own = codes[rows]
        said = nested.log_posteriors(x[rows], every=True)[np.maximum(sizes, 1) - 1]  # (size, row, class)
        said = nested.log_priors + powers[:, None, None] * (said - nested.log_priors)
        said = said[:, np.arange(len(own)), own] - np.logaddexp.reduce(said, axis=2)  # (size, row)
        found[:, rows] = np.where((sizes > 0)[:, None], said - nested.log_priors[own], 0.0) / np.log(2)
    return found
