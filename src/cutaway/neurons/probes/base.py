"""Input validation shared by both probes: rows, labels, held-out rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from cutaway.core.errors import FitError
from cutaway.core.formatting import listed, numbered
from cutaway.core.matrices import Matrix, as_matrix

Array = NDArray[Any]


@dataclass(frozen=True, slots=True, eq=False)
class Classes:
    """Class labels encoded as numbers."""

    codes: NDArray[np.int64]
    """(row,): the index of its label in `labels`."""
    labels: Array
    """The distinct classes, sorted."""

    @property
    def counts(self) -> NDArray[np.int64]:
        """(class,): the number of rows of each class."""
        return np.bincount(self.codes, minlength=len(self.labels))


def matrix_of(estimator: Any, X: Any, *, reset: bool) -> Matrix:
    """Convert X to a matrix and check its number of units.

    Arrays and lists are validated by scikit-learn; `Activations`, tensors and matrices by `as_matrix`.
    """
    # scikit-learn would load streamed data, and copy a tensor from its device, as a whole.
    if is_streamed(X) or hasattr(X, "detach"):
        matrix = as_matrix(X)
        if reset:
            estimator.n_features_in_ = matrix.n_units
            _forget_names(estimator)
        elif matrix.n_units != estimator.n_features_in_:
            raise FitError(
                f"X has {matrix.n_units} features, but {type(estimator).__name__} is expecting "
                f"{estimator.n_features_in_} features as input."
            )
        if not matrix.n_rows:
            raise FitError("X has no rows: pass at least one row.")
        return matrix
    return as_matrix(validate_data(estimator, X, reset=reset, ensure_all_finite=True))


def is_streamed(X: Any) -> bool:
    """Whether X is read in blocks."""
    return hasattr(X, "blocks") and hasattr(X, "columns")


def device_of(given: Any, device: Any) -> str:
    """The compute device: `device` if set, else the device of the tensor, else the CPU."""
    if device is not None:
        return str(device)
    return str(given.device) if hasattr(given, "detach") else "cpu"


def target_of(y: Any, matrix: Matrix) -> Array:
    """Convert y to an array with one label per row."""
    if y is None:
        # scikit-learn's estimator checks look for this wording.
        raise FitError("requires y to be passed, but the target y is None: pass one label per row.")
    if hasattr(y, "detach"):
        y = y.detach().cpu().numpy()
    values: Array = column_or_1d(np.asarray(y), warn=True)
    if len(values) != matrix.n_rows:
        raise FitError(
            f"Found input variables with inconsistent numbers of samples: {matrix.n_rows} rows of activations, but "
            f"{len(values)} labels: pass one label per row."
        )
    _refuse_missing(values)
    return values


def kind_of(values: Array) -> str:
    """`regression` for floats that are not all integers, else `classification`."""
    return "regression" if type_of_target(values) == "continuous" else "classification"


def numbers_of(values: Array) -> NDArray[np.float64]:
    """Convert the labels to float64."""
    try:
        if values.dtype.kind not in "biufO":
            raise ValueError
        return values.astype(np.float64)
    except (TypeError, ValueError):
        raise FitError(
            f"Unknown label type: regression needs numbers, got labels such as {values.tolist()[0]!r}."
        ) from None


def classes_of(values: Array) -> Classes:
    """Encode class labels; raises with fewer than two classes."""
    check_classification_targets(values)
    labels, codes = np.unique(values, return_inverse=True)
    if len(labels) < 2:
        raise FitError(f"all rows have one class, {labels.tolist()[0]!r}: a probe needs at least two classes.")
    return Classes(codes.astype(np.int64).reshape(-1), labels)


def codes_of(y: Any, labels: Array, matrix: Matrix) -> NDArray[np.int64]:
    """(row,): indices of the labels among the fitted classes; raises for new classes."""
    values = target_of(y, matrix)
    known = {label: i for i, label in enumerate(labels.tolist())}
    codes = np.array([known.get(value, -1) for value in values.tolist()], np.int64)
    if (codes < 0).any():
        rows = np.flatnonzero(codes < 0)
        raise FitError(
            f"the probe was not fitted to the label {values.tolist()[rows[0]]!r} in {numbered('row', rows)}. Fitted "
            f"classes: {listed(map(repr, labels.tolist()), 10)}."
        )
    return codes


def held_out(codes: NDArray[np.int64] | None, n_rows: int, share: float, seed: int) -> NDArray[np.bool_]:
    """(row,): whether the row is held out, stratified by class; at least two rows per class stay.

    >>> held_out(np.array([0, 0, 0, 0, 1, 1]), 6, 0.5, 0).sum()
    np.int64(2)
    """
    if not 0 <= share < 1:
        raise FitError(f"validation={share!r}: must be a fraction of the rows in [0, 1).")
    is_out = np.zeros(n_rows, np.bool_)
    drawn = np.random.default_rng(seed).permutation(n_rows)
    groups: Sequence[NDArray[np.int64]] = [drawn]
    if codes is not None:
        groups = [drawn[codes[drawn] == code] for code in range(int(codes.max()) + 1)]
    for rows in groups:
        # Two rows per class stay, because the variance of a class needs two.
        is_out[rows[: max(min(round(share * len(rows)), len(rows) - 2), 0)]] = True
    return is_out


def names_of(matrix: Matrix, estimator: Any) -> Sequence[str] | None:
    """Unit names: sites, or the columns of a DataFrame."""
    if matrix.names is not None:
        return matrix.names
    names = getattr(estimator, "feature_names_in_", None)
    return None if names is None else [str(name) for name in names]


def require_fitted(estimator: Any) -> None:
    """Raise `NotFittedError` if `fit` has not been called."""
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
        raise FitError(f"Input y contains NaN, infinity or None: {numbered('row', rows)}. Drop these rows.")
