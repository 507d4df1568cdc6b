"""`Gaussian`: selects units and measures their mutual information with the classes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import accuracy_score
from torch import Tensor

from cutaway.core.errors import FitError
from cutaway.core.matrices import Matrix
from cutaway.neurons.probes import base, save
from cutaway.neurons.probes.gaussian.greedy import Chunks, Greedy, Scatter, scatter_of
from cutaway.neurons.probes.gaussian.nested import NestedGaussians, fit_gaussians
from cutaway.neurons.probes.linear.rows import Rows, Scaling
from cutaway.results.neurons.ranking import Ranking, best_first, ranked

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MEMORY_BYTES = 1 << 30
"""Larger activations are read again in every round of the selection."""
_BLOCK = 8192


class Gaussian(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Gaussian classifier on a greedy selection of units (Torroba Hennigen et al., 2020).

    Each step selects the unit that adds the most mutual information on the fitted rows. The mutual information is then
    measured on held-out rows and compared with shuffled labels. Units whose variance alone differs between classes are
    found, too. The prior of the covariance depends on the number of selected units.

    >>> x = np.random.default_rng(0).normal(size=(400, 5))
    >>> y = np.arange(400) % 2
    >>> x[y == 1, 3] *= 4.0
    >>> probe = Gaussian(n_units=1).fit(x, y)
    >>> int(probe.selected_[0]), bool(probe.mutual_information_[0] > 0.2)
    (3, True)

    Args:
        n_units: how many units to select; at most all units that vary.
        validation: fraction of the rows of each class to hold out for the mutual information. With 0, it is measured on
            the fitted rows, which overestimates it by about (classes - 1) / (rows · ln 2) bits per unit.
        n_permutations: number of label shuffles for the null.
        compat: "neurox" for NeuroX's numbers: the prior of the covariance depends on the number of all units, and all
            rows are both fitted and scored.
        device: compute device; default: the device of the tensor, or the CPU.
        seed: seed of the held-out rows and the shuffles.
    """

    def __init__(
        self,
        *,
        n_units: int = 10,
        validation: float = 0.2,
        n_permutations: int = 20,
        compat: Literal["", "neurox"] = "",
        device: Any = None,
        seed: int = 0,
    ) -> None:
        self.n_units = n_units
        self.validation = validation
        self.n_permutations = n_permutations
        self.compat = compat
        self.device = device
        self.seed = seed

    def fit(self, X: Any, y: Any) -> Gaussian:
        """Fit to rows × units (Activations, array or tensor) and one class label per row.

        Args:
            X: rows × units: Activations, an array or a tensor.
            y: one class label per row.
        """
        self._check_parameters()
        matrix = base.matrix_of(self, X, reset=True)
        classes = base.classes_of(base.target_of(y, matrix))
        _refuse_single(classes)
        share = 0.0 if self.compat else self.validation
        is_out = base.held_out(classes.codes, matrix.n_rows, share, self.seed)
        device = base.device_of(X, self.device)
        rows = Rows(matrix, classes.codes, is_out, "classes", len(classes.labels), device)
        scaling = rows.scaling(standardize=True)
        if len(scaling.dead) == matrix.n_units:
            raise FitError(f"all {matrix.n_units} units are constant: a probe needs at least one unit that varies.")
        self.classes_ = classes.labels
        self.dead_ = scaling.dead
        self.counts_ = np.bincount(classes.codes[~is_out], minlength=len(classes.labels))
        with torch.no_grad():
            self._choose(rows, scaling)
        self._measure(rows)
        self._names = base.names_of(matrix, self)
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """(row,): the most probable class.

        Args:
            X: rows × units: Activations, an array or a tensor.
        """
        base.require_fitted(self)
        return np.asarray(self.classes_[self.predict_log_proba(X).argmax(axis=1)])

    def predict_log_proba(self, X: Any) -> Floats:
        """(row, class), in nats.

        Args:
            X: rows × units: Activations, an array or a tensor.
        """
        base.require_fitted(self)
        matrix = base.matrix_of(self, X, reset=False)
        return self._nested.log_posteriors(matrix.columns(self.selected_).astype(np.float64))

    def predict_proba(self, X: Any) -> Floats:
        """(row, class).

        Args:
            X: rows × units: Activations, an array or a tensor.
        """
        return np.asarray(np.exp(self.predict_log_proba(X)))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy."""
        truth = y.detach().cpu().numpy() if hasattr(y, "detach") else y
        return float(accuracy_score(truth, self.predict(X), sample_weight=sample_weight))

    def information(self, X: Any, y: Any) -> Floats:
        """(unit,): mutual information in bits of the first 1, 2, … selected units and the classes of other rows.

        Fitted classes may be absent; classes that were not fitted raise `FitError`.

        Args:
            X: rows × units: Activations, an array or a tensor.
            y: one class label per row.
        """
        base.require_fitted(self)
        matrix = base.matrix_of(self, X, reset=False)
        codes = base.codes_of(y, self.classes_, matrix)
        return self._nested.information(matrix.columns(self.selected_).astype(np.float64), codes)

    @property
    def entropy_(self) -> float:
        """Entropy of the classes in bits: the upper limit of the mutual information."""
        shares = self.counts_ / self.counts_.sum()
        return float(-(shares * np.log2(shares)).sum())

    @property
    def p_values_(self) -> Floats:
        """(unit,): p-value of the mutual information, by shuffled labels."""
        n_above = (self.null_information_ >= self.mutual_information_).sum(axis=0)
        return np.asarray((n_above + 1) / (len(self.null_information_) + 1))

    @property
    def ranking_(self) -> Ranking:
        """The selected units in order, then the others by score: the mutual information of each unit alone."""
        base.require_fitted(self)
        scores = self.unit_information_
        is_dead = np.zeros(len(scores), np.bool_)
        is_dead[self.dead_] = True
        rest = np.setdiff1d(np.arange(len(scores)), self.selected_)
        is_binary = len(self.classes_) == 2
        about = {
            "compat": self.compat,
            "unit": "bits",
            "entropy": self.entropy_,
            "selected": self.selected_.tolist(),
            "mutual_information": self.mutual_information_.tolist(),
            "is_held_out": self.is_held_out_,
        }
        labels = self.classes_.tolist()
        return ranked(
            "gaussian",
            scores,
            order=np.concatenate([self.selected_, best_first(scores, rest, is_dead)]),
            signs=self._signs[1] if is_binary else None,
            names=self._names,
            dead=self.dead_,
            about=about,
            per_label={
                label: ranked("gaussian", each, signs=signs, names=self._names, dead=self.dead_, about={"label": label})
                for label, each, signs in zip(labels, self.label_information_, self._signs, strict=True)
            },
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted probe to one safetensors file.

        Args:
            path: the file to write.
        """
        base.require_fitted(self)
        learned = {
            "classes": save.labels_as_json(self.classes_),
            "n_all": self._nested.n_all,
            "is_held_out": self.is_held_out_,
        }
        arrays = {name: np.asarray(getattr(self, name)) for name in _ARRAYS}
        arrays |= {f"nested/{name}": getattr(self._nested, name) for name in _NESTED}
        save.write(save.SavedProbe("Gaussian", self.get_params(), learned, arrays, self._names), path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Gaussian:
        """Read a fitted probe from a file.

        Args:
            path: the file that `save` wrote.
        """
        saved = save.read(path, "Gaussian")
        probe = cls(**saved.parameters)
        for name in _ARRAYS:
            setattr(probe, name, saved.arrays[name])
        probe.classes_ = save.labels_from_json(saved.learned["classes"])
        probe.is_held_out_ = saved.learned["is_held_out"]
        nested = {name: saved.arrays[f"nested/{name}"] for name in _NESTED}
        probe._nested = NestedGaussians(**nested, n_all=saved.learned["n_all"])
        probe.n_features_in_ = len(probe.unit_information_)
        probe._names = saved.names
        return probe

    def _check_parameters(self) -> None:
        if self.n_units < 1:
            raise FitError(f"n_units={self.n_units!r}: must be 1 or more.")
        if self.n_permutations < 0:
            raise FitError(f"n_permutations={self.n_permutations!r}: must be 0 or more.")
        if self.compat not in ("", "neurox"):
            raise FitError(f"compat={self.compat!r}: use 'neurox' or leave it out.")

    @property
    def _n_all(self) -> int | None:
        return self.n_features_in_ if self.compat else None

    def _choose(self, rows: Rows, scaling: Scaling) -> None:
        n_units, n_classes = rows.matrix.n_units, rows.n_outputs
        train, test = _chunks(rows, scaling)
        scatter = scatter_of(train, n_classes, n_units)
        greedy = Greedy(train, scatter, n_all=self._n_all)
        self.is_held_out_ = bool(rows.is_out.any())
        scored = test if self.is_held_out_ else train
        self.label_information_ = greedy.label_gains(scored)
        # Units are selected on fitted rows and measured on held-out ones, else the measure would be biased.
        first = greedy.gains()
        self.unit_information_ = greedy.gains(test) if self.is_held_out_ else first.copy()
        for information in (self.unit_information_, *self.label_information_):
            information[self.dead_] = 0.0
        self._signs = _signs(scatter)
        self._signs[:, self.dead_] = 0
        gains = first
        for _ in range(min(self.n_units, n_units - len(self.dead_))):
            # A constant unit has no density, so it must never be selected.
            gains[self.dead_] = -np.inf
            greedy.add(int(gains.argmax()))
            if len(greedy.chosen) < min(self.n_units, n_units - len(self.dead_)):
                gains = greedy.gains()
        self.selected_ = np.array(greedy.chosen, np.int64)

    def _measure(self, rows: Rows) -> None:
        """Fit the selected units and measure mutual information, also with shuffled labels."""
        x = rows.matrix.columns(self.selected_).astype(np.float64)
        is_out = rows.is_out if self.is_held_out_ else np.ones(len(x), np.bool_)
        is_in = ~is_out if self.is_held_out_ else is_out

        def fit_and_score(codes: Ints) -> tuple[NestedGaussians, Floats]:
            nested = fit_gaussians(x[is_in], codes[is_in], rows.n_outputs, self._n_all)
            return nested, nested.information(x[is_out], codes[is_out])

        codes = rows.targets
        self._nested, self.mutual_information_ = fit_and_score(codes)
        self.training_information_ = self._nested.information(x[is_in], codes[is_in])
        random = np.random.default_rng(self.seed)
        null = []
        for _ in range(self.n_permutations):
            shuffled = codes.copy()
            for part in [is_in, is_out] if self.is_held_out_ else [is_in]:
                shuffled[part] = random.permutation(codes[part])  # shuffling within each part keeps its class counts
            null.append(fit_and_score(shuffled)[1])
        self.null_information_ = np.array(null).reshape(self.n_permutations, len(self.selected_))


_ARRAYS = (
    "selected_",
    "mutual_information_",
    "training_information_",
    "null_information_",
    "unit_information_",
    "label_information_",
    "counts_",
    "dead_",
    "_signs",
)
_NESTED = ("means", "whiteners", "log_diagonals", "counts")


def mutual_information(X: Any, y: Any, units: Any, *, validation: float = 0.2, seed: int = 0) -> float:
    """Mutual information in bits of these units together and the classes, on held-out rows.

    >>> x = np.random.default_rng(0).normal(size=(400, 5))
    >>> round(mutual_information(x, x[:, 2] > 0, [2]), 1)
    0.8
    """
    matrix: Matrix = base.matrix_of(BaseEstimator(), X, reset=True)
    classes = base.classes_of(base.target_of(y, matrix))
    _refuse_single(classes)
    is_out = base.held_out(classes.codes, matrix.n_rows, validation, seed)
    x = matrix.columns(np.asarray(units, np.int64)).astype(np.float64)
    scored = is_out if is_out.any() else ~is_out
    nested = fit_gaussians(x[~is_out], classes.codes[~is_out], len(classes.labels))
    return float(nested.information(x[scored], classes.codes[scored])[-1])


def _chunks(rows: Rows, scaling: Scaling) -> tuple[Chunks, Chunks]:
    """The training and the held-out rows by class: in memory if they fit, else read in every round."""
    matrix = rows.matrix
    if matrix.n_rows * matrix.n_units * matrix.dtype.itemsize > MEMORY_BYTES:
        return (
            lambda: _by_class(rows.in_order(scaling, _BLOCK), rows.n_outputs),
            lambda: _by_class(rows.held_out(scaling, _BLOCK), rows.n_outputs),
        )
    x = scaling.apply(torch.from_numpy(matrix.array()).to(rows.device))
    parts = []
    for is_chosen in (~rows.is_out, rows.is_out):
        chunks = []
        for code in range(rows.n_outputs):
            where = np.flatnonzero(is_chosen & (rows.targets == code))
            if len(where):
                chunks.append((code, x[torch.from_numpy(where).to(x.device)]))
        parts.append(chunks)
    return lambda: iter(parts[0]), lambda: iter(parts[1])


def _by_class(batches: Iterator[tuple[Tensor, Tensor]], n_classes: int) -> Iterator[tuple[int, Tensor]]:
    for x, y in batches:
        for code in range(n_classes):
            some = x[y == code]
            if len(some):
                yield code, some


def _signs(scatter: Scatter) -> NDArray[np.int8]:
    """(class, unit): 1 if the mean of the class is above the mean of all other rows, -1 if below."""
    weights = scatter.counts[:, None]
    sums = scatter.means * weights
    others = (sums.sum(axis=0) - sums) / (weights.sum() - weights)
    return np.asarray(np.sign(scatter.means - others), np.int8)


def _refuse_single(classes: base.Classes) -> None:
    lonely = np.flatnonzero(classes.counts < 2)
    if len(lonely):
        row = int(np.flatnonzero(classes.codes == lonely[0])[0])
        raise FitError(
            f"class {classes.labels.tolist()[lonely[0]]!r} has one row, {row}: a variance needs at least two. Drop the "
            f"row or merge the class; {len(lonely)} of the classes have one sample."
        )
