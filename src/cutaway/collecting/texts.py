"""Parses text items: sentences, pre-split words and sentence pairs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from cutaway.core.errors import InputError, InputTypeError
from cutaway.core.formatting import clipped, type_text

_WORD = re.compile(r"\S+")
_ACCEPTED = "pass a sentence as a string or a list of words, a pair as a tuple of two sentences"


@dataclass(frozen=True, slots=True)
class Text:
    """One sentence: its text, its words, and the character span of each word."""

    text: str
    words: tuple[str, ...]
    spans: tuple[tuple[int, int], ...]

    @staticmethod
    def of(value: str | Sequence[str]) -> Text:
        """Split a string at white space, or join a list of words with single spaces.

        >>> Text.of("a  b").words, Text.of(["a", "", "b"]).text
        (('a', 'b'), 'a  b')
        """
        if isinstance(value, str):
            matches = list(_WORD.finditer(value))
            return Text(value, tuple(match.group() for match in matches), tuple(match.span() for match in matches))
        spans, start = [], 0
        for word in value:
            spans.append((start, start + len(word)))
            start += len(word) + 1
        return Text(" ".join(value), tuple(value), tuple(spans))


def read_texts(item: Any, number: int) -> tuple[Text, ...]:
    """Parse one item: a sentence, or a pair of sentences.

    >>> [text.words for text in read_texts(("a b", ["c"]), 0)]
    [('a', 'b'), ('c',)]
    """
    if isinstance(item, str):
        return (Text.of(item),)
    if isinstance(item, tuple):
        if len(item) != 2:
            raise InputError(f"item {number} is a tuple of {len(item)}: {_ACCEPTED}.")
        return tuple(_read_text(part, number) for part in item)
    return (_read_text(item, number),)


def _read_text(value: Any, number: int) -> Text:
    if isinstance(value, str):
        return Text.of(value)
    if isinstance(value, Sequence) or hasattr(value, "tolist"):
        words = value.tolist() if hasattr(value, "tolist") else list(value)
        if all(isinstance(word, str) for word in words):
            return Text.of(words)
    raise InputTypeError(f"item {number} is {_short(value)}, {type_text(value)}: {_ACCEPTED}.")


def _short(value: Any) -> str:
    return clipped(repr(value), 60)
