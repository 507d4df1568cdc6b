"""Encodes labels as numbers: classes, several labels per row, or real numbers; errors name the rows."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from cutaway.core.errors import InputError, InputTypeError
from cutaway.core.formatting import listed, numbered
from cutaway.core.matrices import Matrix, as_matrix

Kind = Literal["classes", "multilabel", "numbers"]
_MOST_NAMED: Final = 5


@dataclass(frozen=True, slots=True, eq=False)
class EncodedLabels:
    """Labels encoded as numbers."""

    kind: Kind
    codes: NDArray[Any]
    """Classes: index of each label in `classes`, int64 `[row]`. Multilabel: bool `[row, class]`. Numbers: the numbers,
    float64 `[row]`."""
    classes: tuple[Any, ...]
    """The distinct labels, sorted, so independent of the row order; empty for numbers."""
    counts: NDArray[np.int64]
    """The number of rows of each class."""

    def __len__(self) -> int:
        return len(self.codes)


def encode(
    labels: Any, n_rows: int | None = None, *, kind: Kind | None = None, rare: Literal["raise", "keep"] = "raise"
) -> EncodedLabels:
    """Encode labels of any kind as numbers; the input is not changed.

    >>> encoded = encode(["noun", "verb", "noun", "verb"])
    >>> encoded.classes, encoded.codes.tolist()
    (('noun', 'verb'), [0, 1, 0, 1])
    >>> encode([{"noun"}, {"noun", "plural"}, set(), {"plural"}]).codes.tolist()
    [[True, False], [True, True], [False, False], [False, True]]

    Args:
        labels: one per row. Strings, integers and bools are classes; so are floats if all are 0 or 1. Other floats are
            numbers. Sets, lists or tuples, or a boolean table, are several labels per row.
        n_rows: the expected number of rows.
        kind: the kind of the labels, if it cannot be inferred from their type.
        rare: "keep" to allow classes with a single row, from which nothing can be learned.
    """
    # Verbs call each other with encoded labels; encoding twice would lose the original classes.
    if isinstance(labels, EncodedLabels):
        _check_length(len(labels), n_rows)
        return labels
    values = _values(labels)
    _check_length(len(values), n_rows)
    if not len(values):
        raise InputError("got no labels: pass at least two rows.")
    _check_missing(values)
    kind = kind or _kind(values)
    if kind == "numbers":
        return _numbers(values)
    return _multilabel(values, rare) if kind == "multilabel" else _classes(values, rare)


def matrix_and_labels(acts: Any, labels: Any) -> tuple[Matrix, EncodedLabels]:
    """Activations and labels, ready for a method; says so if they were swapped."""
    if _is_column(acts) and _is_table(labels):
        raise InputError(
            "activations and labels are swapped: pass the activations (rows × units) first, then one label per row."
        )
    matrix = as_matrix(acts)
    return matrix, encode(labels, matrix.n_rows)


def _is_column(given: Any) -> bool:
    """Whether this is one value per row, as labels are."""
    if isinstance(given, (list, tuple)):
        return not given or not isinstance(given[0], (list, tuple, np.ndarray))
    return getattr(given, "ndim", 0) == 1


def _is_table(given: Any) -> bool:
    """Whether this is rows × units of floats, as activations are."""
    if hasattr(given, "blocks") and hasattr(given, "columns"):
        return True
    return getattr(given, "ndim", 0) == 2 and "float" in str(getattr(given, "dtype", ""))


def sorted_labels(labels: Iterable[Hashable]) -> tuple[Any, ...]:
    """The distinct labels, sorted; labels that cannot be compared are sorted by type name and text.

    >>> sorted_labels(["b", "a", "b"]), sorted_labels([2, "a", 10])
    (('a', 'b'), (2, 10, 'a'))
    """
    # Sorted, because the order of a set of strings changes with the hash seed of the process.
    distinct = set(labels)
    try:
        return tuple(sorted(distinct))  # type: ignore[type-var]
    except TypeError:
        by_type: dict[str, list[Any]] = {}
        for label in distinct:
            by_type.setdefault(type(label).__name__, []).append(label)
        return tuple(label for name in sorted(by_type) for label in _sorted(by_type[name]))


def _sorted(labels: list[Any]) -> list[Any]:
    try:
        return sorted(labels)
    except TypeError:
        return sorted(labels, key=str)


def _values(labels: Any) -> Any:
    """Convert labels to an array, or to a list if they have mixed types."""
    if hasattr(labels, "detach"):
        labels = labels.detach().cpu().float().numpy() if labels.is_floating_point() else labels.detach().cpu().numpy()
    if isinstance(labels, np.ndarray):
        values = labels.tolist() if labels.dtype == object else labels
    elif isinstance(labels, (str, bytes)):
        raise InputTypeError("labels must be a list with one label per row, got a single string: use labels.split().")
    elif hasattr(labels, "to_numpy"):  # a column of a DataFrame
        return _values(labels.to_numpy())
    else:
        try:
            values = list(labels)
        except TypeError:
            raise InputTypeError(
                f"labels must be a list with one label per row, got {type(labels).__name__}."
            ) from None
    if isinstance(values, list):
        values = _as_array([value.item() if isinstance(value, np.generic) else value for value in values])
    if isinstance(values, np.ndarray) and values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if isinstance(values, np.ndarray) and values.ndim not in (1, 2):
        raise InputError(
            f"labels have shape {list(values.shape)}: pass one label per row, or a boolean table [row, label]."
        )
    return values


def _as_array(values: list[Any]) -> Any:
    """Convert ints, bools or floats to an array; anything else stays a list."""
    types = {type(value) for value in values}
    if types <= {int, bool} or types in ({float}, {float, int}):
        try:
            return np.array(values)
        except OverflowError:
            return values
    return values


def _kind(values: Any) -> Kind:
    if isinstance(values, np.ndarray):
        if values.ndim == 2:
            return "multilabel"
        # A mask may arrive as floats of 0 and 1.
        is_number = values.dtype.kind == "f" and not np.isin(values, (0.0, 1.0)).all()
        return "numbers" if is_number else "classes"
    n_several = sum(_is_collection(value) for value in values)
    if 0 < n_several < len(values):
        single = next(row for row, value in enumerate(values) if not _is_collection(value))
        raise InputError(
            f"some rows have several labels, but {numbered('row', [single])} is {values[single]!r}: pass a set for "
            "every row."
        )
    return "multilabel" if n_several else "classes"


def _is_collection(value: Any) -> bool:
    return isinstance(value, (set, frozenset, list, tuple, np.ndarray))


def _check_length(n: int, n_rows: int | None) -> None:
    if n_rows is not None and n != n_rows:
        raise InputError(
            f"got {n:,} labels for {n_rows:,} rows: pass one label per row. Convert labels of sentences, words or "
            "spans with sentence_labels, token_labels or span_labels."
        )


def _check_missing(values: Any) -> None:
    if isinstance(values, np.ndarray):
        not_finite = ~np.isfinite(values) if values.dtype.kind == "f" else np.zeros(len(values), bool)
        missing = np.flatnonzero(not_finite.reshape(len(values), -1).any(axis=1))
    else:
        missing = np.flatnonzero([is_missing(value) for value in values])
    if len(missing):
        raise InputError(
            f"{len(missing):,} of {len(values):,} labels are missing or not finite: {numbered('row', missing)}. Drop "
            "these rows with neurons.filter(acts, labels)."
        )


def is_missing(value: Any) -> bool:
    """Whether a label is None, NaN, infinite or pandas' NA, or contains one of these."""
    if _is_collection(value):
        return any(is_missing(label) for label in value)
    return value is None or (isinstance(value, float) and not np.isfinite(value)) or type(value).__name__ == "NAType"


def _check_classes(classes: Sequence[Any], counts: NDArray[np.int64], member: NDArray[np.int64], rare: str) -> None:
    """Raise for classes with a single row, naming all of them."""
    single = np.flatnonzero(counts == 1)
    if len(single) and rare == "raise":
        names = listed((f"{classes[number]!r} (row {member[number]})" for number in single.tolist()), _MOST_NAMED)
        raise InputError(
            f"{len(single):,} of {len(classes):,} classes have a single row: {names}. "
            "Drop them with neurons.filter(acts, labels, at_least=2)."
        )


def _numbers(values: Any) -> EncodedLabels:
    try:
        codes = np.array(values, np.float64)
    except (TypeError, ValueError) as error:
        raise InputTypeError(f"labels must be numbers: {error}.") from error
    if codes.ndim != 1:
        raise InputError(f"labels have shape {list(codes.shape)}: pass one number per row.")
    _check_missing(codes)
    if codes.min() == codes.max():
        raise InputError(f"all {len(codes):,} labels are {codes[0]:g}: pass at least two different numbers.")
    return EncodedLabels("numbers", _read_only(codes), (), _read_only(np.empty(0, np.int64)))


def _classes(values: Any, rare: str) -> EncodedLabels:
    if isinstance(values, np.ndarray):
        if values.ndim != 1:
            raise InputError(f"labels have shape {list(values.shape)}: pass one class per row.")
        distinct, first, codes = np.unique(values, return_index=True, return_inverse=True)
        classes = tuple(distinct.tolist())
    else:
        try:
            classes = sorted_labels(values)
        except TypeError as error:
            raise InputTypeError(f"labels must be hashable, such as strings or numbers: {error}.") from error
        numbers = {label: number for number, label in enumerate(classes)}
        codes = np.fromiter((numbers[value] for value in values), np.int64, len(values))
        first = np.full(len(classes), len(values), np.int64)
        np.minimum.at(first, codes, np.arange(len(values)))
    if len(classes) < 2:
        raise InputError(f"all {len(values):,} labels are {classes[0]!r}: pass at least two classes.")
    counts = np.bincount(codes, minlength=len(classes))
    _check_classes(classes, counts, first, rare)
    return EncodedLabels("classes", _read_only(codes.astype(np.int64)), classes, _read_only(counts.astype(np.int64)))


def _multilabel(values: Any, rare: str) -> EncodedLabels:
    if isinstance(values, np.ndarray):
        codes, classes = _from_table(values)
    else:
        codes, classes = _from_sets(values)
    counts = codes.sum(axis=0).astype(np.int64)
    constant = [classes[number] for number in np.flatnonzero((counts == 0) | (counts == len(codes)))]
    if constant or not classes:
        names = listed(map(repr, constant), _MOST_NAMED) or "no label at all"
        raise InputError(f"{names}: every row has this label or no row does, so there is nothing to compare.")
    _check_classes(classes, counts, codes.argmax(axis=0), rare)
    return EncodedLabels("multilabel", _read_only(codes), classes, _read_only(counts))


def _from_table(values: NDArray[Any]) -> tuple[NDArray[np.bool_], tuple[Any, ...]]:
    if values.ndim != 2 or not np.isin(values, (0, 1)).all():
        raise InputError("a table of labels must have shape [row, label] and contain only 0 and 1.")
    return values.astype(bool), tuple(range(values.shape[1]))


def _from_sets(values: Sequence[Any]) -> tuple[NDArray[np.bool_], tuple[Any, ...]]:
    rows: list[Collection[Any]] = [value if _is_collection(value) else (value,) for value in values]
    try:
        classes = sorted_labels(label for row in rows for label in row)
    except TypeError as error:
        raise InputTypeError(f"labels must be hashable, such as strings or numbers: {error}.") from error
    numbers = {label: number for number, label in enumerate(classes)}
    codes = np.zeros((len(rows), len(classes)), bool)
    for row, row_labels in enumerate(rows):
        for label in row_labels:
            codes[row, numbers[label]] = True
    return codes, classes


def _read_only(array: NDArray[Any]) -> NDArray[Any]:
    array.flags.writeable = False
    return array
