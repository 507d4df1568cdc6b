"""Labels as numbers: classes, several labels a row, or real numbers; whatever cannot be used is named row by row."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from cutaway.core.errors import InputError

Kind = Literal["classes", "multilabel", "numbers"]
_MOST_NAMED: Final = 5


@dataclass(frozen=True, slots=True, eq=False)
class EncodedLabels:
    """Labels as numbers."""

    kind: Kind
    codes: NDArray[Any]
    """For classes, the place of each row's label in `classes`, int64 `[row]`; for several labels, bool `[row, class]`;
    else the numbers themselves, float64 `[row]`."""
    classes: tuple[Any, ...]
    """The labels in sorted order, the same whatever the order of the rows; empty for numbers."""
    counts: NDArray[np.int64]
    """How many rows each class has."""

    def __len__(self) -> int:
        return len(self.codes)


def encode(
    labels: Any, n_rows: int | None = None, *, kind: Kind | None = None, rare: Literal["raise", "keep"] = "raise"
) -> EncodedLabels:
    """Labels of any kind as numbers; what was handed in is not changed.

    >>> encoded = encode(["noun", "verb", "noun", "verb"])
    >>> encoded.classes, encoded.codes.tolist()
    (('noun', 'verb'), [0, 1, 0, 1])
    >>> encode([{"noun"}, {"noun", "plural"}, set(), {"plural"}]).codes.tolist()
    [[True, False], [True, True], [False, False], [False, True]]

    Args:
        labels: one a row. Texts, whole numbers and truth values are classes; so are floats if all are 0 or 1. Other
            floats are numbers. Sets, lists or tuples, or a table of truth values, are several labels a row.
        n_rows: how many there must be.
        kind: what they are, where that is not what they look like.
        rare: "keep" where a class may have a single row: nothing can be learned from it.
    """
    if isinstance(labels, EncodedLabels):
        _check_length(len(labels), n_rows)
        return labels
    values = _values(labels)
    _check_length(len(values), n_rows)
    if not len(values):
        raise InputError("there are no labels: at least two rows are needed.")
    _check_missing(values)
    kind = kind or _kind(values)
    if kind == "numbers":
        return _numbers(values)
    return _multilabel(values, rare) if kind == "multilabel" else _classes(values, rare)


def sorted_labels(labels: Iterable[Hashable]) -> tuple[Any, ...]:
    """The different labels in sorted order; those that cannot be compared by type and text.

    >>> sorted_labels(["b", "a", "b"]), sorted_labels([2, "a", 10])
    (('a', 'b'), (2, 10, 'a'))
    """
    different = set(labels)
    try:
        return tuple(sorted(different))  # type: ignore[type-var]
    except TypeError:
        by_type: dict[str, list[Any]] = {}
        for label in different:
            by_type.setdefault(type(label).__name__, []).append(label)
        return tuple(label for name in sorted(by_type) for label in _sorted(by_type[name]))


def _sorted(labels: list[Any]) -> list[Any]:
    try:
        return sorted(labels)
    except TypeError:
        return sorted(labels, key=str)


def row_list(rows: Sequence[int] | NDArray[Any]) -> str:
    """
    >>> row_list([3]), row_list(range(7))
    ('row 3', 'rows 0, 1, 2, 3, 4 and 2 more')
    """
    named = ", ".join(str(int(row)) for row in rows[:_MOST_NAMED])
    more = f" and {len(rows) - _MOST_NAMED:,} more" if len(rows) > _MOST_NAMED else ""
    return f"row{'s' if len(rows) > 1 else ''} {named}{more}"


# what they are


def _values(labels: Any) -> Any:
    """An array of numbers or texts, or a list of whatever it is."""
    if hasattr(labels, "detach"):
        labels = labels.detach().cpu().float().numpy() if labels.is_floating_point() else labels.detach().cpu().numpy()
    if isinstance(labels, np.ndarray):
        found = labels.tolist() if labels.dtype == object else labels
    elif isinstance(labels, (str, bytes)):
        raise InputError("labels are one a row; a single text is none: labels.split() if it holds them all.")
    elif hasattr(labels, "to_numpy"):  # a column of a table
        return _values(labels.to_numpy())
    else:
        try:
            found = list(labels)
        except TypeError:
            raise InputError(f"labels are one a row, not {type(labels).__name__}.") from None
    if isinstance(found, list):
        found = _as_array([value.item() if isinstance(value, np.generic) else value for value in found])
    if isinstance(found, np.ndarray) and found.ndim == 2 and found.shape[1] == 1:
        found = found[:, 0]
    if isinstance(found, np.ndarray) and found.ndim not in (1, 2):
        raise InputError(f"labels have one entry a row, or a table of truth values, not the shape {list(found.shape)}.")
    return found


def _as_array(values: list[Any]) -> Any:
    """Plain texts or numbers of one type as an array; anything else stays a list."""
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
        is_number = values.dtype.kind == "f" and not np.isin(values, (0.0, 1.0)).all()
        return "numbers" if is_number else "classes"
    n_several = sum(_is_collection(value) for value in values)
    if 0 < n_several < len(values):
        one = next(row for row, value in enumerate(values) if not _is_collection(value))
        raise InputError(f"some rows have several labels and others one: {row_list([one])} is {values[one]!r}.")
    return "multilabel" if n_several else "classes"


def _is_collection(value: Any) -> bool:
    return isinstance(value, (set, frozenset, list, tuple, np.ndarray))


# what is wrong with them


def _check_length(n: int, n_rows: int | None) -> None:
    if n_rows is not None and n != n_rows:
        raise InputError(
            f"{n:,} labels for {n_rows:,} rows: each row has one. Labels of sentences, of words in lists, or of spans "
            "are spread over the rows by sentence_labels, token_labels and span_labels."
        )


def _check_missing(values: Any) -> None:
    if isinstance(values, np.ndarray):
        is_missing = ~np.isfinite(values) if values.dtype.kind == "f" else np.zeros(len(values), bool)
        missing = np.flatnonzero(is_missing.reshape(len(values), -1).any(axis=1))
    else:
        missing = np.flatnonzero([_is_missing(value) for value in values])
    if len(missing):
        raise InputError(
            f"{len(missing):,} of {len(values):,} labels are missing or no finite number: {row_list(missing)}. "
            "`neurons.filter(acts, labels)` leaves such rows out."
        )


def _is_missing(value: Any) -> bool:
    if _is_collection(value):
        return any(_is_missing(one) for one in value)
    return value is None or (isinstance(value, float) and not np.isfinite(value)) or type(value).__name__ == "NAType"


def _check_classes(classes: Sequence[Any], counts: NDArray[np.int64], member: NDArray[np.int64], rare: str) -> None:
    """Refuse classes with a single row, all of them in one message."""
    single = np.flatnonzero(counts == 1)
    if len(single) and rare == "raise":
        named = ", ".join(f"{classes[number]!r} (row {member[number]})" for number in single[:_MOST_NAMED])
        more = f" and {len(single) - _MOST_NAMED:,} more" if len(single) > _MOST_NAMED else ""
        raise InputError(
            f"{len(single):,} of {len(classes):,} classes have a single row: {named}{more}. "
            "`neurons.filter(acts, labels, at_least=2)` leaves them out."
        )


# the three kinds


def _numbers(values: Any) -> EncodedLabels:
    try:
        codes = np.array(values, np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"these labels are no numbers: {error}.") from error
    if codes.ndim != 1:
        raise InputError(f"numbers are one a row, not of shape {list(codes.shape)}.")
    _check_missing(codes)
    if codes.min() == codes.max():
        raise InputError(f"all {len(codes):,} labels are {codes[0]:g}: there is nothing to tell apart.")
    return EncodedLabels("numbers", _read_only(codes), (), _read_only(np.empty(0, np.int64)))


def _classes(values: Any, rare: str) -> EncodedLabels:
    if isinstance(values, np.ndarray):
        if values.ndim != 1:
            raise InputError(f"classes are one a row, not of shape {list(values.shape)}.")
        different, first, codes = np.unique(values, return_index=True, return_inverse=True)
        classes = tuple(different.tolist())
    else:
        try:
            classes = sorted_labels(values)
        except TypeError as error:
            raise InputError(f"a label must be hashable, as texts and numbers are: {error}.") from error
        numbers = {label: number for number, label in enumerate(classes)}
        codes = np.fromiter((numbers[value] for value in values), np.int64, len(values))
        first = np.full(len(classes), len(values), np.int64)
        np.minimum.at(first, codes, np.arange(len(values)))
    if len(classes) < 2:
        raise InputError(f"all {len(values):,} labels are {classes[0]!r}: there is nothing to tell apart.")
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
        named = ", ".join(map(repr, constant[:_MOST_NAMED])) or "no label at all"
        raise InputError(f"{named}: every row has it, or none does, so there is nothing to tell apart.")
    _check_classes(classes, counts, codes.argmax(axis=0), rare)
    return EncodedLabels("multilabel", _read_only(codes), classes, _read_only(counts))


def _from_table(values: NDArray[Any]) -> tuple[NDArray[np.bool_], tuple[Any, ...]]:
    if values.ndim != 2 or not np.isin(values, (0, 1)).all():
        raise InputError("a table of labels has a row for each row, a column for each label, and holds 0 and 1 only.")
    return values.astype(bool), tuple(range(values.shape[1]))


def _from_sets(values: Sequence[Any]) -> tuple[NDArray[np.bool_], tuple[Any, ...]]:
    rows: list[Collection[Any]] = [value if _is_collection(value) else (value,) for value in values]
    try:
        classes = sorted_labels(label for row in rows for label in row)
    except TypeError as error:
        raise InputError(f"a label must be hashable, as texts and numbers are: {error}.") from error
    numbers = {label: number for number, label in enumerate(classes)}
    codes = np.zeros((len(rows), len(classes)), bool)
    for row, own in enumerate(rows):
        for label in own:
            codes[row, numbers[label]] = True
    return codes, classes


def _read_only(array: NDArray[Any]) -> NDArray[Any]:
    array.flags.writeable = False
    return array
