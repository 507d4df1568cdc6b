"""What would be found if there were nothing to find: labels permuted, p-values, bits that chance tells."""

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
"""Numbers that posteriors of some rows take."""
_MIN_BLOCK = 10
"""Groups that labels are exchanged among, at least."""
_MOST_DRAWS = 20
"""Of orders, if labels of few groups come out all the same."""
_POWERS = (0.0, 0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 0.85, 1.0)


def permute_labels(encoded: EncodedLabels, groups: Ints, random: np.random.Generator) -> EncodedLabels:
    """The labels in another order: each group gets those of another group of about its size, begun at any place.

    What is exchanged are groups, since labels, and activations too, resemble each other within one. Single rows would
    change places as if there were as many independent ones as rows, and chance would look smaller than it is. A group
    that is longer than the one it gets its labels from repeats them; one that is shorter gets a part.
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
        lender = source[groups]  # (row,)
        codes = encoded.codes[order[starts[lender] + (shift + within) % sizes[lender]]]
        if (codes != codes[0]).any():
            break
    if encoded.kind == "numbers":
        return replace(encoded, codes=codes)
    return replace(encoded, codes=codes, counts=np.bincount(codes, minlength=len(encoded.classes)))


def similar_size_blocks(sizes: Ints) -> list[Ints]:
    """Groups of about the same size, at least ten together where there are so many; equal sizes are never parted.

    >>> [block.tolist() for block in similar_size_blocks(np.array([1, 3] * 10 + [9]))]
    [[0, 2, 4, 6, 8, 10, 12, 14, 16, 18], [1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 20]]
    """
    order = np.argsort(sizes, kind="stable")
    edges = np.flatnonzero(np.diff(sizes[order])) + 1  # where another size begins
    cuts = [0]
    for edge in edges.tolist():
        if edge - cuts[-1] >= _MIN_BLOCK and len(sizes) - edge >= _MIN_BLOCK:
            cuts.append(edge)
    return np.split(order, cuts[1:])


def p_value(found: float, null: Floats) -> float:
    """How often the null is as large, the value itself counted among it.

    >>> p_value(0.9, np.array([0.5, 0.6, 0.95]))
    0.5
    """
    return float((1 + (null >= found).sum()) / (1 + len(null)))


def held_out_bits(
    train: Floats, test: Floats, codes: tuple[Ints, Ints], sizes: Ints, *, powers: Floats, n_shuffles: int, seed: int
) -> tuple[Floats, Floats]:
    """Bits that the first units tell of each test row (size, row), and the mean of what shuffled labels tell (size,).

    Args:
        codes: of the training rows, each class having two at least, and of the test rows.
        sizes: how many of the units; ascending.
        powers: (size,): as of `tempering`. Shuffled labels, which chose no units, find their own on a quarter of the
            training rows.
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
        is_out = held_out(known, len(known), 0.25, seed)
        own = tempering(train[~is_out], train[is_out], (known[~is_out], known[is_out]), sizes)
        null.append(bits_of(known, asked, own).mean(axis=1))
    return bits_of(*codes, powers), np.mean(null, axis=0) if null else np.zeros(len(sizes))


def tempering(train: Floats, out: Floats, codes: tuple[Ints, Ints], sizes: Ints) -> Floats:
    """(size,): by which power, from 0 to 1, what Gaussians say of a class beyond its share tells most of other rows.

    Gaussians with many units and few rows are far too sure of themselves. Rows that chose the units cannot say so:
    there even noise looks as if it told the classes.

    Args:
        out: rows that neither the Gaussians nor the choice of the units have seen.
        codes: of both, each class having two rows at least among the first.
    """
    sizes, train, out = _standardize(sizes, train, out)
    if not len(out) or not train.shape[1]:
        return np.zeros(len(sizes))
    nested = fit_gaussians(train, codes[0], int(codes[0].max()) + 1)
    tried = [_bits_per_row(nested, out, codes[1], sizes, np.full(len(sizes), power)) for power in _POWERS]
    return np.asarray(np.array(_POWERS)[np.mean(tried, axis=2).argmax(axis=0)])


def _standardize(sizes: Ints, train: Floats, other: Floats) -> tuple[Ints, Floats, Floats]:
    """Units that move, in standard deviations; and how many of each size they are."""
    center, scale = train.mean(axis=0), train.std(axis=0)
    is_alive = scale > 0
    sizes = np.concatenate([[0], is_alive.cumsum()])[sizes]
    train, other = ((x[:, is_alive] - center[is_alive]) / scale[is_alive] for x in (train, other))
    return sizes, train, other


def _bits_per_row(nested: NestedGaussians, x: Floats, codes: Ints, sizes: Ints, powers: Floats) -> Floats:
    """(size, row): bits of the class of each row."""
    found = np.zeros((len(sizes), len(x)))
    n_each = max(1, _CHUNK // (x.shape[1] * len(nested.counts)))
    for first in range(0, len(x), n_each):
        rows = slice(first, min(first + n_each, len(x)))
        own = codes[rows]
        log_posteriors = nested.log_posteriors(x[rows], every=True)[np.maximum(sizes, 1) - 1]  # (size, row, class)
        log_posteriors = nested.log_priors + powers[:, None, None] * (log_posteriors - nested.log_priors)
        log_posteriors = log_posteriors[:, np.arange(len(own)), own] - np.logaddexp.reduce(
            log_posteriors, axis=2
        )  # (size, row)
        found[:, rows] = np.where((sizes > 0)[:, None], log_posteriors - nested.log_priors[own], 0.0) / np.log(2)
    return found
