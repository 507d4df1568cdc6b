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
from cutaway.neurons.labels.labels import Encoded
from cutaway.neurons.ranking.rank import rank
from cutaway.results.ranking import Ranking

Ints = NDArray[np.int64]
Order = Callable[[Matrix, Encoded, int], Ints]
"""Rows, labels and a seed, to units, best first."""


@dataclass(frozen=True, slots=True)
class Subject:
    """A way to order units, and the probe that says how much they tell."""

    name: str
    order: Order | None
    """None where units are not ranked."""
    probe: Any
    """Cloned before it is fitted."""
    is_ranked_inside: bool = True


@dataclass(slots=True)
class Fits:
    """How fitting went."""

    n: int = 0
    n_unfinished: int = 0
    n_constant: int = 0
    """Where training rows were all of one class: it is what is predicted."""


@dataclass(frozen=True, slots=True)
class Known:
    """Labels of training rows, without the classes that do not occur there."""

    encoded: Encoded
    present: Ints
    """The code among all classes of each class here."""


@dataclass(slots=True)
class Learned:
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
    def tells(self) -> bool:
        """Whether it says how probable each class is."""
        return self.constant is None and self.present is not None and hasattr(self.probe, "predict_log_proba")

    def log_proba(self, values: NDArray[Any]) -> NDArray[np.float64]:
        """(row, class that it knows), in nats."""
        with np.errstate(divide="ignore"):  # of a probability of 0
            return np.asarray(self.probe.predict_log_proba(values), np.float64)


def subject_of(what: Any, encoded: Encoded, n_units: int, *, probe: Any, options: Mapping[str, Any]) -> Subject:
    """What was given to `evaluate`."""
    what = what() if isinstance(what, type) else what
    probe = (
        _default_probe(encoded) if probe is None else _of_task(probe() if isinstance(probe, type) else probe, encoded)
    )
    if options and not isinstance(what, str):
        raise InputError(f"options={dict(options)!r} are those of a method by name; {type(what).__name__} was given.")
    if what is None:
        return Subject("all units", None, probe)
    if isinstance(what, Ranking):
        if what.n_units != n_units:
            raise InputError(f"a ranking of {what.n_units:,} units was given for activations of {n_units:,}.")
        return Subject(what.method, lambda matrix, labels, seed: what.order, probe, is_ranked_inside=False)
    if hasattr(what, "fit") and hasattr(what, "predict"):
        own = _of_task(what, encoded)
        has_ranking = hasattr(type(what), "ranking_")
        return Subject(type(what).__name__, _by_probe(own) if has_ranking else None, own)
    if isinstance(what, str) or callable(what):
        name = what if isinstance(what, str) else getattr(what, "__name__", type(what).__name__)
        return Subject(name, lambda matrix, labels, seed: rank(matrix, labels, what, seed=seed, **options).order, probe)
    raise InputError(
        f"{type(what).__name__} was given to evaluate: the name of a method, a Ranking, a probe or a function."
    )


def known_of(encoded: Encoded, rows: Ints) -> Known:
    """The labels of these rows alone."""
    codes = encoded.codes[rows]
    if encoded.kind == "numbers":
        return Known(replace(encoded, codes=codes), np.empty(0, np.int64))
    present, own = np.unique(codes, return_inverse=True)
    classes = tuple(encoded.classes[code] for code in present)
    return Known(replace(encoded, codes=own.reshape(-1), classes=classes, counts=np.bincount(own.reshape(-1))), present)


def learned(probe: Any, values: Any, known: Known, fits: Fits, *, is_part: bool) -> Learned:
    """The probe, fitted anew to these rows.

    Args:
        is_part: whether these are units that were chosen already: a probe that chooses takes them all.
    """
    from sklearn.base import clone
    from sklearn.exceptions import ConvergenceWarning

    fits.n += 1
    codes, present = known.encoded.codes, None if known.encoded.kind == "numbers" else known.present
    if present is not None and len(present) == 1:
        fits.n_constant += 1
        return Learned(None, present, int(present[0]))
    fresh = clone(probe)
    if is_part and "n_units" in fresh.get_params():
        fresh.set_params(n_units=values.shape[1])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fresh.fit(values, codes)
    for each in caught:
        if issubclass(each.category, ConvergenceWarning):
            fits.n_unfinished += 1
        else:
            warnings.warn(each.message, stacklevel=2)
    return Learned(fresh, present)


def _by_probe(probe: Any) -> Order:
    def order(matrix: Matrix, encoded: Encoded, seed: int) -> Ints:
        from sklearn.base import clone

        fresh = clone(probe)
        if "seed" in fresh.get_params():
            fresh.set_params(seed=seed)
        found: Ints = fresh.fit(matrix, encoded.codes).ranking_.order
        return found

    return order


def _default_probe(encoded: Encoded) -> Any:
    """Ridge alone: nothing is chosen among units that were chosen."""
    from cutaway.neurons.probes.linear.probe import Linear

    return _of_task(Linear(l1=0.0, l2=0.01), encoded)


def _of_task(probe: Any, encoded: Encoded) -> Any:
    """The probe with its task said, where it would guess it from the numbers of classes."""
    from sklearn.base import clone

    if not (hasattr(probe, "fit") and hasattr(probe, "predict") and hasattr(probe, "get_params")):
        raise InputError(f"probe={probe!r}: an estimator with fit and predict, as those of cutaway.probes are.")
    fresh = clone(probe)
    if fresh.get_params().get("task") == "auto":
        fresh.set_params(task="regression" if encoded.kind == "numbers" else "classification")
    return fresh
