"""`rank`: one function for all ranking methods, and the table of methods."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from inspect import signature
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from cutaway.core.errors import InputError, InputTypeError
from cutaway.core.formatting import hint, listed
from cutaway.core.matrices import Matrix
from cutaway.neurons.labels.labels import matrix_and_labels
from cutaway.neurons.ranking.class_statistics import moments
from cutaway.neurons.ranking.combine import Overall
from cutaway.neurons.ranking.from_probe import estimator
from cutaway.neurons.ranking.method_options import MethodOptions
from cutaway.results.neurons.ranking import Ranking, ranked

if TYPE_CHECKING:
    from cutaway.neurons.labels.labels import EncodedLabels

Compat = Literal["", "neurox"]
Scorer = Callable[..., Any]
"""Your own method: takes rows × units and one label per row, returns one score per unit."""
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
"""The method and the options that reproduce NeuroX's numbers."""

METHODS = tuple(_METHOD_PATHS)


def rank(
    acts: Any,
    labels: Any,
    method: str | Scorer = "probeless",
    *,
    units: Any = None,
    compat: Compat = "",
    seed: int = 0,
    options: Mapping[str, Any] | None = None,
    absolute: bool | None = None,
    floor: float | None = None,
    overall: Overall | None = None,
    share: float | Literal["best"] | None = None,
    threshold: float | None = None,
    standardize: bool | None = None,
    l1: float | None = None,
    l2: float | None = None,
    task: Literal["auto", "classification", "regression"] | None = None,
    solver: Literal["auto", "full", "minibatch"] | None = None,
    max_iter: int | None = None,
    tol: float | None = None,
    n_units: int | None = None,
    n_permutations: int | None = None,
    validation: float | None = None,
    device: Any = None,
    model: Any = None,
    data: Any = None,
    target: Any = None,
    attribution: str | None = None,
    steps: int | None = None,
    baseline: Any = None,
    along: str | None = None,
    signed: bool | None = None,
    batch_size: int | None = None,
    call: Callable[[Any, Any], Any] | None = None,
    unit_dim: int | Sequence[int] | None = None,
    samples: int | None = None,
    tokenizer: Any = None,
) -> Ranking:
    """Rank units by how strongly each relates to the labels.

    >>> x = np.random.default_rng(0).normal(size=(200, 5))
    >>> noun = x[:, 3] < -0.5
    >>> ranking = rank(x, noun)
    >>> int(ranking.order[0]), int(ranking.signs[3])
    (3, -1)

    Args:
        acts: `Activations`, or rows × units as an array or tensor. It is read in blocks and not changed.
        labels: one per row: classes, several labels, or numbers.
        method: the name of a method, or a function of (rows × units, labels) that returns one score per unit.
        units: rank only these units: indices, a mask or names, for example `clusters(acts).independent`.
        compat: "neurox" for NeuroX's numbers, where ours differ by design.
        seed: seed of randomized methods.
        options: keyword arguments of your own function; or options of the method as a mapping.
        absolute: average_precision, iou: if False, units that fall with the label rank last. Default: True.
        floor: average_precision: treat values of a smaller magnitude as 0. Default: 0.
        overall: average_precision, iou, mean_select, selectivity: how to combine several labels, "mean" or "max".
            Default: "mean".
        share: iou: the fraction of rows on which a unit is active, or "best". Default: 0.005.
        threshold: iou: a unit is active above this value instead.
        standardize: linear, probeless: whether to scale units by their standard deviation. Default: True.
        l1: linear: weight of the l1 penalty. Default: 0.001.
        l2: linear: weight of the l2 penalty. Default: 0.001.
        task: linear: "classification" or "regression". Default: what the labels are.
        solver: linear: "full" or "minibatch". Default: "full" up to 1 GiB.
        max_iter: linear: maximum number of iterations or epochs. Default: 500 or 20.
        tol: linear: tolerance of the solver. Default: 0.00001.
        n_units: gaussian: how many units to select. Default: 10.
        n_permutations: gaussian: number of label shuffles for the null. Default: 20.
        validation: gaussian, linear: fraction of the rows to hold out. Default: 0.2 for gaussian, 0 for linear.
        device: gaussian, linear: compute device. Default: that of the tensor, or the CPU.
        model: gradient: the model that the activations come from.
        data: gradient: the inputs of the items of the activations, in the same order.
        target: gradient: what to attribute, as for `attribute`, like all options below.
        attribution: gradient: the `method` of `attribute`. Default: "gradient_x_activation".
        steps: gradient: number of points on the path. Default: 50.
        baseline: gradient: start of the path. Default: "zero".
        along: gradient: the site whose value moves along the path of conductance.
        signed: gradient: sum signed attributions. Default: False.
        batch_size: gradient: samples per batch; linear: rows per batch.
        call: gradient: how to call the model with a batch.
        unit_dim: gradient: the unit dimension of all sites.
        samples: gradient: the sample dimension of the data.
        tokenizer: gradient: tokenizer, if the data is text.
    """
    chosen = MethodOptions(
        absolute=absolute,
        floor=floor,
        overall=overall,
        share=share,
        threshold=threshold,
        standardize=standardize,
        l1=l1,
        l2=l2,
        task=task,
        solver=solver,
        max_iter=max_iter,
        tol=tol,
        n_units=n_units,
        n_permutations=n_permutations,
        validation=validation,
        device=device,
        model=model,
        data=data,
        target=target,
        attribution=attribution,
        steps=steps,
        baseline=baseline,
        along=along,
        signed=signed,
        batch_size=batch_size,
        call=call,
        unit_dim=unit_dim,
        samples=samples,
        tokenizer=tokenizer,
    )
    return rank_with(acts, labels, method, units=units, compat=compat, seed=seed, flat=chosen, options=options)


def rank_with(
    acts: Any,
    labels: Any,
    method: str | Scorer,
    *,
    units: Any,
    compat: Compat,
    seed: int,
    flat: MethodOptions,
    options: Mapping[str, Any] | None,
) -> Ranking:
    """`rank`, with the options of the method as one object.

    Args:
        flat: options passed as keywords.
        options: options passed as a mapping.
    """
    matrix, encoded = matrix_and_labels(acts, labels)
    chosen = None if units is None else unit_indices(units, matrix)
    part = matrix if chosen is None else matrix.select_units(chosen)
    if callable(method):
        if compat or flat.given():
            name = next(iter(flat.given()), "compat")
            raise InputError(
                f"{_scorer_name(method)} is your own function and does not read {name}=: use options={{…}}."
            )
        ranking = _rank_by_scorer(method, part, encoded, options or {})
    else:
        ranking = _method_by_name(method, compat, seed, {**flat.given(), **(options or {})})(part, encoded)
    return ranking if chosen is None else _expand_units(ranking, chosen, matrix)


def unit_indices(units: Any, matrix: Matrix) -> NDArray[np.int64]:
    """Convert indices, a mask or names of units to sorted unique indices."""
    given = np.asarray(units)
    if given.ndim != 1 or not len(given):
        raise InputError(f"units= has shape {list(given.shape)}: pass a non-empty list of indices or names, or a mask.")
    if given.dtype.kind in "UTO":
        return np.unique([_index_of(str(name), matrix) for name in given])
    if given.dtype.kind == "b":
        if len(given) != matrix.n_units:
            raise InputError(f"units= is a mask of {len(given):,}, but there are {matrix.n_units:,} units.")
        return np.flatnonzero(given)
    if given.dtype.kind not in "iu":
        raise InputTypeError(f"units= has dtype {given.dtype}: pass indices, a mask or names.")
    wrong = given[(given < 0) | (given >= matrix.n_units)]
    if len(wrong):
        raise InputError(f"no unit {int(wrong[0])}: there are {matrix.n_units:,} units, counted from 0.")
    return np.unique(given.astype(np.int64))


def _index_of(name: str, matrix: Matrix) -> int:
    if matrix.names is None:
        raise InputError(f"no unit {name!r}: the units of a plain array have indices, not names.")
    try:
        return matrix.names.index(name)
    except ValueError:
        raise InputError(f"no unit {name!r}. Names look like {matrix.names[0]!r}.") from None


def _method_by_name(name: str, compat: str, seed: int, options: Mapping[str, Any]) -> _Method:
    """The function of a method, with its options bound."""
    if not isinstance(name, str):
        raise InputTypeError(f"method={name!r}: pass the name of a method, or a function of (X, y).")
    if name not in _METHOD_PATHS:
        known = ", ".join(_METHOD_PATHS)
        raise InputError(f"no method {name!r}.{hint(name, _METHOD_PATHS)} Methods: {known}, or a function of (X, y).")
    if compat not in ("", "neurox"):
        raise InputError(f"compat={compat!r}: use 'neurox' or leave it out.")
    if compat and name not in _NEUROX:
        raise InputError(f"compat='neurox' does not apply to method={name!r}. It applies to {', '.join(_NEUROX)}.")
    target, preset = _NEUROX[name] if compat else (name, {})
    offered = [option for option in _method_parameters(target) if option != "seed"]
    for option in options:
        if option not in offered:
            raise InputError(f"method={name!r} has no option {option!r}. Options: {', '.join(offered) or 'none'}.")
        if option in preset:
            raise InputError(f"compat='neurox' sets {option}: do not pass {option}={options[option]!r} with it.")
    rank_units = _method_function(target)
    given = {**preset, **options, **({"seed": seed} if "seed" in signature(rank_units).parameters else {})}
    return lambda matrix, encoded: rank_units(matrix, encoded, **given)


def _method_function(name: str) -> _Method:
    module, _, function = _METHOD_PATHS[name].partition(":")
    rank_units: _Method = getattr(import_module(module), function)
    return rank_units


def _method_parameters(name: str) -> list[str]:
    """The names of the options of a method."""
    parameters = signature(_method_function(name)).parameters
    # `linear` and `gaussian` pass their options on to a probe, whose signature is the list.
    names = list(signature(estimator(name)).parameters) if "options" in parameters else list(parameters)
    return [each for each in names if each not in ("matrix", "encoded")]


def _rank_by_scorer(scorer: Scorer, matrix: Matrix, encoded: EncodedLabels, options: Mapping[str, Any]) -> Ranking:
    values = matrix.array()
    output = scorer(values, labels_of(encoded), **options)
    if isinstance(output, Ranking):
        return output
    scores = np.asarray(output.detach().cpu() if hasattr(output, "detach") else output, np.float64)
    if scores.shape != (matrix.n_units,):
        raise InputError(
            f"{_scorer_name(scorer)} returned scores of shape {list(scores.shape)} for {matrix.n_units:,} units: "
            "return one number per unit, higher is better."
        )
    wrong = np.flatnonzero(np.isnan(scores))
    if len(wrong):
        names = listed((str(unit) if matrix.names is None else matrix.names[unit] for unit in wrong.tolist()), 5)
        raise InputError(
            f"{_scorer_name(scorer)} returned NaN for {len(wrong):,} of {matrix.n_units:,} units ({names}): return a "
            "number for every unit, the lowest for units without a score."
        )
    dead = moments(matrix, encoded).dead
    about = {"kind": encoded.kind, "n_rows": matrix.n_rows}
    return ranked(_scorer_name(scorer), scores, names=matrix.names, dead=dead, about=about)


def labels_of(encoded: EncodedLabels) -> NDArray[Any]:
    """The original labels, one per row, as scikit-learn functions take them."""
    if encoded.kind != "classes":
        return np.array(encoded.codes)
    labels: NDArray[Any] = np.asarray(encoded.classes)[encoded.codes]
    return labels


def _scorer_name(scorer: Scorer) -> str:
    return getattr(scorer, "__name__", type(scorer).__name__)


def _expand_units(ranking: Ranking, units: NDArray[np.int64], matrix: Matrix) -> Ranking:
    """Map a ranking of selected units to the indices of all units."""
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
