"""`Linear`: predicts labels from units and ranks units by weight."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils import RegressorTags
from sklearn.utils.metaestimators import available_if
from torch import Tensor

from cutaway.core.errors import FitError
from cutaway.core.formatting import hint, listed
from cutaway.core.matrices import Matrix
from cutaway.neurons.probes import base, save
from cutaway.neurons.probes.linear.losses import Kind, Penalty, losses
from cutaway.neurons.probes.linear.minibatch import minimize_in_batches, train_like_neurox
from cutaway.neurons.probes.linear.rows import Rows, Scaling
from cutaway.neurons.probes.linear.solver import Minimum, minimize
from cutaway.neurons.probes.linear.weight_order import above, holding, mass_order
from cutaway.results.neurons.ranking import Ranking, ranked

Task = Literal["auto", "classification", "regression"]
Solver = Literal["auto", "full", "minibatch"]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

FULL_BYTES = 1 << 30
"""With `solver="auto"`, larger activations are fitted in minibatches."""
_CHOICES = {
    "task": ("auto", "classification", "regression"),
    "solver": ("auto", "full", "minibatch"),
    "compat": ("", "neurox"),
}
_PATIENCE = 4
_BATCH, _NEUROX_BATCH = 256, 32
_MAX_ITER, _MAX_PASSES, _NEUROX_PASSES = 500, 20, 10


def _classifies(probe: Linear) -> bool:
    return probe.task != "regression" and getattr(probe, "task_", "classification") == "classification"


class Linear(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Logistic or linear regression with an elastic-net penalty.

    Minimizes the mean cross-entropy over rows (half the squared error if labels are numbers) plus
    `l1 · Σ|W| + l2 / 2 · ΣW²`; intercepts are not penalized. scikit-learn's `LogisticRegression` has the same minimum
    at `C = 1 / (n · (l1 + l2))` and `l1_ratio = l1 / (l1 + l2)`.

    >>> x = np.random.default_rng(0).normal(size=(200, 5))
    >>> probe = Linear(l1=0.01).fit(x, np.where(x[:, 3] < 0, "noun", "verb"))
    >>> probe.score(x, np.where(x[:, 3] < 0, "noun", "verb")) > 0.95, int(probe.ranking_.order[0])
    (True, 3)

    Args:
        l1: weight of the l1 penalty, which sets weights to exactly zero.
        l2: weight of the l2 penalty, which spreads the weight over correlated units.
        task: "classification" or "regression"; "auto" uses regression for floats that are not all integers.
        standardize: scale each unit to mean 0 and standard deviation 1 before fitting. The size of a weight depends on
            the scale of its unit, so rankings need this. Default: True, but False with `compat="neurox"`.
        solver: "full" finds the minimum with all rows in memory, "minibatch" reads rows in batches, "auto" uses "full"
            up to 1 GiB.
        compat: "neurox" for NeuroX's objective, where l2 is the weight of `sqrt(ΣW²)`, and its training: 10 epochs of
            Adam in batches of 32, in row order, from torch's initial weights. With `solver="full"`, the minimum of that
            objective.
        validation: fraction of the rows to hold out for early stopping.
        max_iter: maximum number of iterations, or of epochs in minibatches; default: 500 iterations or 20 epochs.
        tol: tolerance on derivatives and on the relative decrease of the objective per iteration.
        batch_size: rows per batch.
        device: compute device; default: the device of the tensor, or the CPU.
        seed: seed of held-out rows, batches and NeuroX's initial weights.
    """

    def __init__(
        self,
        *,
        l1: float = 1e-3,
        l2: float = 1e-3,
        task: Task = "auto",
        standardize: bool | None = None,
        solver: Solver = "auto",
        compat: Literal["", "neurox"] = "",
        validation: float = 0.0,
        max_iter: int | None = None,
        tol: float = 3e-4,
        batch_size: int | None = None,
        device: Any = None,
        seed: int = 0,
    ) -> None:
        self.l1 = l1
        self.l2 = l2
        self.task = task
        self.standardize = standardize
        self.solver = solver
        self.compat = compat
        self.validation = validation
        self.max_iter = max_iter
        self.tol = tol
        self.batch_size = batch_size
        self.device = device
        self.seed = seed

    def fit(self, X: Any, y: Any) -> Linear:
        """Fit to rows × units (Activations, array or tensor) and one label per row.

        Args:
            X: rows × units: Activations, an array or a tensor.
            y: one label per row: classes or numbers.
        """
        self._check_parameters()
        matrix = base.matrix_of(self, X, reset=True)
        values = base.target_of(y, matrix)
        task = base.kind_of(values) if self.task == "auto" else self.task
        if task == "regression":
            values = base.numbers_of(values)
        kind, n_outputs, codes = self._read_labels(values, task)
        is_out = base.held_out(codes, matrix.n_rows, self.validation, self.seed)
        targets = values if codes is None else codes
        rows = Rows(matrix, targets, is_out, kind, n_outputs, base.device_of(X, self.device))
        with torch.no_grad():
            minimum, scaling = self._solve(rows)
        self.task_ = task
        self.n_iter_, self.objective_ = minimum.n_iter, minimum.objective
        self._store_weights(minimum.theta.double().cpu().numpy(), scaling, task)
        self._names = base.names_of(matrix, self)
        if not minimum.is_converged:
            warnings.warn(
                f"the probe has not converged in {minimum.n_iter} iterations: increase max_iter, tol, l1 or l2.",
                ConvergenceWarning,
                stacklevel=2,
            )
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """(row,): the class with the largest output, or the predicted number.

        Args:
            X: rows × units: Activations, an array or a tensor.
        """
        outputs = self._outputs(X)
        if self.task_ == "regression":
            return outputs[:, 0]
        best = outputs.argmax(axis=1) if outputs.shape[1] > 1 else (outputs[:, 0] > 0).astype(np.int64)
        return np.asarray(self.classes_[best])

    @available_if(_classifies)  # type: ignore[untyped-decorator]
    def decision_function(self, X: Any) -> Floats:
        """(row, class): the outputs; with two classes (row,), positive for the second class."""
        outputs = self._outputs(X)
        if len(self.classes_) > 2:
            return outputs
        return outputs[:, 0] if outputs.shape[1] == 1 else outputs[:, 1] - outputs[:, 0]

    @available_if(_classifies)  # type: ignore[untyped-decorator]
    def predict_log_proba(self, X: Any) -> Floats:
        """(row, class), in nats."""
        outputs = self._outputs(X)
        if outputs.shape[1] == 1:
            outputs = np.concatenate([np.zeros_like(outputs), outputs], axis=1)
        return np.asarray(outputs - np.logaddexp.reduce(outputs, axis=1, keepdims=True))

    # scikit-learn asks by hasattr whether an estimator has probabilities.
    @available_if(_classifies)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Floats:
        """(row, class)."""
        return np.asarray(np.exp(self.predict_log_proba(X)))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy; R² if labels are numbers."""
        metric = r2_score if self._is_regression() else accuracy_score
        truth = y.detach().cpu().numpy() if hasattr(y, "detach") else y
        return float(metric(truth, self.predict(X), sample_weight=sample_weight))

    @property
    def ranking_(self) -> Ranking:
        """Units by their share of the weight mass, overall and per class."""
        self._check_fitted()
        dead = self.dead_ if not self.compat else None
        about = {"l1": self.l1, "l2": self.l2, "task": self.task_, "compat": self.compat, "n_iter": self.n_iter_}
        units_by_mass = mass_order(self.weights_)
        strongest = self.weights_[_shares_of(self.weights_).argmax(axis=0), np.arange(self.weights_.shape[1])]
        order = units_by_mass.order if dead is None else _dead_last(units_by_mass.order, dead)
        return ranked(
            "linear",
            units_by_mass.scores,
            order=order,
            signs=np.sign(strongest) if len(self.weights_) == 1 else np.zeros(len(strongest)),
            names=self._names,
            dead=dead,
            tiers=units_by_mass.cutoffs,
            about=about,
            per_label={} if self.task_ == "regression" else dict(self._rankings(dead, about)),
        )

    def holding(self, mass: float, *, label: Any = None, is_least: bool = False) -> Ints:
        """The units that hold this fraction of the weight mass of a class, or of any class, best first.

        Args:
            mass: fraction of the weight mass.
            label: the class; default: any class.
            is_least: start with the smallest weights instead.
        """
        self._check_fitted()
        return self._merge_units(holding(self._weights_of(label), mass, is_least=is_least), is_least=is_least)

    def above(self, fraction: float, *, label: Any = None) -> Ints:
        """The units whose |w| is above this fraction of the largest |w| of a class, or of any class, best first.

        Args:
            fraction: a share of the largest |w|, between 0 and 1.
            label: only the weights of this class; None for any class.
        """
        self._check_fitted()
        return self._merge_units(above(self._weights_of(label), fraction))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted probe to one safetensors file.

        Args:
            path: the file to write.
        """
        self._check_fitted()
        learned = {"task": self.task_, "n_iter": self.n_iter_, "objective": self.objective_}
        if self.task_ == "classification":
            learned["classes"] = save.labels_as_json(self.classes_)
        arrays = {
            "coef": np.atleast_2d(self.coef_),
            "intercept": np.atleast_1d(self.intercept_),
            "weights": self.weights_,
            "dead": self.dead_,
        }
        save.write(save.SavedProbe("Linear", self.get_params(), learned, arrays, self._names), path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Linear:
        """Read a fitted probe from a file.

        Args:
            path: the file that `save` wrote.
        """
        saved = save.read(path, "Linear")
        probe = cls(**saved.parameters)
        probe.task_ = saved.learned["task"]
        probe.n_iter_, probe.objective_ = saved.learned["n_iter"], saved.learned["objective"]
        if "classes" in saved.learned:
            probe.classes_ = save.labels_from_json(saved.learned["classes"])
        probe._set_coefficients(saved.arrays["coef"], saved.arrays["intercept"])
        probe.weights_, probe.dead_ = saved.arrays["weights"], saved.arrays["dead"]
        probe.n_features_in_ = probe.weights_.shape[1]
        probe._names = saved.names
        return probe

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        if self.task == "regression":
            tags.estimator_type, tags.classifier_tags, tags.regressor_tags = "regressor", None, RegressorTags()
        return tags

    def _check_parameters(self) -> None:
        for name, allowed in _CHOICES.items():
            if getattr(self, name) not in allowed:
                choices = ", ".join(map(repr, allowed))
                raise FitError(f"{name}={getattr(self, name)!r}: use one of {choices}.")
        for name in ("l1", "l2", "tol"):
            if not getattr(self, name) >= 0:
                raise FitError(f"{name}={getattr(self, name)!r}: must be 0 or more.")
        for name in ("max_iter", "batch_size"):
            if getattr(self, name) is not None and getattr(self, name) < 1:
                raise FitError(f"{name}={getattr(self, name)!r}: must be 1 or more.")

    def _read_labels(self, values: NDArray[Any], task: str) -> tuple[Kind, int, Ints | None]:
        if task == "regression":
            # A refitted probe must not look like a classifier to scikit-learn.
            self.__dict__.pop("classes_", None)
            return "numbers", 1, None
        classes = base.classes_of(values)
        self.classes_ = classes.labels
        # NeuroX has one output per class, also for two classes.
        if len(classes.labels) == 2 and not self.compat:
            return "binary", 1, classes.codes
        return "classes", len(classes.labels), classes.codes

    def _solve(self, rows: Rows) -> tuple[Minimum, Scaling]:
        standardize = not self.compat if self.standardize is None else self.standardize
        penalty = Penalty(self.l1, self.l2, is_norm=bool(self.compat))
        if self._is_full(rows.matrix):
            problem, held_out, scaling = rows.whole(standardize=standardize)
            if self.compat and rows.kind == "numbers":  # NeuroX does not halve the squared error
                penalty = Penalty(self.l1 / 2, self.l2 / 2, is_norm=True)
            early_stopping = None if held_out is None else _EarlyStopping(held_out.loss)
            minimum = minimize(
                problem, penalty, max_iter=self.max_iter or _MAX_ITER, tol=self.tol, monitor=early_stopping
            )
            return (minimum if early_stopping is None else early_stopping.best(minimum)), scaling
        scaling = rows.scaling(standardize=standardize)
        if self.compat:
            size = self.batch_size or _NEUROX_BATCH
            minimum = train_like_neurox(
                lambda: rows.in_order(scaling, size),
                rows.kind,
                penalty,
                n_units=rows.matrix.n_units,
                n_outputs=rows.n_outputs,
                n_epochs=self.max_iter or _NEUROX_PASSES,
                seed=self.seed,
            )
            return minimum, scaling
        return self._in_batches(rows, scaling, penalty), scaling

    def _in_batches(self, rows: Rows, scaling: Scaling, penalty: Penalty) -> Minimum:
        size, random = self.batch_size or _BATCH, np.random.default_rng(self.seed)
        dtype = torch.float64 if rows.matrix.dtype == np.float64 else torch.float32
        start = torch.zeros(rows.n_outputs, rows.matrix.n_units + 1, dtype=dtype, device=rows.device)
        early_stopping = None
        if rows.is_out.any():
            early_stopping = _EarlyStopping(lambda theta: _mean_loss(rows.held_out(scaling, 8192), theta, rows.kind))
        minimum = minimize_in_batches(
            lambda: rows.shuffled(scaling, size, random),
            rows.kind,
            penalty,
            start=start,
            max_iter=self.max_iter or _MAX_PASSES,
            tol=self.tol,
            monitor=early_stopping,
        )
        return minimum if early_stopping is None else early_stopping.best(minimum)

    def _is_full(self, matrix: Matrix) -> bool:
        # NeuroX's training is defined in batches, so its full minimum is computed on request only.
        if self.solver == "auto":
            return not self.compat and matrix.n_rows * matrix.n_units * matrix.dtype.itemsize <= FULL_BYTES
        return self.solver == "full"

    def _store_weights(self, theta: Floats, scaling: Scaling, task: str) -> None:
        coef, intercept = scaling.unscaled(theta)
        self.weights_ = theta[:, :-1].copy()
        self.dead_ = scaling.dead.astype(np.int64)
        self._set_coefficients(coef, intercept)

    def _set_coefficients(self, coef: Floats, intercept: Floats) -> None:
        self.coef_: Floats = coef[0] if self.task_ == "regression" else coef
        self.intercept_: Any = float(intercept[0]) if self.task_ == "regression" else intercept

    def _outputs(self, X: Any) -> Floats:
        """(row, output)."""
        self._check_fitted()
        matrix = base.matrix_of(self, X, reset=False)
        coef, intercept = np.atleast_2d(self.coef_).T, np.atleast_1d(self.intercept_)
        outputs = np.empty((matrix.n_rows, coef.shape[1]))
        for rows, block in matrix.blocks():
            outputs[rows] = block.astype(np.float64) @ coef + intercept
        return outputs

    def _rankings(self, dead: Ints | None, about: dict[str, Any]) -> Iterator[tuple[Any, Ranking]]:
        shares = _shares_of(self.weights_)
        for i, label in enumerate(self.classes_.tolist()):
            row, sign = (i, 1) if len(self.weights_) > 1 else (0, 1 if i else -1)
            signs = sign * np.sign(self.weights_[row])
            ranking = ranked(
                "linear",
                shares[row],
                signs=signs,
                names=self._names,
                dead=dead,
                tiers=mass_order(self.weights_[row]).cutoffs,
                about={**about, "label": label},
            )
            yield label, ranking

    def _weights_of(self, label: Any) -> Floats:
        if label is None or len(self.weights_) == 1:
            return self.weights_
        where = np.flatnonzero(self.classes_ == label)
        if not len(where):
            known = self.classes_.tolist()
            raise FitError(
                f"no class {label!r}.{hint(label, map(str, known))} Classes: {listed(map(repr, known), 10)}."
            )
        return self.weights_[where]

    def _merge_units(self, units_of_class: list[Ints], *, is_least: bool = False) -> Ints:
        if len(units_of_class) == 1:
            return units_of_class[0]
        order = mass_order(self.weights_).order
        return (order[::-1] if is_least else order)[
            np.isin(order[::-1] if is_least else order, np.concatenate(units_of_class))
        ]

    def _is_regression(self) -> bool:
        return bool(getattr(self, "task_", self.task) == "regression")

    def _check_fitted(self) -> None:
        base.require_fitted(self)


class _EarlyStopping:
    """Keeps the parameters with the lowest loss on held-out rows; stops when the loss no longer falls."""

    def __init__(self, loss: Any) -> None:
        self._loss = loss
        self._least = float("inf")
        self._best: Tensor | None = None
        self._n_worse = 0

    def __call__(self, theta: Tensor) -> bool:
        value = self._loss(theta)
        if value < self._least:
            self._least, self._best, self._n_worse = value, theta.clone(), 0
        else:
            self._n_worse += 1
        return self._n_worse >= _PATIENCE

    def best(self, minimum: Minimum) -> Minimum:
        """The best parameters, including the last ones."""
        self(minimum.theta)
        assert self._best is not None
        return Minimum(self._best, minimum.objective, minimum.n_iter, minimum.is_converged)


def _mean_loss(batches: Any, theta: Tensor, kind: Kind) -> float:
    total, n = 0.0, 0
    for x, y in batches:
        total += float(losses(torch.addmm(theta[:, -1:], theta[:, :-1], x.mT), y, kind).sum(dtype=torch.float64))
        n += len(x)
    return total / n


def _shares_of(weights: Floats) -> Floats:
    mass = np.abs(weights)
    totals = mass.sum(axis=1, keepdims=True)
    return np.asarray(np.divide(mass, totals, out=np.zeros_like(mass), where=totals > 0))


def _dead_last(order: Ints, dead: Ints) -> Ints:
    is_dead = np.isin(order, dead)
    return np.concatenate([order[~is_dead], np.sort(order[is_dead])])
