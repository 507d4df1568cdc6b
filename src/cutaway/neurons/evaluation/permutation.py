"""Permutation of labels by group, p-values, and mutual information on held-out rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from cutaway.neurons.labels.labels import EncodedLabels
from cutaway.neurons.probes.base import held_out
from cutaway.neurons.probes.gaussian.nested import NestedGaussians, fit_gaussians

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
_CHUNK = 1 << 22
"""Values of the posteriors to compute at once, to bound memory."""
_MIN_BLOCK = 10
"""Minimum number of groups that exchange labels."""
_MOST_DRAWS = 20
"""Attempts, if the permuted labels of few groups are all the same."""
# With exponent 0 the prediction is the prior: 0 bits, never less.
_POWERS = (0.0, 0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 0.85, 1.0)
"""Candidate exponents for tempering."""


def permute_labels(encoded: EncodedLabels, groups: Ints, random: np.random.Generator) -> EncodedLabels:
    """Permute labels between groups: each group gets the labels of a group of similar size, rotated at random.

    Groups are exchanged instead of rows, because labels and activations are correlated within a group. Permuting rows
    would treat them as independent and underestimate chance. A group longer than its source repeats the labels; a
    shorter one gets a part of them.
    """
    sizes = np.bincount(groups)
    order = np.argsort(groups, kind="stable")  # rows, group by group
    starts = sizes.cumsum() - sizes
    within = np.empty(len(groups), np.int64)
    within[order] = np.arange(len(groups)) - np.repeat(starts, sizes)
    blocks = similar_size_blocks(sizes)
    for _ in range(_MOST_DRAWS):
        source = np.empty(len(sizes), np.int64)
        for block in blocks:
            source[block] = random.permutation(block)
        shift = random.integers(sizes[source])[groups]
        source_of_row = source[groups]  # (row,)
        codes = encoded.codes[order[starts[source_of_row] + (shift + within) % sizes[source_of_row]]]
        # With few groups a permutation can give all rows one label, which no probe can fit.
        if (codes != codes[0]).any():
            break
    if encoded.kind == "numbers":
        return replace(encoded, codes=codes)
    return replace(encoded, codes=codes, counts=np.bincount(codes, minlength=len(encoded.classes)))


def similar_size_blocks(sizes: Ints) -> list[Ints]:
    """Blocks of groups of similar size, at least ten per block if possible; equal sizes stay together.

    >>> [block.tolist() for block in similar_size_blocks(np.array([1, 3] * 10 + [9]))]
    [[0, 2, 4, 6, 8, 10, 12, 14, 16, 18], [1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 20]]
    """
    order = np.argsort(sizes, kind="stable")
    edges = np.flatnonzero(np.diff(sizes[order])) + 1  # where the size changes
    cuts = [0]
    for edge in edges.tolist():
        if edge - cuts[-1] >= _MIN_BLOCK and len(sizes) - edge >= _MIN_BLOCK:
            cuts.append(edge)
    return np.split(order, cuts[1:])


def p_value(value: float, null: Floats) -> float:
    """Fraction of the null that is as large, with the value itself counted as part of the null.

    >>> p_value(0.9, np.array([0.5, 0.6, 0.95]))
    0.5
    """
    return float((1 + (null >= value).sum()) / (1 + len(null)))


def held_out_bits(
    train: Floats, test: Floats, codes: tuple[Ints, Ints], sizes: Ints, *, powers: Floats, n_shuffles: int, seed: int
) -> tuple[Floats, Floats]:
    """Bits of information of the first units about each test row (size, row), and the mean for shuffled labels (size,).

    Args:
        codes: class codes of the training rows, at least two per class, and of the test rows.
        sizes: numbers of units, ascending.
        powers: (size,): exponents from `tempering`. Shuffled labels did not choose the units, so they get their
            exponents from a quarter of the training rows.
    """
    sizes, train, test = _standardize(sizes, train, test)
    n_classes = int(codes[0].max()) + 1
    random = np.random.default_rng(seed)

    def bits_of(known: Ints, asked: Ints, powers: Floats) -> Floats:
        if not train.shape[1]:
            return np.zeros((len(sizes), len(asked)))
        return _bits_per_row(fit_gaussians(train, known, n_classes), test, asked, sizes, powers)

    null = []
    for _ in range(n_shuffles):
        known, asked = random.permutation(codes[0]), random.permutation(codes[1])
        # The same fraction as for the true labels, so that both are tempered alike.
        is_out = held_out(known, len(known), 0.25, seed)
        null_powers = tempering(train[~is_out], train[is_out], (known[~is_out], known[is_out]), sizes)
        null.append(bits_of(known, asked, null_powers).mean(axis=1))
    return bits_of(*codes, powers), np.mean(null, axis=0) if null else np.zeros(len(sizes))


def tempering(train: Floats, out: Floats, codes: tuple[Ints, Ints], sizes: Ints) -> Floats:
    """(size,): the exponent in [0, 1] on the likelihood ratio of the Gaussians that maximizes bits on held-out rows.

    Gaussians with many units and few rows are overconfident. Rows that were used to choose the units cannot show this,
    because there even noise looks informative.

    Args:
        out: held-out rows that neither the Gaussians nor the choice of units have seen.
        codes: class codes of both, at least two training rows per class.
    """
    sizes, train, out = _standardize(sizes, train, out)
    if not len(out) or not train.shape[1]:
        return np.zeros(len(sizes))
    nested = fit_gaussians(train, codes[0], int(codes[0].max()) + 1)
    tried = [_bits_per_row(nested, out, codes[1], sizes, np.full(len(sizes), power)) for power in _POWERS]
    return np.asarray(np.array(_POWERS)[np.mean(tried, axis=2).argmax(axis=0)])


def _standardize(sizes: Ints, train: Floats, other: Floats) -> tuple[Ints, Floats, Floats]:
    """Standardize the units that vary, and count how many of each size vary."""
    # Statistics of the training rows only; units that are constant there have no density.
    center, scale = train.mean(axis=0), train.std(axis=0)
    is_alive = scale > 0
    sizes = np.concatenate([[0], is_alive.cumsum()])[sizes]
    train, other = ((x[:, is_alive] - center[is_alive]) / scale[is_alive] for x in (train, other))
    return sizes, train, other


def _bits_per_row(nested: NestedGaussians, x: Floats, codes: Ints, sizes: Ints, powers: Floats) -> Floats:
    """(size, row): bits of information about the class of each row."""
    bits = np.zeros((len(sizes), len(x)))
    n_each = max(1, _CHUNK // (x.shape[1] * len(nested.counts)))
    for first in range(0, len(x), n_each):
        rows = slice(first, min(first + n_each, len(x)))
        true_codes = codes[rows]
        log_posteriors = nested.log_posteriors(x[rows], every=True)[np.maximum(sizes, 1) - 1]  # (size, row, class)
        log_posteriors = nested.log_priors + powers[:, None, None] * (log_posteriors - nested.log_priors)
        log_posteriors = log_posteriors[:, np.arange(len(true_codes)), true_codes] - np.logaddexp.reduce(
            log_posteriors, axis=2
        )  # (size, row)
        bits[:, rows] = np.where((sizes > 0)[:, None], log_posteriors - nested.log_priors[true_codes], 0.0) / np.log(2)
    return bits
