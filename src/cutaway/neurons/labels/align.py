"""Converts labels of sentences, words and spans to one label per row of activations."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from cutaway.core.errors import InputError, InputTypeError
from cutaway.core.formatting import listed, plural
from cutaway.store.activations.activations import Activations

_MOST_NAMED: Final = 5
Labels = list[Any]


@dataclass(frozen=True, slots=True)
class Span:
    """Consecutive words of an item with a label.

    >>> Span(2, 4, "PERSON")
    Span(start=2, stop=4, label='PERSON')
    """

    start: int
    """Index of the first word."""
    stop: int
    """Index after the last word."""
    label: Any


def sentence_labels(acts: Activations, labels: Sequence[Any]) -> Labels:
    """One label per row: the label of its sentence (or item).

    >>> acts = Activations.of([[0.1], [0.2], [0.3]], words=[["good", "film"], ["bad"]])
    >>> sentence_labels(acts, ["positive", "negative"])
    ['positive', 'positive', 'negative']

    Args:
        acts: the result of `cutaway.collect`.
        labels: one per sentence or sample, in the order of the data.
    """
    known = _as_list(labels)
    if len(known) != acts.n_items:
        raise InputError(
            f"got {len(known):,} labels for {acts.n_items:,} items: pass one label per sentence or sample."
        )
    return [known[item] for item in acts.items.tolist()]


def token_labels(acts: Activations, labels: Sequence[Sequence[Any]]) -> Labels:
    """One label per row: the label of its word, from one list per item; None for special tokens.

    Labels of truncated words are dropped. The error names all items whose labels do not fit.

    >>> acts = Activations.of([[0.1], [0.2], [0.3]], words=[["good", "film"], ["bad"]])
    >>> token_labels(acts, [["ADJ", "NOUN"], ["ADJ"]])
    ['ADJ', 'NOUN', 'ADJ']

    Args:
        acts: the result of `cutaway.collect`, with words.
        labels: one list per item, with one label per word.
    """
    known = [_as_list(labels_of_item) for labels_of_item in labels]
    if len(known) != acts.n_items:
        raise InputError(f"got labels of {len(known):,} items, but there are {acts.n_items:,} items.")
    is_reported = {problem.item for problem in acts.problems}
    wrong = [
        f"item {item} ({plural(len(item_labels), 'label')}, {plural(n, 'word')})"
        for item, (item_labels, n) in enumerate(zip(known, acts.n_words.tolist(), strict=True))
        if n > len(item_labels) or (n < len(item_labels) and item not in is_reported)
    ]
    if wrong:
        raise InputError(
            f"labels of {len(wrong):,} of {acts.n_items:,} items do not fit the words: {listed(wrong, _MOST_NAMED)}."
        )
    pairs = zip(acts.items.tolist(), acts.word_index.tolist(), strict=True)
    return [known[item][word] if word >= 0 else None for item, word in pairs]


def span_labels(
    acts: Activations,
    spans: Sequence[Sequence[Span | tuple[int, int, Any]]] | Mapping[int, Sequence[Span | tuple[int, int, Any]]],
    *,
    outside: Any = None,
    several: bool = False,
) -> Labels:
    """One label per row: the label of the span that contains its word.

    >>> acts = Activations.of([[0.1], [0.2], [0.3]], words=[["Ada", "Lovelace", "wrote"]])
    >>> span_labels(acts, [[(0, 2, "PERSON")]], outside="O")
    ['PERSON', 'PERSON', 'O']

    Args:
        acts: the result of `cutaway.collect`, with words.
        spans: the spans of each item, as one list per item or a mapping by item index. Words count from 0; `stop` is
            exclusive.
        outside: the label of words outside all spans; default: None.
        several: allow overlapping spans; each row gets the set of its labels.
    """
    by_item = dict(spans.items()) if isinstance(spans, Mapping) else dict(enumerate(spans))
    if not isinstance(spans, Mapping) and len(by_item) != acts.n_items:
        raise InputError(f"got spans of {len(by_item):,} items, but there are {acts.n_items:,} items.")
    labels_by_word: dict[tuple[int, int], list[Any]] = {}
    for item, item_spans in by_item.items():
        if type(item) is not int or not 0 <= item < acts.n_items:
            raise InputError(f"got spans of item {item!r}, but there are {acts.n_items:,} items, counted from 0.")
        for given in item_spans:
            span = _span(given, item)
            for word in range(span.start, span.stop):
                labels_by_word.setdefault((item, word), []).append(span.label)
    twice = [place for place, labels in labels_by_word.items() if len(labels) > 1]
    if twice and not several:
        item, word = twice[0]
        raise InputError(
            f"{plural(len(twice), 'word')} in several spans, first word {word} of item {item}: pass several=True to "
            "get the set of labels of each word."
        )
    _warn_about_missing(acts, labels_by_word)
    places = list(zip(acts.items.tolist(), acts.word_index.tolist(), strict=True))
    if several:
        none = set() if outside is None else {outside}
        return [set(labels_by_word.get(place, none)) for place in places]
    return [labels_by_word[place][0] if place in labels_by_word else outside for place in places]


def _span(given: Any, item: int) -> Span:
    try:
        span = given if isinstance(given, Span) else Span(*given)
    except TypeError:
        raise InputTypeError(f"item {item}: a span must be (start, stop, label), got {given!r}.") from None
    if type(span.start) is not int or type(span.stop) is not int or not 0 <= span.start < span.stop:
        raise InputError(f"item {item}: the span from {span.start!r} to {span.stop!r} covers no word.")
    return span


def _warn_about_missing(acts: Activations, labels_by_word: Mapping[tuple[int, int], Any]) -> None:
    """Warn about words of spans that have no row because they were truncated or do not exist."""
    known_words = set(zip(acts.items.tolist(), acts.word_index.tolist(), strict=True))
    missing = [f"word {word} of item {item}" for item, word in labels_by_word if (item, word) not in known_words]
    if missing:
        message = (
            f"{plural(len(missing), 'word')} of spans without a row, labels dropped: {listed(missing, _MOST_NAMED)}."
        )
        warnings.warn(message, UserWarning, stacklevel=3)


def _as_list(labels: Any) -> list[Any]:
    if isinstance(labels, str):
        raise InputTypeError(f"labels must be a list, got the text {labels[:40]!r}: use labels.split().")
    if hasattr(labels, "detach"):
        labels = labels.detach().cpu().numpy()
    return list(labels.tolist() if hasattr(labels, "tolist") else labels)
