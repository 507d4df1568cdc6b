"""What both probes ask of what they are given: rows, labels, a part of the rows held out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from cutaway.core.errors import FitError
from cutaway.core.matrices import Matrix, as_matrix

Array = NDArray[Any]
_MOST_NAMED = 5


@dataclass(frozen=True, slots=True, eq=False)
class Classes:
    """The labels of rows as numbers."""

    codes: NDArray[np.int64]
    """(row,): the position of its label among the classes."""
    labels: Array
    """The classes, sorted."""

    @property
    def counts(self) -> NDArray[np.int64]:
        """(class,): how many rows each has."""
        return np.bincount(self.codes, minlength=len(self.labels))


def matrix_of(estimator: Any, X: Any, *, reset: bool) -> Matrix:
    """What was given as a matrix of the width that the estimator was, or now is, fitted to.

    Arrays and lists are checked as scikit-learn checks them; `Activations`, tensors and matrices by their own rules.
    """
    if is_streamed(X) or hasattr(X, "detach"):
        matrix = as_matrix(X)
        if reset:
            estimator.n_features_in_ = matrix.n_units
            _forget_names(estimator)
        elif matrix.n_units != estimator.n_features_in_:
            raise FitError(
                f"X has {matrix.n_units} features, but {type(estimator).__name__} is expecting "
                f"{estimator.n_features_in_} features as input: it was fitted to so many units."
            )
        if not matrix.n_rows:
            raise FitError("activations without rows were given: there is nothing to fit or to predict.")
        return matrix
    return as_matrix(validate_data(estimator, X, reset=reset, ensure_all_finite=True))


def is_streamed(X: Any) -> bool:
    """Whether rows come in blocks."""
    return hasattr(X, "blocks") and hasattr(X, "columns")


def device_of(given: Any, device: Any) -> str:
    """Where to work: as asked for; else where the tensor is that was given; else on the CPU."""
    if device is not None:
        return str(device)
    return str(given.device) if hasattr(given, "detach") else "cpu"


def target_of(y: Any, matrix: Matrix) -> Array:
    """One label a row, as an array."""
    if y is None:
        raise FitError("requires y to be passed, but the target y is None: one label a row.")
    if hasattr(y, "detach"):
        y = y.detach().cpu().numpy()
    values: Array = column_or_1d(np.asarray(y), warn=True)
    if len(values) != matrix.n_rows:
        raise FitError(
            f"Found input variables with inconsistent numbers of samples: {matrix.n_rows} rows of activations, but "
            f"{len(values)} labels: one label a row."
        )
    _refuse_missing(values)
    return values


def kind_of(values: Array) -> str:
    """`classification` or `regression`: real numbers that are not whole are regressed."""
    return "regression" if type_of_target(values) == "continuous" else "classification"


def numbers_of(values: Array) -> NDArray[np.float64]:
    """The labels as real numbers."""
    try:
        if values.dtype.kind not in "biufO":
            raise ValueError
        return values.astype(np.float64)
    except (TypeError, ValueError):
        raise FitError(
            f"Unknown label type: labels such as {values.tolist()[0]!r} were given, and a regression needs numbers."
        ) from None


def classes_of(values: Array) -> Classes:
    """The classes of the labels, sorted; at least two."""
    check_classification_targets(values)
    labels, codes = np.unique(values, return_inverse=True)
    if len(labels) < 2:
        raise FitError(
            f"all rows are of one class, {labels.tolist()[0]!r}: a probe needs rows of at least two classes."
        )
    return Classes(codes.astype(np.int64).reshape(-1), labels)


def codes_of(y: Any, labels: Array, matrix: Matrix) -> NDArray[np.int64]:
    """(row,): positions among classes that are known; some may be absent, none may be new."""
    values = target_of(y, matrix)
    known = {label: i for i, label in enumerate(labels.tolist())}
    codes = np.array([known.get(value, -1) for value in values.tolist()], np.int64)
    if (codes < 0).any():
        rows = np.flatnonzero(codes < 0)
        raise FitError(
            f"labels that the probe was not fitted to: {values.tolist()[rows[0]]!r} in {_rows(rows)}; it knows "
            f"{', '.join(map(repr, labels.tolist()))}."
        )
    return codes


def held_out(codes: NDArray[np.int64] | None, n_rows: int, share: float, seed: int) -> NDArray[np.bool_]:
    """(row,): whether it is held out; of each class the same share, such that two rows at least stay.

    >>> held_out(np.array([0, 0, 0, 0, 1, 1]), 6, 0.5, 0).sum()
    np.int64(2)
    """
    if not 0 <= share < 1:
        raise FitError(f"validation={share!r}: a share of the rows, from 0 to below 1.")
    found = np.zeros(n_rows, np.bool_)
    drawn = np.random.default_rng(seed).permutation(n_rows)
    groups: Sequence[NDArray[np.int64]] = [drawn]
    if codes is not None:
        groups = [drawn[codes[drawn] == code] for code in range(int(codes.max()) + 1)]
    for rows in groups:
        found[rows[: max(min(round(share * len(rows)), len(rows) - 2), 0)]] = True
    return found


def names_of(matrix: Matrix, estimator: Any) -> Sequence[str] | None:
    """The sites of the units, or the columns of a data frame."""
    if matrix.names is not None:
        return matrix.names
    found = getattr(estimator, "feature_names_in_", None)
    return None if found is None else [str(name) for name in found]


def require_fitted(estimator: Any) -> None:
    """An error where `fit` has not been called."""
    check_is_fitted(estimator)


def _forget_names(estimator: Any) -> None:
    if hasattr(estimator, "feature_names_in_"):
        del estimator.feature_names_in_


def _refuse_missing(values: Array) -> None:
    if values.dtype.kind == "O":
        rows = np.flatnonzero([value is None or value != value for value in values])
    elif values.dtype.kind == "f":
        rows = np.flatnonzero(~np.isfinite(values))
    else:
        return
    if len(rows):
        raise FitError(f"Input y contains NaN, infinity or None: {_rows(rows)} of the labels. Leave these rows out.")


def _rows(rows: NDArray[np.int64]) -> str:
    shown = ", ".join(map(str, rows[:_MOST_NAMED].tolist()))
    more = f" and {len(rows) - _MOST_NAMED:,} more" if len(rows) > _MOST_NAMED else ""
    return f"row{'s' if len(rows) > 1 else ''} {shown}{more}"
