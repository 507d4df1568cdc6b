"""Labels of sentences, of words in lists and of spans, as one label for each row of activations."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from cutaway.core.errors import InputError
from cutaway.store.activations.activations import Activations

_MOST_NAMED: Final = 5
Labels = list[Any]


@dataclass(frozen=True, slots=True)
class Span:
    """Some words of an item that follow each other, and what they are.

    >>> Span(2, 4, "PERSON")
    Span(start=2, stop=4, label='PERSON')
    """

    start: int
    """The first word."""
    stop: int
    """The word behind the last one."""
    label: Any


def sentence_labels(acts: Activations, labels: Sequence[Any]) -> Labels:
    """The label of each row's sentence, or whatever the items are.

    >>> acts = Activations.of([[0.1], [0.2], [0.3]], words=[["good", "film"], ["bad"]])
    >>> sentence_labels(acts, ["positive", "negative"])
    ['positive', 'positive', 'negative']
    """
    known = _as_list(labels)
    if len(known) != acts.n_items:
        raise InputError(f"{len(known):,} labels for {acts.n_items:,} items: each sentence or sample has one.")
    return [known[item] for item in acts.items.tolist()]


def token_labels(acts: Activations, labels: Sequence[Sequence[Any]]) -> Labels:
    """The label of each row's word, out of one list for each item; None for special tokens.

    Words that were cut off with the end of a long sentence lose their labels with them. All items whose labels do not
    fit are named.

    >>> acts = Activations.of([[0.1], [0.2], [0.3]], words=[["good", "film"], ["bad"]])
    >>> token_labels(acts, [["ADJ", "NOUN"], ["ADJ"]])
    ['ADJ', 'NOUN', 'ADJ']
    """
    known = [_as_list(one) for one in labels]
    if len(known) != acts.n_items:
        raise InputError(f"labels of {len(known):,} items, and there are {acts.n_items:,}.")
    is_reported = {problem.item for problem in acts.problems}
    wrong = [
        f"item {item} ({len(own):,} labels, {n:,} words)"
        for item, (own, n) in enumerate(zip(known, acts.n_words.tolist(), strict=True))
        if n > len(own) or (n < len(own) and item not in is_reported)
    ]
    if wrong:
        raise InputError(f"the labels of {_named(wrong, acts.n_items)} do not fit the words: {_some(wrong)}.")
    pairs = zip(acts.items.tolist(), acts.word_index.tolist(), strict=True)
    return [known[item][word] if word >= 0 else None for item, word in pairs]


def span_labels(
    acts: Activations,
    spans: Sequence[Sequence[Span | tuple[int, int, Any]]] | Mapping[int, Sequence[Span | tuple[int, int, Any]]],
    *,
    outside: Any = None,
    several: bool = False,
) -> Labels:
    """The label of the span that each row's word lies in.

    >>> acts = Activations.of([[0.1], [0.2], [0.3]], words=[["Ada", "Lovelace", "wrote"]])
    >>> span_labels(acts, [[(0, 2, "PERSON")]], outside="O")
    ['PERSON', 'PERSON', 'O']

    Args:
        spans: the spans of each item, in a list for each or by its number; words count from 0, `stop` is behind the
            last one.
        outside: the label of words that lie in no span; None leaves them without one.
        several: spans may overlap: each row gets the set of its labels.
    """
    by_item = dict(spans.items()) if isinstance(spans, Mapping) else dict(enumerate(spans))
    if not isinstance(spans, Mapping) and len(by_item) != acts.n_items:
        raise InputError(f"spans of {len(by_item):,} items, and there are {acts.n_items:,}.")
    found: dict[tuple[int, int], list[Any]] = {}
    for item, own in by_item.items():
        if type(item) is not int or not 0 <= item < acts.n_items:
            raise InputError(f"spans of item {item!r}, and there are {acts.n_items:,} items.")
        for one in own:
            span = _span(one, item)
            for word in range(span.start, span.stop):
                found.setdefault((item, word), []).append(span.label)
    twice = [place for place, labels in found.items() if len(labels) > 1]
    if twice and not several:
        item, word = twice[0]
        raise InputError(
            f"{len(twice):,} words lie in several spans, the first of them word {word} of item {item}: "
            "several=True gives each the set of its labels."
        )
    _warn_about_missing(acts, found)
    places = list(zip(acts.items.tolist(), acts.word_index.tolist(), strict=True))
    if several:
        none = set() if outside is None else {outside}
        return [set(found.get(place, none)) for place in places]
    return [found[place][0] if place in found else outside for place in places]


def _span(one: Any, item: int) -> Span:
    try:
        span = one if isinstance(one, Span) else Span(*one)
    except TypeError:
        raise InputError(f"a span is (start, stop, label), not {one!r} (item {item}).") from None
    if type(span.start) is not int or type(span.stop) is not int or not 0 <= span.start < span.stop:
        raise InputError(f"item {item}: a span from word {span.start!r} to before word {span.stop!r} covers no word.")
    return span


def _warn_about_missing(acts: Activations, found: Mapping[tuple[int, int], Any]) -> None:
    """Say aloud which labels of spans meet no row: of words that were cut off, or are not there."""
    there = set(zip(acts.items.tolist(), acts.word_index.tolist(), strict=True))
    missing = [f"word {word} of item {item}" for item, word in found if (item, word) not in there]
    if missing:
        message = f"{len(missing):,} words of spans have no row, and their labels are left out: {_some(missing)}."
        warnings.warn(message, UserWarning, stacklevel=3)


def _as_list(labels: Any) -> list[Any]:
    if isinstance(labels, str):
        raise InputError(f"labels come in a list, not as the text {labels[:40]!r}: labels.split() parts it.")
    if hasattr(labels, "detach"):
        labels = labels.detach().cpu().numpy()
    return list(labels.tolist() if hasattr(labels, "tolist") else labels)


def _some(named: Sequence[str]) -> str:
    more = f" and {len(named) - _MOST_NAMED:,} more" if len(named) > _MOST_NAMED else ""
    return ", ".join(named[:_MOST_NAMED]) + more


def _named(wrong: Sequence[str], n_items: int) -> str:
    return f"{len(wrong):,} of {n_items:,} items"
