"""Labels by rule: vocabulary, regular expression or function; balancing and filtering of rows."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import groupby
from typing import Any, Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cutaway.core.errors import InputError, InputTypeError
from cutaway.neurons.labels.labels import is_missing, sorted_labels
from cutaway.store.activations.activations import Activations
from cutaway.store.activations.unit_selection import as_indices

POSITIVE: Final = "positive"
NEGATIVE: Final = "negative"
Rule = Collection[str] | str | re.Pattern[str] | Callable[..., Any]
"""A vocabulary, a regular expression, or a function of a word (with `context=True`, of all words and an index)."""
_Matcher = Callable[[Sequence[str], int], Any]


def annotate(
    words: Activations | Sequence[str],
    rule: Rule | Mapping[Any, Rule],
    *,
    search: bool = False,
    other: Any = NEGATIVE,
    context: bool = False,
) -> NDArray[Any]:
    """Label each row by a rule on its word.

    >>> annotate(["2004", "this", "1999"], r"[0-9]{4}$").tolist()
    ['positive', 'negative', 'positive']
    >>> annotate(["run", "runs", "running"], {"ing": r".*ing$", "s": r".*s$"}, other="none").tolist()
    ['none', 's', 'ing']

    Args:
        words: activations, or the words themselves.
        rule: a collection of words; a regular expression, as a string or compiled; or a function of a word that returns
            a bool or a label. For more than two classes, a mapping from label to rule: the first match wins.
        search: whether a regular expression may match anywhere in the word, not only at its start.
        other: the label of words that no rule matches.
        context: whether functions get all words of the sentence and the index of the word.
    """
    sentences = _sentences(words)
    rules = rule if isinstance(rule, Mapping) else {POSITIVE: rule}
    if not rules:
        raise InputError("rule= is empty: pass at least one rule.")
    matchers = {label: _matcher(each, search=search, context=context) for label, each in rules.items()}
    if other in rules:
        raise InputError(f"{other!r} is both a label of rule= and other=: pass a different other=.")
    labels_of_words = [
        _label(sentence, place, matchers, other) for sentence in sentences for place in range(len(sentence))
    ]
    _check_coverage(labels_of_words, list(rules), other, is_function=not isinstance(rule, Mapping) and callable(rule))
    return _array(labels_of_words)


class RowSelection(NamedTuple):
    """Selected rows with their labels."""

    acts: Any
    """Of the same type as the input."""
    labels: Any
    rows: NDArray[np.int64]
    """Indices of the selected rows, ascending."""


def balance(acts: Any, labels: Any, *, total: int | None = None, seed: int = 0) -> RowSelection:
    """Drop rows at random until every class has as many rows as the smallest.

    >>> balance(np.arange(8).reshape(4, 2), ["a", "b", "b", "b"]).labels
    ['a', 'b']

    Args:
        acts: activations, an array or a tensor.
        labels: one class per row.
        total: keep the class proportions instead, with about this many rows; each class is rounded up.
        seed: seed of the random choice.
    """
    known = _as_list(labels, acts)
    classes = sorted_labels(known)
    numbers = {label: number for number, label in enumerate(classes)}
    codes = np.fromiter((numbers[label] for label in known), np.int64, len(known))
    counts = np.bincount(codes, minlength=len(classes))
    if len(classes) < 2:
        raise InputError(f"all {len(known):,} labels are {classes[0]!r}: balancing needs at least two classes.")
    if total is None:
        wanted = np.full(len(classes), counts.min())
    elif type(total) is not int or not len(classes) <= total <= len(known):
        raise InputError(
            f"total={total!r}: must be between the number of classes ({len(classes)}) and of rows ({len(known):,})."
        )
    else:
        wanted = np.array([-(-count * total // len(known)) for count in counts.tolist()])  # rounded up
    generator = np.random.default_rng(seed)
    picked = [
        generator.choice(np.flatnonzero(codes == number), int(n), replace=False) for number, n in enumerate(wanted)
    ]
    return _select_rows(acts, labels, np.sort(np.concatenate(picked)))


def filter(
    acts: Any,
    labels: Any,
    *,
    at_least: int = 1,
    keep: Rule | None = None,
    classes: Collection[Any] | None = None,
    special: Literal["drop", "keep"] = "drop",
) -> RowSelection:
    """Drop rows without a label, special tokens, and rows excluded by the options.

    >>> filter(np.arange(8).reshape(4, 2), ["a", None, "b", "a"], at_least=2).labels
    ['a', 'a']

    Args:
        acts: activations, an array or a tensor.
        labels: one per row; None for rows without a label.
        at_least: drop classes with fewer rows.
        keep: keep only rows whose word matches this rule, as in `annotate`.
        classes: keep only rows with these labels.
        special: "keep" to keep rows of special tokens.
    """
    known = _as_list(labels, acts, hashable=False)
    mask = np.array([not is_missing(label) for label in known], bool)
    if isinstance(acts, Activations) and special == "drop":
        is_word = acts.word_index >= 0
        mask &= is_word if is_word.any() else True  # rows that stand for whole items have no word index either
    if keep is not None:
        if not isinstance(acts, Activations):
            raise InputError("keep= needs words, but an array has none: pass Activations.of(array, words=…).")
        matches = _matcher(keep, search=False, context=False)
        mask &= np.array([bool(matches([word], 0)) for word in acts.words], bool)
    if classes is not None:
        mask &= np.array([label in classes for label in known], bool)
    if at_least > 1:
        mask &= _is_frequent(known, mask, at_least)
    rows = np.flatnonzero(mask)
    if not len(rows):
        raise InputError(f"no rows left of {len(known):,}: relax the conditions.")
    return _select_rows(acts, labels, rows)


def _matcher(rule: Any, *, search: bool, context: bool) -> _Matcher:
    """Turn a rule into a function of a sentence and a word index."""
    if isinstance(rule, (str, re.Pattern)):
        try:
            pattern = re.compile(rule)
        except re.error as error:
            raise InputError(f"invalid regular expression {rule!r}: {error}.") from error
        match = pattern.search if search else pattern.match
        return lambda words, place: match(words[place]) is not None
    if callable(rule):
        return rule if context else lambda words, place: rule(words[place])
    if isinstance(rule, Collection):
        vocabulary = frozenset(rule)
        odd = [word for word in vocabulary if not isinstance(word, str)]
        if odd:
            raise InputTypeError(f"a vocabulary must contain strings, got {odd[0]!r}.")
        return lambda words, place: words[place] in vocabulary
    raise InputTypeError(f"a rule must be a vocabulary, a regular expression or a function, got {rule!r}.")


def _label(sentence: Sequence[str], place: int, rules: Mapping[Any, _Matcher], other: Any) -> Any:
    for label, matches in rules.items():
        outcome = matches(sentence, place)
        if isinstance(outcome, (bool, np.bool_, re.Match)):
            if outcome:
                return label
        elif outcome is not None:
            return outcome  # the function returned a label
    return other


def _check_coverage(labels_of_words: Sequence[Any], labels: Sequence[Any], other: Any, *, is_function: bool) -> None:
    """Raise for rules that match no word or every word: there would be only one class."""
    if not labels_of_words:
        raise InputError("got no words to label.")
    used = set(labels_of_words)
    if is_function and not used <= {*labels, other}:  # a function may return its own labels
        if len(used) == 1:
            raise InputError(f"the function labels all {len(labels_of_words):,} words {labels_of_words[0]!r}.")
        return
    for label in labels:
        if label not in used:
            which = f" for {label!r}" if len(labels) > 1 else ""
            raise InputError(f"the rule{which} matches none of {len(labels_of_words):,} words.")
    if len(used) == 1:
        raise InputError(f"the rule matches all {len(labels_of_words):,} words, so no word is {other!r}.")


def _sentences(words: Activations | Sequence[str]) -> list[list[str]]:
    """Words in row order, grouped by item."""
    if not isinstance(words, Activations):
        if isinstance(words, str) or any(not isinstance(word, str) for word in words):
            raise InputTypeError("words must be a flat list of strings, one per row: join lists of sentences first.")
        return [list(words)]
    rows = zip(words.items.tolist(), words.words, strict=True)
    return [[word for _, word in group] for _, group in groupby(rows, key=lambda row: row[0])]


def _array(labels: list[Any]) -> NDArray[Any]:
    if all(isinstance(label, str) for label in labels):
        return np.array(labels)
    array = np.empty(len(labels), object)
    array[:] = labels
    return array


def _as_list(labels: Any, acts: Any, *, hashable: bool = True) -> list[Any]:
    plain = labels.detach().cpu().numpy() if hasattr(labels, "detach") else labels
    known = list(plain.tolist() if hasattr(plain, "tolist") else plain)
    if acts is not None and len(known) != len(acts):
        raise InputError(f"got {len(known):,} labels for {len(acts):,} rows: pass one label per row.")
    if not known:
        raise InputError("got no labels.")
    if hashable:
        for row, label in enumerate(known):
            if is_missing(label):
                raise InputError(f"row {row} has no label: drop such rows with neurons.filter(acts, labels).")
            if isinstance(label, (set, list)):
                raise InputError(f"row {row} has several labels ({label!r}): balance() needs one class per row.")
    return known


def _is_frequent(known: Sequence[Any], mask: NDArray[np.bool_], at_least: int) -> NDArray[np.bool_]:
    """Which of the remaining rows have a label with at least `at_least` rows."""
    counts: dict[Any, int] = {}
    for label, is_kept in zip(known, mask.tolist(), strict=True):
        if is_kept:
            try:
                counts[label] = counts.get(label, 0) + 1
            except TypeError:
                raise InputError(f"at_least= counts rows per class, but the label {label!r} is not a class.") from None
    return np.array(
        [is_kept and counts[label] >= at_least for label, is_kept in zip(known, mask.tolist(), strict=True)]
    )


def _select_rows(acts: Any, labels: Any, rows: NDArray[np.int64]) -> RowSelection:
    rows.flags.writeable = False
    return RowSelection(_rows(acts, rows), _rows(labels, rows), rows)


def _rows(data: Any, rows: NDArray[np.int64]) -> Any:
    """Select rows of any row container, keeping its type."""
    if isinstance(data, Activations):
        return data.rows(rows)
    if isinstance(data, (list, tuple)):
        return type(data)(data[row] for row in rows.tolist())
    if hasattr(data, "iloc"):  # a column of a table
        return data.iloc[rows]
    if hasattr(data, "detach"):
        return data[rows.tolist()]
    return None if data is None else np.asarray(data)[as_indices(rows, len(data), "row")]
