"""What is evaluated: whatever names, makes or is a ranking of units, as one thing that ranks training rows."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutaway.core.errors import InputError
from cutaway.core.matrices import Matrix
from cutaway.neurons.labels.labels import EncodedLabels
from cutaway.neurons.ranking.rank import rank
from cutaway.results.ranking import Ranking

Ints = NDArray[np.int64]
Order = Callable[[Matrix, EncodedLabels, int], Ints]
"""Rows, labels and a seed, to units, best first."""


@dataclass(frozen=True, slots=True)
class Ranker:
    """A way to order units, and the probe that says how much they tell."""

    name: str
    order: Order | None
    """None where units are not ranked."""
    probe: Any
    """Cloned before it is fitted."""
    is_ranked_inside: bool = True


@dataclass(slots=True)
class FitCounts:
    """How fitting went."""

    n: int = 0
    n_unconverged: int = 0
    n_constant: int = 0
    """Where training rows were all of one class: it is what is predicted."""


@dataclass(frozen=True, slots=True)
class TrainingLabels:
    """Labels of training rows, without the classes that do not occur there."""

    encoded: EncodedLabels
    present: Ints
    """The code among all classes of each class here."""


@dataclass(slots=True)
class FittedProbe:
    """A fitted probe that predicts codes among all classes."""

    probe: Any
    present: Ints | None
    """None where labels are numbers."""
    constant: float | None = None

    def predict(self, values: NDArray[Any]) -> NDArray[Any]:
        """(row,)."""
        if self.constant is not None:
            return np.full(len(values), self.constant, np.float64 if self.present is None else np.int64)
        found = np.asarray(self.probe.predict(values)).reshape(-1)
        return found.astype(np.float64) if self.present is None else self.present[found.astype(np.int64)]

    @property
    def has_probabilities(self) -> bool:
        """Whether it says how probable each class is."""
        return self.constant is None and self.present is not None and hasattr(self.probe, "predict_log_proba")

    def log_proba(self, values: NDArray[Any]) -> NDArray[np.float64]:
        """(row, class that it knows), in nats."""
        with np.errstate(divide="ignore"):  # of a probability of 0
            return np.asarray(self.probe.predict_log_proba(values), np.float64)


def make_ranker(what: Any, encoded: EncodedLabels, n_units: int, *, probe: Any, options: Mapping[str, Any]) -> Ranker:
    """What was given to `evaluate`."""
    what = what() if isinstance(what, type) else what
    probe = (
        _default_probe(encoded) if probe is None else _with_task(probe() if isinstance(probe, type) else probe, encoded)
    )
    if options and not isinstance(what, str):
        raise InputError(f"options={dict(options)!r} are those of a method by name; {type(what).__name__} was given.")
    if what is None:
        return Ranker("all units", None, probe)
    if isinstance(what, Ranking):
        if what.n_units != n_units:
            raise InputError(f"a ranking of {what.n_units:,} units was given for activations of {n_units:,}.")
        return Ranker(what.method, lambda matrix, labels, seed: what.order, probe, is_ranked_inside=False)
    if hasattr(what, "fit") and hasattr(what, "predict"):
        own = _with_task(what, encoded)
        has_ranking = hasattr(type(what), "ranking_")
        return Ranker(type(what).__name__, _order_by_probe(own) if has_ranking else None, own)
    if isinstance(what, str) or callable(what):
        name = what if isinstance(what, str) else getattr(what, "__name__", type(what).__name__)
        return Ranker(name, lambda matrix, labels, seed: rank(matrix, labels, what, seed=seed, **options).order, probe)
    raise InputError(
        f"{type(what).__name__} was given to evaluate: the name of a method, a Ranking, a probe or a function."
    )


def training_labels(encoded: EncodedLabels, rows: Ints) -> TrainingLabels:
    """The labels of these rows alone."""
    codes = encoded.codes[rows]
    if encoded.kind == "numbers":
        return TrainingLabels(replace(encoded, codes=codes), np.empty(0, np.int64))
    present, own = np.unique(codes, return_inverse=True)
    classes = tuple(encoded.classes[code] for code in present)
    return TrainingLabels(
        replace(encoded, codes=own.reshape(-1), classes=classes, counts=np.bincount(own.reshape(-1))), present
    )


def fit_probe(probe: Any, values: Any, train_labels: TrainingLabels, fits: FitCounts, *, is_part: bool) -> FittedProbe:
    """The probe, fitted anew to these rows.

    Args:
        is_part: whether these are units that were chosen already: a probe that chooses takes them all.
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
    fresh = clone(probe)
    if is_part and "n_units" in fresh.get_params():
        fresh.set_params(n_units=values.shape[1])
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
        found: Ints = fresh.fit(matrix, encoded.codes).ranking_.order
        return found

    return order


def _default_probe(encoded: EncodedLabels) -> Any:
    """Ridge alone: nothing is chosen among units that were chosen."""
    from cutaway.neurons.probes.linear.probe import Linear

    return _with_task(Linear(l1=0.0, l2=0.01), encoded)


def _with_task(probe: Any, encoded: EncodedLabels) -> Any:
    """The probe with its task said, where it would guess it from the numbers of classes."""
    from sklearn.base import clone

    if not (hasattr(probe, "fit") and hasattr(probe, "predict") and hasattr(probe, "get_params")):
        raise InputError(f"probe={probe!r}: an estimator with fit and predict, as those of cutaway.probes are.")
    fresh = clone(probe)
    if fresh.get_params().get("task") == "auto":
        fresh.set_params(task="regression" if encoded.kind == "numbers" else "classification")
    return fresh
