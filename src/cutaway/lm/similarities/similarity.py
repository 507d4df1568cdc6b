"""`cutaway.lm.similarity`: how similar representations of the same rows are, across layers, models or checkpoints."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from inspect import signature
from typing import Any, Literal

import numpy as np

from cutaway.core.errors import InputError
from cutaway.core.formatting import hint, listed
from cutaway.lm.similarities import cca, cka, ecco_cca, rsa
from cutaway.lm.similarities.cca import Weights
from cutaway.lm.similarities.cka import Kernel
from cutaway.lm.similarities.representations import check_same_rows, default_names, named_parts, representations_of
from cutaway.lm.similarities.rsa import Agreement, Metric
from cutaway.lm.similarities.scores import ComparisonTask, Scores
from cutaway.results.lm.similarity import Similarity

Method = Literal["cca", "svcca", "pwcca", "cka", "rsa"]
_METHODS: Mapping[str, Callable[..., Scores]] = {
    "cca": cca.cca,
    "svcca": cca.svcca,
    "pwcca": cca.pwcca,
    "cka": cka.cka,
    "rsa": rsa.rsa,
}
_ECCO: Mapping[str, Callable[..., Scores]] = {
    "cca": ecco_cca.cca,
    "svcca": ecco_cca.svcca,
    "pwcca": ecco_cca.pwcca,
}


def similarity(
    a: Any,
    b: Any = None,
    method: Method = "cka",
    *,
    kernel: Kernel = "linear",
    debiased: bool = False,
    bandwidth: float | None = None,
    n: int | None = None,
    variance: float | None = None,
    weights: Weights | None = None,
    metric: Metric | None = None,
    agreement: Agreement | None = None,
    compat: Literal["", "ecco"] = "",
) -> Similarity:
    """How similar representations of the same rows are: 1 for the same, about 0 for unrelated ones.

    >>> x = np.random.default_rng(0).normal(size=(1000, 5))
    >>> turned = x @ np.linalg.qr(x[:5])[0]
    >>> round(float(similarity(x, turned)), 6), abs(float(similarity(x, x**2, debiased=True))) < 0.05
    (1.0, True)

    Args:
        a: rows × units, as an array, a tensor or `Activations`; or several of them in a list or a mapping by name.
            Activations of several sites count as one representation per site.
        b: what `a` is compared with; without it, all pairs in `a` are compared.
        method: "cka", "cca", "svcca", "pwcca" or "rsa".
        kernel: for "cka": "linear" or "rbf".
        debiased: for "cka": whether to correct for the bias of few rows.
        bandwidth: for "cka" with kernel="rbf": width of the kernel, as a factor of the median distance; 1 by default.
        n: for "svcca": how many directions to keep; 20 by default, or all if there are fewer.
        variance: for "svcca": keep the directions with this share of the variance, instead of a number.
        weights: for "pwcca": whose units weight the correlations: "fewer" (the default), "a", "b" or "mean".
        metric: for "rsa": distance of rows: "correlation" (the default), "euclidean" or "cosine".
        agreement: for "rsa": how distances are compared: "spearman" (the default), "kendall" or "pearson".
        compat: for "cca", "svcca" and "pwcca": "ecco" computes as Ecco does, where it differs by design.
    """
    named: dict[str, object] = {"bandwidth": bandwidth, "n": n, "variance": variance, "weights": weights}
    named |= {"metric": metric, "agreement": agreement}
    options = {name: value for name, value in named.items() if value is not None}
    score = _method_with_options(
        method, compat, {**_non_default(kernel=(kernel, "linear"), debiased=(debiased, False)), **options}
    )
    name_a, name_b = default_names(a, b)
    check_same_rows([*named_parts(a, name_a), *([] if b is None else named_parts(b, name_b))])
    rows = representations_of(a, name_a)
    columns = rows if b is None else representations_of(b, name_b)
    representations = rows if b is None else [*rows, *columns]
    first = 0 if b is None else len(rows)
    given = [each.name for each in representations if each.distances is not None]
    if given and method != "rsa":
        raise InputError(f"{given[0]} is a dissimilarity matrix: use method='rsa', not {method!r}.")
    if b is None and len(rows) < 2:
        raise InputError("one representation was given: give a second one to compare it with, or a list of them.")
    pairs = [(i, first + j) for i in range(len(rows)) for j in range(len(columns)) if b is not None or i <= j]
    scores = score(ComparisonTask(representations, pairs))
    dead = [
        (each.name, each.matrix.n_units - each.n_units)
        for each in representations
        if each.n_units < each.matrix.n_units
    ]
    if dead:
        counts = listed((f"{n:,} of {name}" for name, n in dead), 5)
        scores.notes.append(f"Constant units were left out: {counts}.")
    for each in scores.warnings:
        warnings.warn(each, UserWarning, stacklevel=2)
    values, correlations = _matrices(scores, len(rows), len(columns), first)
    return Similarity(
        method=method,
        values=values,
        row_names=tuple(each.name for each in rows),
        column_names=tuple(each.name for each in columns),
        n_rows=rows[0].n_rows,
        row_units=tuple(each.matrix.n_units for each in rows),
        column_units=tuple(each.matrix.n_units for each in columns),
        is_within=b is None,
        correlations=correlations,
        about={
            **({"kernel": kernel, "debiased": debiased} if method == "cka" else {}),
            **({"compat": compat} if compat else {}),
            **options,
        },
        notes=(*scores.warnings, *scores.notes),
    )


def _non_default(**given: tuple[Any, Any]) -> dict[str, Any]:
    """Those options that differ from their defaults."""
    return {name: value for name, (value, usual) in given.items() if value != usual}


def _method_with_options(method: str, compat: str, options: Mapping[str, Any]) -> Callable[[ComparisonTask], Scores]:
    """The function of a method with its options bound."""
    if not isinstance(method, str) or method not in _METHODS:
        raise InputError(f"method={method!r} is unknown.{hint(method, _METHODS)} There are {', '.join(_METHODS)}.")
    if compat not in ("", "ecco"):
        raise InputError(f"compat={compat!r}: give 'ecco', or leave it out.")
    if compat and method not in _ECCO:
        reason = "Ecco's linear CKA is the same as ours" if method == "cka" else f"Ecco has no {method}"
        raise InputError(f"compat='ecco' with method={method!r}: {reason}; leave out compat=.")
    table = _ECCO if compat else _METHODS
    for option in options:
        if option not in _options_of(table[method]):
            readers = [name for name, function in table.items() if option in _options_of(function)]
            name = f"method={method!r}{' with compat=' + repr(compat) if compat else ''}"
            use = f", which is for {' and '.join(map(repr, readers))}" if readers else ""
            raise InputError(f"{name} does not use {option}={use}: leave it out.")
    return lambda task: table[method](task, **options)


def _options_of(score: Callable[..., Scores]) -> list[str]:
    """The options of a method: its keyword-only parameters."""
    return [each.name for each in signature(score).parameters.values() if each.kind is each.KEYWORD_ONLY]


def _matrices(scores: Scores, n_rows: int, n_columns: int, first: int) -> tuple[Any, Any]:
    """The values (row, column), and the correlations (row, column, correlation), if any, padded with NaN."""
    values = np.full((n_rows, n_columns), np.nan)
    longest = max((len(each) for each in scores.correlations.values()), default=0)
    correlations = np.full((n_rows, n_columns, longest), np.nan)
    for (i, column), value in scores.values.items():
        j = column - first
        canonical = scores.correlations.get((i, column), np.empty(0))
        values[i, j] = value
        correlations[i, j, : len(canonical)] = canonical
        if not first:
            values[j, i] = scores.reverse.get((i, column), value)
            correlations[j, i, : len(canonical)] = canonical
    return values, correlations if longest else None
