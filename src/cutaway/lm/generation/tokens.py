"""Converts token ids to readable text, words and special tokens, for all kinds of tokenizers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from cutaway.core.errors import InputError
from cutaway.core.formatting import listed, short
from cutaway.results.lm.tokens import Segment, Tokens

_MOST_PARTS = 8
_BYTE = re.compile(r"<0x([0-9A-F]{2})>")


def _byte_letters() -> dict[str, int]:
    """The character for each byte in byte-level vocabularies (GPT-2); printable bytes stand for themselves."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters = {chr(byte): byte for byte in printable}
    others = (byte for byte in range(256) if byte not in printable)
    return letters | {chr(256 + i): byte for i, byte in enumerate(others)}


_LETTERS = _byte_letters()


class TokenReader:
    """Converts the token ids of one tokenizer.

    Args:
        tokenizer: a tokenizer of transformers; None shows ids as `<320>`.
        n: size of the model's vocabulary, if known.
    """

    def __init__(self, tokenizer: Any, n: int | None = None) -> None:
        self._tokenizer, self._n = tokenizer, n
        self._special = frozenset(getattr(tokenizer, "all_special_ids", None) or ())
        self._style = _style_of(tokenizer)

    def names(self, ids: Sequence[int]) -> tuple[str, ...]:
        """Tokens as the tokenizer writes them; `<320>` for ids it does not have."""
        if self._tokenizer is None:
            return tuple(f"<{number}>" for number in ids)
        size = len(self._tokenizer)
        # Embeddings are often padded to a round size, so a model may have more ids than its tokenizer.
        known = self._tokenizer.convert_ids_to_tokens([int(number) if number < size else 0 for number in ids])
        return tuple(
            f"<{number}>" if number >= size or name is None else str(name)
            for number, name in zip(ids, known, strict=True)
        )

    def pieces(self, ids: Sequence[int]) -> tuple[str, ...]:
        """The readable text of each token."""
        return tuple(self._piece(int(number), name) for number, name in zip(ids, self.names(ids), strict=True))

    def tokens(self, ids: Sequence[int], segments: Sequence[Segment] = ()) -> Tokens:
        """Everything known about a sequence of tokens."""
        numbers = [int(number) for number in ids]
        names = self.names(numbers)
        pieces = tuple(self._piece(number, name) for number, name in zip(numbers, names, strict=True))
        special = np.array([number in self._special for number in numbers], bool)
        words = self._words(names, pieces, special)
        return Tokens(np.array(numbers, np.int64), names, pieces, words, special, tuple(segments))

    def text(self, ids: Sequence[int]) -> str:
        """The decoded text of a sequence of tokens, without special tokens."""
        if self._tokenizer is None:
            return "".join(self.names(ids))
        size = len(self._tokenizer)
        known = [int(number) for number in ids if number < size]
        decoded: str = self._tokenizer.decode(known, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        return decoded

    def id_of(self, asked: str | int) -> int:
        """The id of a text that is exactly one token; raises otherwise."""
        if not isinstance(asked, str) and self._n is not None and int(asked) >= self._n:
            raise InputError(f"token {asked} is unknown: the model has {self._n:,}, counted from 0.")
        if self._tokenizer is None:
            if isinstance(asked, str) or int(asked) < 0:
                raise InputError(
                    f"token {asked!r} cannot be looked up without a tokenizer: give its id, or a tokenizer."
                )
            return int(asked)
        size = len(self._tokenizer)
        if not isinstance(asked, str):
            if not 0 <= int(asked) < size:
                raise InputError(f"token {asked} is unknown: the tokenizer has {size:,}, counted from 0.")
            return int(asked)
        ids = self._tokenizer(asked, add_special_tokens=False)["input_ids"]
        unknown = getattr(self._tokenizer, "unk_token_id", None)
        # A word that is not in the vocabulary becomes one unknown token, which is not what was asked for.
        if len(ids) == 1 and ids[0] != unknown:
            return int(ids[0])
        # As the tokenizer writes it: "Ġcat", "##s".
        written = self._tokenizer.get_vocab().get(asked)
        if written is not None:
            return int(written)
        if not ids or unknown in ids:
            raise InputError(f"{asked!r} is not in this tokenizer's vocabulary: give another token, by text or id.")
        parts = listed(map(repr, self.pieces(ids)), _MOST_PARTS)
        raise InputError(
            f"{short(asked)!r} is {len(ids)} tokens: {parts}. Give one of these; most words begin with a space."
        )

    def _piece(self, number: int, name: str) -> str:
        if number in self._special or (name.startswith("<") and name == f"<{number}>"):
            return name
        if self._style == "bytes" and all(letter in _LETTERS for letter in name):
            return bytes(_LETTERS[letter] for letter in name).decode("utf-8", "backslashreplace")
        if self._style == "wordpiece":
            return name.removeprefix("##")
        escape = _BYTE.fullmatch(name)
        if escape:
            byte = int(escape[1], 16)
            return chr(byte) if byte < 128 else f"\\x{byte:02x}"
        return name.replace("▁", " ")

    def _words(self, names: Sequence[str], pieces: Sequence[str], special: Any) -> Any:
        """The word number of each token. A word starts at a space, at a special token, or as the style says."""
        words, word = np.zeros(len(names), np.int64), -1
        for i, (name, piece) in enumerate(zip(names, pieces, strict=True)):
            if self._style == "wordpiece":
                begins = not name.startswith("##")
            else:
                before = pieces[i - 1] if i else ""  # a token that is only a space belongs to the next word
                begins = piece[:1].isspace() or (before[-1:].isspace() and bool(before.strip()))
            if i == 0 or begins or special[i] or special[i - 1]:
                word += 1
            words[i] = word
        return words


def _style_of(tokenizer: Any) -> str:
    """How a vocabulary marks spaces and word parts: "bytes", "wordpiece" or "marked"."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    kind = type(getattr(backend, "model", None)).__name__
    decoder = repr(getattr(backend, "decoder", None))
    if kind == "WordPiece":
        return "wordpiece"
    if "ByteLevel" in decoder:
        return "bytes"
    if backend is None and hasattr(tokenizer, "byte_decoder"):
        return "bytes"
    if backend is None and hasattr(tokenizer, "wordpiece_tokenizer"):
        return "wordpiece"
    return "marked"
