"""Labels made by a rule, a vocabulary, a regular expression or a function; and rows chosen by their labels."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import groupby
from typing import Any, Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cutaway.core.errors import InputError
from cutaway.neurons.labels.labels import sorted_labels
from cutaway.store.activations.activations import Activations
from cutaway.store.activations.unit_selection import as_indices

POSITIVE: Final = "positive"
NEGATIVE: Final = "negative"
Rule = Collection[str] | str | re.Pattern[str] | Callable[..., Any]
"""A vocabulary; a regular expression; a function of a word (with `context=True`, of all words and a place)."""
_Matcher = Callable[[Sequence[str], int], Any]


def annotate(
    words: Activations | Sequence[str],
    rule: Rule | Mapping[Any, Rule],
    *,
    search: bool = False,
    other: Any = NEGATIVE,
    context: bool = False,
) -> NDArray[Any]:
    """A label for each row, by a rule on its word.

    >>> annotate(["2004", "this", "1999"], r"[0-9]{4}$").tolist()
    ['positive', 'negative', 'positive']
    >>> annotate(["run", "runs", "running"], {"ing": r".*ing$", "s": r".*s$"}, other="none").tolist()
    ['none', 's', 'ing']

    Args:
        words: activations, or the words themselves.
        rule: a collection of words; a regular expression, as text or compiled; or a function of a word that says
            whether it is meant, or gives its label. By label in a mapping for more than two classes: the first
            rule that fits counts.
        search: whether a regular expression may fit anywhere in the word, not only from its start.
        other: the label of words that no rule fits.
        context: whether functions get all words of the sentence and the place of the one in question.
    """
    sentences = _sentences(words)
    rules = rule if isinstance(rule, Mapping) else {POSITIVE: rule}
    if not rules:
        raise InputError("there is no rule.")
    matchers = {label: _matcher(one, search=search, context=context) for label, one in rules.items()}
    if other in rules:
        raise InputError(f"{other!r} is the label of a rule and of the words that none fits: give another as other=.")
    found = [_label(sentence, place, matchers, other) for sentence in sentences for place in range(len(sentence))]
    _check_used(found, list(rules), other, is_own=not isinstance(rule, Mapping) and callable(rule))
    return _array(found)


class Selection(NamedTuple):
    """Rows that were chosen, with their labels."""

    acts: Any
    """Of the type that was handed in."""
    labels: Any
    rows: NDArray[np.int64]
    """Their numbers, in the order they had."""


def balance(acts: Any, labels: Any, *, total: int | None = None, seed: int = 0) -> Selection:
    """Leave rows out at random, so that every class has as many as the smallest.

    >>> balance(np.arange(8).reshape(4, 2), ["a", "b", "b", "b"]).labels
    ['a', 'b']

    Args:
        acts: activations, an array or a tensor.
        total: keep the shares of the classes instead, and about so many rows: of each class its share, rounded up.
    """
    known = _as_list(labels, acts)
    classes = sorted_labels(known)
    numbers = {label: number for number, label in enumerate(classes)}
    codes = np.fromiter((numbers[label] for label in known), np.int64, len(known))
    counts = np.bincount(codes, minlength=len(classes))
    if len(classes) < 2:
        raise InputError(f"all {len(known):,} labels are {classes[0]!r}: there is nothing to balance.")
    if total is None:
        wanted = np.full(len(classes), counts.min())
    elif type(total) is not int or not len(classes) <= total <= len(known):
        raise InputError(f"total={total!r}: there are {len(known):,} rows of {len(classes)} classes to choose from.")
    else:
        wanted = np.array([-(-count * total // len(known)) for count in counts.tolist()])  # rounded up
    generator = np.random.default_rng(seed)
    picked = [
        generator.choice(np.flatnonzero(codes == number), int(n), replace=False) for number, n in enumerate(wanted)
    ]
    return _select(acts, labels, np.sort(np.concatenate(picked)))


def filter(
    acts: Any,
    labels: Any,
    *,
    at_least: int = 1,
    keep: Rule | None = None,
    classes: Collection[Any] | None = None,
    special: Literal["drop", "keep"] = "drop",
) -> Selection:
    """Leave out rows without a label, special tokens, and whatever else is named.

    >>> filter(np.arange(8).reshape(4, 2), ["a", None, "b", "a"], at_least=2).labels
    ['a', 'a']

    Args:
        acts: activations, an array or a tensor.
        at_least: leave out classes with fewer rows than this.
        keep: keep only rows whose word fits this rule, as in `annotate`.
        classes: keep only rows with these labels.
        special: "keep" where rows of special tokens, which are no words, stay.
    """
    known = _as_list(labels, acts, hashable=False)
    mask = np.array([not _is_missing(label) for label in known], bool)
    if isinstance(acts, Activations) and special == "drop":
        is_word = acts.word_index >= 0
        mask &= is_word if is_word.any() else True  # rows for whole items are no special tokens
    if keep is not None:
        if not isinstance(acts, Activations):
            raise InputError("keep= is a rule on words, and an array has none: Activations.of(array, words=…) has.")
        matchers = _matcher(keep, search=False, context=False)
        mask &= np.array([bool(matchers([word], 0)) for word in acts.words], bool)
    if classes is not None:
        mask &= np.array([label in classes for label in known], bool)
    if at_least > 1:
        mask &= _is_frequent(known, mask, at_least)
    rows = np.flatnonzero(mask)
    if not len(rows):
        raise InputError(f"none of {len(known):,} rows is left: fewer conditions leave more.")
    return _select(acts, labels, rows)


# rules


def _matcher(rule: Any, *, search: bool, context: bool) -> _Matcher:
    """A function of a sentence and a place in it."""
    if isinstance(rule, (str, re.Pattern)):
        try:
            pattern = re.compile(rule)
        except re.error as error:
            raise InputError(f"{rule!r} is no regular expression: {error}.") from error
        match = pattern.search if search else pattern.match
        return lambda words, place: match(words[place]) is not None
    if callable(rule):
        return rule if context else lambda words, place: rule(words[place])
    if isinstance(rule, Collection):
        vocabulary = frozenset(rule)
        odd = [word for word in vocabulary if not isinstance(word, str)]
        if odd:
            raise InputError(f"a vocabulary holds words, not {odd[0]!r}.")
        return lambda words, place: words[place] in vocabulary
    raise InputError(f"a rule is a vocabulary, a regular expression or a function, not {rule!r}.")


def _label(sentence: Sequence[str], place: int, rules: Mapping[Any, _Matcher], other: Any) -> Any:
    for label, matchers in rules.items():
        found = matchers(sentence, place)
        if isinstance(found, (bool, np.bool_, re.Match)):
            if found:
                return label
        elif found is not None:
            return found  # the label itself
    return other


def _check_used(found: Sequence[Any], labels: Sequence[Any], other: Any, *, is_own: bool) -> None:
    """Refuse a rule that fits nothing, or everything: no class would be left to compare with."""
    if not found:
        raise InputError("there are no words to label.")
    used = set(found)
    if is_own and not used <= {*labels, other}:  # a function may give labels of its own
        if len(used) == 1:
            raise InputError(f"the function gives all {len(found):,} words the label {found[0]!r}.")
        return
    for label in labels:
        if label not in used:
            of = f" of {label!r}" if len(labels) > 1 else ""
            raise InputError(f"the rule{of} fits none of {len(found):,} words: nothing would be labelled so.")
    if len(used) == 1:
        raise InputError(f"the rule fits all {len(found):,} words: none would be {other!r}.")


def _sentences(words: Activations | Sequence[str]) -> list[list[str]]:
    """Words in the order of the rows, those of one item together."""
    if not isinstance(words, Activations):
        if isinstance(words, str) or any(not isinstance(word, str) for word in words):
            raise InputError("words are a list of texts, one a row; join the lists of sentences first.")
        return [list(words)]
    rows = zip(words.items.tolist(), words.words, strict=True)
    return [[word for _, word in group] for _, group in groupby(rows, key=lambda row: row[0])]


def _array(labels: list[Any]) -> NDArray[Any]:
    if all(isinstance(label, str) for label in labels):
        return np.array(labels)
    found = np.empty(len(labels), object)
    found[:] = labels
    return found


# rows


def _as_list(labels: Any, acts: Any, *, hashable: bool = True) -> list[Any]:
    plain = labels.detach().cpu().numpy() if hasattr(labels, "detach") else labels
    known = list(plain.tolist() if hasattr(plain, "tolist") else plain)
    if acts is not None and len(known) != len(acts):
        raise InputError(f"{len(known):,} labels for {len(acts):,} rows: each row has one.")
    if not known:
        raise InputError("there are no labels.")
    if hashable:
        for row, label in enumerate(known):
            if _is_missing(label):
                raise InputError(f"row {row} has no label: `neurons.filter(acts, labels)` leaves such rows out.")
            if isinstance(label, (set, list)):
                raise InputError(f"row {row} has several labels ({label!r}): only classes can be balanced.")
    return known


def _is_missing(label: Any) -> bool:
    return label is None or (isinstance(label, float) and math.isnan(label)) or type(label).__name__ == "NAType"


def _is_frequent(known: Sequence[Any], mask: NDArray[np.bool_], at_least: int) -> NDArray[np.bool_]:
    """Which rows have a label that occurs often enough among those that are left."""
    counts: dict[Any, int] = {}
    for label, is_kept in zip(known, mask.tolist(), strict=True):
        if is_kept:
            try:
                counts[label] = counts.get(label, 0) + 1
            except TypeError:
                raise InputError(f"at_least= counts classes, and {label!r} is none.") from None
    return np.array(
        [is_kept and counts[label] >= at_least for label, is_kept in zip(known, mask.tolist(), strict=True)]
    )


def _select(acts: Any, labels: Any, rows: NDArray[np.int64]) -> Selection:
    rows.flags.writeable = False
    return Selection(_rows(acts, rows), _rows(labels, rows), rows)


def _rows(data: Any, rows: NDArray[np.int64]) -> Any:
    """Some of the rows of whatever it is, as the same type."""
    if isinstance(data, Activations):
        return data.rows(rows)
    if isinstance(data, (list, tuple)):
        return type(data)(data[row] for row in rows.tolist())
    if hasattr(data, "iloc"):  # a column of a table
        return data.iloc[rows]
    if hasattr(data, "detach"):
        return data[rows.tolist()]
    return None if data is None else np.asarray(data)[as_indices(rows, len(data), "row")]
