"""One call for every method that ranks units, and the table of those methods."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from difflib import get_close_matches
from importlib import import_module
from inspect import signature
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from cutaway.core.errors import InputError
from cutaway.core.matrices import Matrix, as_matrix
from cutaway.neurons.labels.labels import encode
from cutaway.neurons.ranking.class_statistics import moments
from cutaway.results.ranking import Ranking, ranked

if TYPE_CHECKING:
    from cutaway.neurons.labels.labels import EncodedLabels

Compat = Literal["", "neurox"]
Scorer = Callable[[NDArray[Any], NDArray[Any]], Any]
"""A method of the user's own: rows × units and one label a row, to one score a unit."""
_Method = Callable[..., Ranking]

_METHOD_PATHS = {
    "average_precision": "cutaway.neurons.ranking.average_precision:average_precision",
    "gaussian": "cutaway.neurons.ranking.from_probe:gaussian",
    "gradient": "cutaway.neurons.causal.attribute:gradient",
    "iou": "cutaway.neurons.ranking.iou:iou",
    "linear": "cutaway.neurons.ranking.from_probe:linear",
    "mean_select": "cutaway.neurons.ranking.mean_select:mean_select",
    "probeless": "cutaway.neurons.ranking.probeless:probeless",
    "random": "cutaway.neurons.ranking.random_order:random",
    "selectivity": "cutaway.neurons.ranking.selectivity:selectivity",
}
_NEUROX: Mapping[str, tuple[str, Mapping[str, object]]] = {
    "average_precision": ("average_precision", {"absolute": False, "floor": 0.05}),
    "gaussian": ("gaussian", {"compat": "neurox"}),
    "iou": ("average_precision", {"absolute": False, "floor": 0.05}),  # what NeuroX calls IoU
    "linear": ("linear", {"compat": "neurox"}),
    "probeless": ("probeless", {"standardize": False}),
}
"""The method and the options with which NeuroX's numbers come out."""

METHODS = tuple(_METHOD_PATHS)


def rank(
    acts: Any,
    labels: Any,
    method: str | Scorer = "probeless",
    *,
    units: Any = None,
    compat: Compat = "",
    seed: int = 0,
    **options: Any,
) -> Ranking:
    """Units by how much each has to do with the labels.

    >>> x = np.random.default_rng(0).normal(size=(200, 5))
    >>> noun = x[:, 3] < -0.5
    >>> ranking = rank(x, noun)
    >>> int(ranking.order[0]), int(ranking.signs[3])
    (3, -1)

    Args:
        acts: `Activations`, or rows × units as an array or tensor. It is read in blocks, and never changed.
        labels: one a row: classes, several labels, or numbers.
        method: the name of one, or a function of (rows × units, labels) that gives a score for each unit.
        units: rank these alone: indices, a mask, or names; `clusters(acts).independent`, say.
        compat: "neurox" for NeuroX's numbers, where they differ by design.
        seed: of the methods that draw something.
        options: of the method.
    """
    matrix = as_matrix(acts)
    encoded = encode(labels, matrix.n_rows)
    chosen = None if units is None else unit_indices(units, matrix)
    part = matrix if chosen is None else matrix.of_units(chosen)
    if callable(method):
        if compat or options:
            raise InputError(
                f"{_scorer_name(method)} is called with (X, y) alone: bind options with functools.partial."
            )
        ranking = _rank_by_scorer(method, part, encoded)
    else:
        ranking = _method_by_name(method, compat, seed, options)(part, encoded)
    return ranking if chosen is None else _expand_units(ranking, chosen, matrix)


def unit_indices(units: Any, matrix: Matrix) -> NDArray[np.int64]:
    """Indices, a mask or names of units as indices in rising order, each once."""
    given = np.asarray(units)
    if given.ndim != 1 or not len(given):
        raise InputError(f"units of shape {list(given.shape)} were given: indices, a mask or names, one at least.")
    if given.dtype.kind in "UTO":
        return np.unique([_index_of(str(name), matrix) for name in given])
    if given.dtype.kind == "b":
        if len(given) != matrix.n_units:
            raise InputError(f"a mask of {len(given):,} units was given, but there are {matrix.n_units:,}.")
        return np.flatnonzero(given)
    if given.dtype.kind not in "iu":
        raise InputError(f"units of dtype {given.dtype} were given: indices, a mask or names.")
    wrong = given[(given < 0) | (given >= matrix.n_units)]
    if len(wrong):
        raise InputError(f"unit {int(wrong[0])} was asked for: there are {matrix.n_units:,}, counted from 0.")
    return np.unique(given.astype(np.int64))


def _index_of(name: str, matrix: Matrix) -> int:
    if matrix.names is None:
        raise InputError(f"unit {name!r} was asked for by name: a plain array has indices only.")
    try:
        return matrix.names.index(name)
    except ValueError:
        raise InputError(f"no unit is called {name!r}; the first is {matrix.names[0]!r}.") from None


def _method_by_name(name: str, compat: str, seed: int, options: Mapping[str, Any]) -> _Method:
    """The method, with its options."""
    if name not in _METHOD_PATHS:
        near = get_close_matches(str(name), _METHOD_PATHS, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise InputError(
            f"no method is called {name!r}.{hint} There are {', '.join(_METHOD_PATHS)}, or a function of (X, y)."
        )
    if compat not in ("", "neurox"):
        raise InputError(f"compat={compat!r}: 'neurox', or nothing.")
    if compat and name not in _NEUROX:
        raise InputError(
            f"compat='neurox' with method={name!r}: NeuroX has numbers of its own for {', '.join(_NEUROX)} only."
        )
    target, preset = _NEUROX[name] if compat else (name, {})
    module, _, function = _METHOD_PATHS[target].partition(":")
    ranking: _Method = getattr(import_module(module), function)
    taken = signature(ranking).parameters
    is_open = any(each.kind is each.VAR_KEYWORD for each in taken.values())
    offered = [each for each in taken if each not in ("matrix", "encoded", "seed", "options")]
    for option in options:
        if option not in offered and not is_open:
            raise InputError(f"method={name!r} has no option {option!r}; it has {', '.join(offered) or 'none'}.")
        if option in preset:
            raise InputError(f"{option}={options[option]!r} and compat='neurox', which sets it, were both given.")
    given = {**preset, **options, **({"seed": seed} if "seed" in taken else {})}
    return lambda matrix, encoded: ranking(matrix, encoded, **given)


def _rank_by_scorer(scorer: Scorer, matrix: Matrix, encoded: EncodedLabels) -> Ranking:
    values = matrix.array()
    ranking = scorer(values, labels_of(encoded))
    if isinstance(ranking, Ranking):
        return ranking
    scores = np.asarray(ranking.detach().cpu() if hasattr(ranking, "detach") else ranking, np.float64)
    if scores.shape != (matrix.n_units,):
        raise InputError(
            f"{_scorer_name(scorer)} returned scores of shape {list(scores.shape)} for {matrix.n_units:,} units: "
            "one number a unit is needed, larger for better."
        )
    wrong = np.flatnonzero(np.isnan(scores))
    if len(wrong):
        some = ", ".join(str(unit) if matrix.names is None else matrix.names[unit] for unit in wrong[:5].tolist())
        more = ", …" if len(wrong) > 5 else ""
        raise InputError(
            f"{_scorer_name(scorer)} returned NaN for {len(wrong):,} of {matrix.n_units:,} units ({some}{more}): one number "
            "a unit is needed; give those that have none the lowest."
        )
    dead = moments(matrix, encoded).dead
    about = {"kind": encoded.kind, "n_rows": matrix.n_rows}
    return ranked(_scorer_name(scorer), scores, names=matrix.names, dead=dead, about=about)


def labels_of(encoded: EncodedLabels) -> NDArray[Any]:
    """The labels themselves, one a row, as scikit-learn's functions take them."""
    if encoded.kind != "classes":
        return np.array(encoded.codes)
    labels: NDArray[Any] = np.asarray(encoded.classes)[encoded.codes]
    return labels


def _scorer_name(scorer: Scorer) -> str:
    return getattr(scorer, "__name__", type(scorer).__name__)


def _expand_units(ranking: Ranking, units: NDArray[np.int64], matrix: Matrix) -> Ranking:
    """The ranking of some units as one among all: indices are those of all."""
    scores, signs = np.full(matrix.n_units, np.nan), np.zeros(matrix.n_units, np.int8)
    scores[units], signs[units] = ranking.scores, ranking.signs
    return replace(
        ranking,
        scores=scores,
        signs=signs,
        order=units[ranking.order],
        dead=units[ranking.dead],
        names=matrix.names,
        per_label={label: _expand_units(each, units, matrix) for label, each in ranking.per_label.items()},
    )
