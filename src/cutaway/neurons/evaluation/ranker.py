"""Turns a method name, function, probe or `Ranking` into a ranker; fits probes."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutaway.core.errors import InputError, InputTypeError
from cutaway.core.matrices import Matrix
from cutaway.neurons.labels.labels import EncodedLabels
from cutaway.neurons.ranking.rank import rank
from cutaway.results.neurons.ranking import Ranking

Ints = NDArray[np.int64]
Order = Callable[[Matrix, EncodedLabels, int], Ints]
"""Takes rows, labels and a seed; returns unit indices, best first."""


@dataclass(frozen=True, slots=True)
class Ranker:
    """A ranking method with the probe that scores its units."""

    name: str
    order: Order | None
    """None if units are not ranked."""
    probe: Any
    """Cloned before fitting."""
    is_ranked_inside: bool = True
    """Whether each split ranks units on its own training rows."""


@dataclass(slots=True)
class FitCounts:
    """Counts of probe fits."""

    n: int = 0
    n_unconverged: int = 0
    n_constant: int = 0
    """Fits with training rows of a single class, which is then always predicted."""


@dataclass(frozen=True, slots=True)
class TrainingLabels:
    """Labels of the training rows, without classes that do not occur in them."""

    encoded: EncodedLabels
    present: Ints
    """The code of each class among all classes."""


@dataclass(slots=True)
class FittedProbe:
    """A fitted probe that predicts codes among all classes."""

    probe: Any
    present: Ints | None
    """None if labels are numbers."""
    constant: float | None = None

    def predict(self, values: NDArray[Any]) -> NDArray[Any]:
        """(row,)."""
        if self.constant is not None:
            return np.full(len(values), self.constant, np.float64 if self.present is None else np.int64)
        predicted = np.asarray(self.probe.predict(values)).reshape(-1)
        return predicted.astype(np.float64) if self.present is None else self.present[predicted.astype(np.int64)]

    @property
    def has_probabilities(self) -> bool:
        """Whether the probe predicts class probabilities."""
        return self.constant is None and self.present is not None and hasattr(self.probe, "predict_log_proba")

    def log_proba(self, values: NDArray[Any]) -> NDArray[np.float64]:
        """(row, class in the training rows), in nats."""
        with np.errstate(divide="ignore"):  # log(0)
            return np.asarray(self.probe.predict_log_proba(values), np.float64)


def make_ranker(what: Any, encoded: EncodedLabels, n_units: int, *, probe: Any, options: Mapping[str, Any]) -> Ranker:
    """The ranker for the first argument of `evaluate`."""
    # A probe class works like its instance with default parameters.
    what = what() if isinstance(what, type) else what
    probe = (
        _default_probe(encoded) if probe is None else _with_task(probe() if isinstance(probe, type) else probe, encoded)
    )
    is_method = isinstance(what, str) or (callable(what) and not hasattr(what, "fit"))
    if options and not is_method:
        raise InputError(f"options= needs a method, got {type(what).__name__}: remove options={dict(options)!r}.")
    if what is None:
        return Ranker("all units", None, probe)
    if isinstance(what, Ranking):
        if what.n_units != n_units:
            raise InputError(
                f"got a ranking of {what.n_units:,} units for activations of {n_units:,}: rank the same activations."
            )
        return Ranker(what.method, lambda matrix, labels, seed: what.order, probe, is_ranked_inside=False)
    if hasattr(what, "fit") and hasattr(what, "predict"):
        task_probe = _with_task(what, encoded)
        has_ranking = hasattr(type(what), "ranking_")
        return Ranker(type(what).__name__, _order_by_probe(task_probe) if has_ranking else None, task_probe)
    if isinstance(what, str) or callable(what):
        name = what if isinstance(what, str) else getattr(what, "__name__", type(what).__name__)
        return Ranker(
            name, lambda matrix, labels, seed: rank(matrix, labels, what, seed=seed, options=options).order, probe
        )
    raise InputTypeError(
        f"evaluate() got {type(what).__name__}: pass a method name, a Ranking, a probe or a function of (X, y)."
    )


def training_labels(encoded: EncodedLabels, rows: Ints) -> TrainingLabels:
    """The labels of these rows."""
    codes = encoded.codes[rows]
    if encoded.kind == "numbers":
        return TrainingLabels(replace(encoded, codes=codes), np.empty(0, np.int64))
    present, train_codes = np.unique(codes, return_inverse=True)
    classes = tuple(encoded.classes[code] for code in present)
    return TrainingLabels(
        replace(encoded, codes=train_codes.reshape(-1), classes=classes, counts=np.bincount(train_codes.reshape(-1))),
        present,
    )


def fit_probe(probe: Any, values: Any, train_labels: TrainingLabels, fits: FitCounts, *, is_part: bool) -> FittedProbe:
    """Fit a clone of the probe to these rows.

    Args:
        is_part: whether the units were already selected; a probe that selects units then uses all of them.
    """
    from sklearn.base import clone
    from sklearn.exceptions import ConvergenceWarning

    fits.n += 1
    codes, present = (
        train_labels.encoded.codes,
        None if train_labels.encoded.kind == "numbers" else train_labels.present,
    )
    if present is not None and len(present) == 1:
        fits.n_constant += 1
        return FittedProbe(None, present, int(present[0]))
    # Cloned, because a probe of the caller must not come back refitted.
    fresh = clone(probe)
    if is_part and "n_units" in fresh.get_params():
        fresh.set_params(n_units=values.shape[1])
    # One note counts these; a warning per fit would flood the terminal.
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fresh.fit(values, codes)
    for each in caught:
        if issubclass(each.category, ConvergenceWarning):
            fits.n_unconverged += 1
        else:
            warnings.warn(each.message, stacklevel=2)
    return FittedProbe(fresh, present)


def _order_by_probe(probe: Any) -> Order:
    def order(matrix: Matrix, encoded: EncodedLabels, seed: int) -> Ints:
        from sklearn.base import clone

        fresh = clone(probe)
        if "seed" in fresh.get_params():
            fresh.set_params(seed=seed)
        best: Ints = fresh.fit(matrix, encoded.codes).ranking_.order
        return best

    return order


def _default_probe(encoded: EncodedLabels) -> Any:
    """Ridge penalty only: an l1 penalty would select among units that were already selected."""
    from cutaway.neurons.probes.linear.probe import Linear

    return _with_task(Linear(l1=0.0, l2=0.01), encoded)


def _with_task(probe: Any, encoded: EncodedLabels) -> Any:
    """Clone the probe with its task set, because class codes alone would make it guess."""
    from sklearn.base import clone

    if not (hasattr(probe, "fit") and hasattr(probe, "predict") and hasattr(probe, "get_params")):
        raise InputTypeError(
            f"probe={probe!r}: pass an estimator with fit, predict and get_params, like cutaway.probes."
        )
    fresh = clone(probe)
    if fresh.get_params().get("task") == "auto":
        fresh.set_params(task="regression" if encoded.kind == "numbers" else "classification")
    return fresh
