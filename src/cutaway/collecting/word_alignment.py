"""Aligns words with tokens without offsets, for slow tokenizers.

First each word is tokenized alone. If that gives the tokens of the sentence, spans follow from the counts. Otherwise
tokens are aligned with the text letter by letter, by dynamic programming with the fewest skipped letters. Tokens
without letters (unknown tokens, parts of a character) take the words between their neighbors. If these are several
words and it is ambiguous which token belongs to which, none of them gets a token.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass

_LETTER_COST = 2
_TOKEN_COST = 3
_INFINITY = 1 << 60
_MARKERS = ("</w>", "@@")
_REPLACEMENT = "\ufffd"

Spans = list[tuple[int, int] | None]
"""The first and last token of each word; None for a word without tokens."""


@dataclass(frozen=True, slots=True)
class SubwordFunctions:
    """Two functions of a tokenizer."""

    split: Callable[[str], Sequence[str]]
    """Text → its tokens, without special ones."""
    surface: Callable[[str], str]
    """Token → the text it stands for; "" for an unknown token."""


def align_words(words: Sequence[str], tokens: Sequence[str], functions: SubwordFunctions) -> Spans:
    """The token span of each word of a sentence.

    >>> tokens = {"qu'": ["qu'</w>"], "on": ["on</w>"]}
    >>> functions = SubwordFunctions(lambda text: tokens.get(text.strip(), []), strip_markers)
    >>> align_words(["qu'", "on"], ["qu</w>", "'</w>", "on</w>"], functions)
    [(0, 1), (2, 2)]
    """
    return _align_by_counts(words, tokens, functions) or _align_by_letters(words, tokens, functions)


def strip_markers(token: str) -> str:
    """A token without the markers of its tokenizer.

    >>> strip_markers("##ing"), strip_markers("ing</w>"), strip_markers("▁the"), strip_markers("##")
    ('ing', 'ing', 'the', '##')
    """
    if token.startswith("##") and len(token) > 2:
        token = token[2:]
    for marker in _MARKERS:
        if token.endswith(marker) and len(token) > len(marker):
            token = token[: -len(marker)]
    return token.replace("▁", " ").strip()


def _align_by_counts(words: Sequence[str], tokens: Sequence[str], functions: SubwordFunctions) -> Spans | None:
    """Spans from token counts, if tokenizing each word alone gives the same tokens."""
    for space in ("", " "):
        split = [
            list(functions.split(word if i == 0 else space + word)) if word else [] for i, word in enumerate(words)
        ]
        if [token for part in split for token in part] == list(tokens):
            return _consecutive_spans([len(part) for part in split], 0)
    return None


def _consecutive_spans(counts: Sequence[int], start: int) -> Spans:
    spans: Spans = []
    for n in counts:
        spans.append((start, start + n - 1) if n else None)
        start += n
    return spans


def _align_by_letters(words: Sequence[str], tokens: Sequence[str], functions: SubwordFunctions) -> Spans:
    text = [(letter, i) for i, word in enumerate(words) for letter in _normalize(word)]
    surfaces = ["" if _REPLACEMENT in surface else _normalize(surface) for surface in map(functions.surface, tokens)]
    places = _place_tokens("".join(letter for letter, _ in text), surfaces)
    owners: list[set[int]] = [set() for _ in words]
    for token, place in enumerate(places):
        if surfaces[token] and place is not None:
            for _, word in text[place : place + len(surfaces[token])]:
                owners[word].add(token)
    for first, last in _runs_without_letters(surfaces):
        _assign_tokens(
            range(first, last + 1), _words_between(first, last, places, surfaces, text), owners, words, functions
        )
    return [(min(tokens_of_word), max(tokens_of_word)) if tokens_of_word else None for tokens_of_word in owners]


def _normalize(word: str) -> str:
    """Letters as most tokenizers see them: without case, accents, white space and unprintable characters."""
    decomposed = unicodedata.normalize("NFKD", word).casefold()
    return "".join(c for c in decomposed if unicodedata.category(c) not in ("Mn", "Cf", "Cc") and not c.isspace())


def _place_tokens(text: str, surfaces: Sequence[str]) -> list[int | None]:
    """Where in the text each token begins, at the lowest cost; None for a token that matches nowhere.

    A token without letters takes any number of letters at no cost.
    """
    # Quadratic, but only for slow tokenizers whose token counts do not match the words.
    n = len(text)
    # costs[token][letter]: lowest cost of aligning tokens from this one on with the text from this letter on
    costs = [[_INFINITY] * (n + 1) for _ in range(len(surfaces) + 1)]
    costs[-1] = [_LETTER_COST * (n - at) for at in range(n + 1)]
    for i in range(len(surfaces) - 1, -1, -1):
        surface, below, here = surfaces[i], costs[i + 1], costs[i]
        for at in range(n, -1, -1):
            best = below[at] if not surface else below[at] + _TOKEN_COST
            if surface and text.startswith(surface, at):
                best = min(best, below[at + len(surface)])
            if at < n:
                best = min(best, here[at + 1] + (_LETTER_COST if surface else 0))
            here[at] = best
    places: list[int | None] = []
    at = 0
    for i, surface in enumerate(surfaces):
        below, here = costs[i + 1], costs[i]
        if not surface:
            places.append(at)
            while at < n and here[at] != below[at]:
                at += 1
            continue
        while True:
            if text.startswith(surface, at) and here[at] == below[at + len(surface)]:
                places.append(at)
                at += len(surface)
                break
            if here[at] == below[at] + _TOKEN_COST:
                places.append(None)
                break
            at += 1
    return places


def _runs_without_letters(surfaces: Sequence[str]) -> list[tuple[int, int]]:
    """First and last token of each run of tokens without letters."""
    spans: list[tuple[int, int]] = []
    for i, surface in enumerate(surfaces):
        if not surface:
            if spans and spans[-1][1] == i - 1:
                spans[-1] = (spans[-1][0], i)
            else:
                spans.append((i, i))
    return spans


def _words_between(
    first: int, last: int, places: Sequence[int | None], surfaces: Sequence[str], text: Sequence[tuple[str, int]]
) -> list[int]:
    """The words of the letters between the neighbors of a run of tokens."""
    start = next((p + len(surfaces[i]) for i in range(first - 1, -1, -1) if (p := places[i]) is not None), 0)
    stop = next((p for p in places[last + 1 :] if p is not None), len(text))
    return list(dict.fromkeys(word for _, word in text[start:stop]))


def _assign_tokens(
    tokens: range, candidates: list[int], owners: list[set[int]], words: Sequence[str], functions: SubwordFunctions
) -> None:
    """Assign tokens without letters to words, where that is unambiguous."""
    if len(candidates) == 1:
        owners[candidates[0]].update(tokens)
    elif candidates and not any(owners[word] for word in candidates):
        counts = [len(functions.split(words[word])) for word in candidates]
        # In context a word may split differently than alone; one token per word is the other common case.
        if sum(counts) != len(tokens):
            counts = [1] * len(candidates)
        if sum(counts) == len(tokens):
            for word, span in zip(candidates, _consecutive_spans(counts, tokens.start), strict=True):
                if span is not None:
                    owners[word].update(range(span[0], span[1] + 1))
