"""Factorizes activations by NMF, PCA or k-means clustering of units.

Non-negative factors of neurons as in Olah et al., "The Building Blocks of Interpretability", 2018, and in Alammar,
"Interfaces for Explaining Transformer Language Models", 2020.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from cutaway.core.errors import InputError, MissingExtraError
from cutaway.core.formatting import hint
from cutaway.core.matrices import as_matrix
from cutaway.lm.arguments import option_names, whole_number
from cutaway.results.lm.factors import FactorMethod, Factors, FactorText, NmfStart
from cutaway.store.activations.activations import Activations

Floats = NDArray[np.float64]
_STARTS = 4
"""Number of k-means initializations; the best is used."""


@dataclass(frozen=True, slots=True)
class Factorization:
    """Factors of activations: about `weights.T @ units`, plus `mean` for PCA."""

    weights: Floats
    """(factor, position)"""
    units: Floats
    """(factor, unit)"""
    mean: Floats | None = None
    notes: tuple[str, ...] = ()


def factorize(
    values: Any,
    n: int,
    method: FactorMethod = "nmf",
    *,
    seed: int = 0,
    pieces: Sequence[str] = (),
    n_prompt: int | None = None,
    start: NmfStart | None = None,
    max_iter: int | None = None,
    tolerance: float | None = None,
) -> Factors:
    """Factorize positions × units into n factors.

    >>> when = np.array([[1.0, 0, 1, 0], [0, 2.0, 0, 2]])
    >>> which = np.array([[1.0, 1, 0], [0, 0, 3.0]])
    >>> factors = factorize(when.T @ which, 2)
    >>> factors.strongest.tolist(), factors.counts.tolist(), round(factors.error, 3)
    ([1, 0, 1, 0], [1, 2], 0.0)

    Args:
        values: positions × units as an array, a tensor or `Activations`; or a mapping from layer to such an array, in
            the order of the model.
        n: how many factors; never more than positions.
        method: "nmf", "pca" or "kmeans" (clusters of units).
        seed: seed for the initialization of NMF and k-means.
        pieces: the text of each token, one per position, or one more for the last generated token.
        n_prompt: how many of the tokens belong to the prompt.
        start: for "nmf": initialization, "svd" (the default), or "random" as in Ecco.
        max_iter: for "nmf": most iterations; 500 by default.
        tolerance: for "nmf": when to stop; 1e-4 by default.
    """
    n = whole_number(n, "n")
    given = {"start": start, "max_iter": max_iter, "tolerance": tolerance}
    options = {name: value for name, value in given.items() if value is not None}
    _check_method(method, options)
    names, parts = _layers(values)
    x = np.concatenate(parts, axis=1)  # (position, unit)
    if pieces and not len(x) <= len(pieces) <= len(x) + 1:
        raise InputError(
            f"{len(pieces):,} token texts were given for {len(x):,} positions: give one each, or one more."
        )
    factors = _run(x, n, method, seed, options)
    order = _size_order(factors)
    target = np.maximum(x, 0.0) if method == "nmf" else x
    weights, units = factors.weights[order], factors.units[order]
    widths = [part.shape[1] for part in parts]
    return Factors(
        method=method,
        weights=weights,
        units=units,
        layer_names=names,
        layers=np.repeat(np.arange(len(names), dtype=np.int64), widths),
        indices=np.concatenate([np.arange(width, dtype=np.int64) for width in widths]),
        error=relative_error(target, weights, units, factors.mean),
        mean=factors.mean,
        texts=(FactorText(0, len(x), tuple(pieces), n_prompt),),
        about={"n": n, "seed": seed, **options},
        notes=factors.notes,
    )


@wraps(factorize)
def factored(*args: Any, **options: Any) -> Factors:
    """The former name of `factorize`."""
    warnings.warn("cutaway.lm.factored is now cutaway.lm.factorize", DeprecationWarning, stacklevel=2)
    return factorize(*args, **options)


def nmf(
    x: Any, n: int, *, seed: int = 0, start: NmfStart = "svd", max_iter: int = 500, tolerance: float = 1e-4
) -> Factorization:
    """Non-negative matrix factorization by scikit-learn's coordinate descent; negative activations count as 0."""
    if start not in ("svd", "random"):
        raise InputError(f"start={start!r}: give 'svd' or 'random'.")
    NMF = _sklearn("decomposition").NMF
    from sklearn.exceptions import ConvergenceWarning

    positive = np.maximum(x, 0)
    if not positive.any():
        raise InputError("no activation is positive, so there are no non-negative factors: use method='pca'.")
    n_factors = min(n, *x.shape)
    least = "positions" if len(x) == n_factors else "units"
    notes = [f"{n_factors} factors instead of {n}: there are only {n_factors} {least}."] if n_factors < n else []
    if (x < 0).any():
        size = float(np.abs(x[x < 0]).sum() / np.abs(x).sum())
        notes.append(f"Negative values counted as 0: {100 * size:.1f} % of the size of the activations.")
    init = "random" if start == "random" else "nndsvda"
    model = NMF(n_factors, init=init, random_state=seed, max_iter=max_iter, tol=tolerance, solver="cd")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # reported in the notes instead
        weights = model.fit_transform(positive)
    if model.n_iter_ >= max_iter:
        notes.append(f"NMF did not converge in {max_iter} iterations: increase max_iter=.")
    return Factorization(
        np.asarray(weights.T, np.float64), np.asarray(model.components_, np.float64), None, tuple(notes)
    )


def pca(x: Any, n: int) -> Factorization:
    """Principal components over the positions; signs are such that the largest entry of each is positive."""
    if len(x) < 2:
        raise InputError(f"{len(x)} position has no variance: PCA needs at least two.")
    values = x.astype(np.float64)
    mean = values.mean(axis=0)
    u, s, vt = np.linalg.svd(values - mean, full_matrices=False)
    n_factors = min(n, len(x) - 1, x.shape[1])
    notes = (f"{n_factors} factors instead of {n}: there are no more components.",) if n_factors < n else ()
    # The sign of a singular vector is arbitrary.
    signs = np.sign(vt[np.arange(n_factors), np.abs(vt[:n_factors]).argmax(axis=1)])
    signs[signs == 0] = 1.0
    return Factorization((u[:, :n_factors] * s[:n_factors] * signs).T, vt[:n_factors] * signs[:, None], mean, notes)


def kmeans(x: Any, n: int, *, seed: int = 0) -> Factorization:
    """Clusters of units with similar activations over the positions; a factor is the mean of its members."""
    KMeans = _sklearn("cluster").KMeans
    n_factors = min(n, x.shape[1])
    columns = np.ascontiguousarray(x.T, np.float64)  # (unit, position)
    # Units that are always 0 are equal; scikit-learn warns and leaves clusters empty if there are too few distinct
    # points.
    n_distinct = len(np.unique(columns, axis=0)) if n_factors > 1 else 1
    n_factors = min(n_factors, n_distinct)
    notes = (f"{n_factors} clusters instead of {n}: only {n_factors} units differ.",) if n_factors < n else ()
    labels = KMeans(n_factors, n_init=_STARTS, random_state=seed).fit_predict(columns)
    units = (labels == np.arange(n_factors)[:, None]).astype(np.float64)  # (cluster, unit)
    return Factorization(units @ columns / units.sum(axis=1, keepdims=True), units, None, notes)


def _check_method(method: str, options: Mapping[str, Any]) -> None:
    methods = get_args(FactorMethod)
    if method not in methods:
        raise InputError(f"method={method!r}: give {', '.join(map(repr, methods))}.{hint(method, methods)}")
    if options and method != "nmf":
        raise InputError(f"method={method!r} does not use {option_names(options)}: for method='nmf' only.")


def _run(x: NDArray[Any], n: int, method: str, seed: int, options: Mapping[str, Any]) -> Factorization:
    if method == "nmf":
        return nmf(x, n, seed=seed, **options)
    return pca(x, n) if method == "pca" else kmeans(x, n, seed=seed)


def _layers(values: Any) -> tuple[tuple[str, ...], list[NDArray[Any]]]:
    """The names of the layers, and (position, unit) of each."""
    if isinstance(values, Activations):
        given = [(site, values.at(site)) for site in values.sites]
    elif isinstance(values, Mapping):
        given = [(str(name), each) for name, each in values.items()]
    elif getattr(values, "ndim", 2) == 3:
        raise InputError(
            f"values has the shape {list(values.shape)}. For [layer, position, unit], give a mapping from names, "
            "{'h.0': x[0], …}; for [sequence, position, unit], make each position a row, x.reshape(-1, x.shape[-1])."
        )
    else:
        given = [("", values)]
    if not given:
        raise InputError("give at least one layer.")
    parts = []
    for name, each in given:
        try:
            parts.append(as_matrix(each).array())
        except InputError as error:
            raise type(error)(f"{name}: {error}" if name else str(error)) from error
    lengths = {len(part) for part in parts}
    if len(lengths) > 1 or 0 in lengths:
        counts = ", ".join(f"{name} has {len(part):,}" for (name, _), part in zip(given, parts, strict=True))
        raise InputError(f"all layers need the same positions, at least one: {counts or 'there are none'}.")
    return tuple(name for name, _ in given), parts


def _size_order(factors: Factorization) -> NDArray[np.int64]:
    """Order of the factors by size, largest first; components of PCA are ordered by variance already."""
    if factors.mean is not None:
        return np.arange(len(factors.weights))
    sizes = np.abs(factors.weights).sum(axis=1) * np.abs(factors.units).sum(axis=1)
    return np.asarray(np.argsort(-sizes, kind="stable"), np.int64)


def relative_error(x: NDArray[Any], weights: Floats, units: Floats, mean: Floats | None) -> float:
    """‖X - WᵀH‖ / ‖X‖, computed in blocks of positions."""
    left = total = 0.0
    # Activations are float32: a float64 copy of all of them would take twice their memory.
    for start in range(0, len(x), 256):
        block = x[start : start + 256].astype(np.float64)
        if mean is not None:
            block -= mean
        total += float(np.einsum("ij,ij->", block, block))
        block -= weights[:, start : start + 256].T @ units
        left += float(np.einsum("ij,ij->", block, block))
    return float(np.sqrt(left / total)) if total > 0 else 0.0


def _sklearn(module: str) -> Any:
    from importlib import import_module

    try:
        return import_module(f"sklearn.{module}")
    except ImportError as error:
        raise MissingExtraError(
            "factors by NMF or k-means need scikit-learn: pip install 'cutaway[neurons]'"
        ) from error
