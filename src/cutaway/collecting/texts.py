"""Text as it was handed in: sentences, pre-split words and pairs, each word with its place in the text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from cutaway.core.errors import InputError

_WORD = re.compile(r"\S+")
_HOW = "a sentence is a text or a list of words, a pair of sentences is a tuple of two of these"


@dataclass(frozen=True, slots=True)
class Text:
    """One sentence: its text, its words, and the characters at which each of them begins and ends."""

    text: str
    words: tuple[str, ...]
    spans: tuple[tuple[int, int], ...]

    @staticmethod
    def of(given: str | Sequence[str]) -> Text:
        """A text is split at white space, however much of it; given words are joined by single spaces.

        >>> Text.of("a  b").words, Text.of(["a", "", "b"]).text
        (('a', 'b'), 'a  b')
        """
        if isinstance(given, str):
            found = [(match.group(), match.span()) for match in _WORD.finditer(given)]
            return Text(given, tuple(word for word, _ in found), tuple(span for _, span in found))
        spans, start = [], 0
        for word in given:
            spans.append((start, start + len(word)))
            start += len(word) + 1
        return Text(" ".join(given), tuple(given), tuple(spans))


def read_texts(item: Any, number: int) -> tuple[Text, ...]:
    """The sentence, or the two sentences, of one item.

    >>> [text.words for text in read_texts(("a b", ["c"]), 0)]
    [('a', 'b'), ('c',)]
    """
    if isinstance(item, str):
        return (Text.of(item),)
    if isinstance(item, tuple):
        if len(item) != 2:
            raise InputError(f"item {number} is a tuple of {len(item)}: {_HOW}.")
        return tuple(_read_one(part, number) for part in item)
    return (_read_one(item, number),)


def _read_one(given: Any, number: int) -> Text:
    if isinstance(given, str):
        return Text.of(given)
    if isinstance(given, Sequence) or hasattr(given, "tolist"):
        words = given.tolist() if hasattr(given, "tolist") else list(given)
        if all(isinstance(word, str) for word in words):
            return Text.of(words)
    raise InputError(f"item {number} is {_short(given)}, a {type(given).__name__}: {_HOW}.")


def _short(value: Any) -> str:
    said = repr(value)
    return said if len(said) < 60 else f"{said[:60]}…"
