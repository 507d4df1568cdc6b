"""`Tokens`, `Steps` and `Beams`: what a model read and chose, with the scores of each choice."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from cutaway.results.result import make_read_only

Role = Literal["encoder", "decoder"]
"""A stack of blocks of a language model; a model with one stack has a decoder."""
_BYTES = re.compile(r"(?:\\x[89a-f][0-9a-f]){2,}")


@dataclass(frozen=True, slots=True)
class Segment:
    """A named part of a text: a field of a template, or a chat message."""

    name: str
    start: int
    """First token."""
    end: int
    """After the last token."""


@dataclass(frozen=True, slots=True, eq=False)
class Tokens:
    """Tokens as ids, as the tokenizer writes them, and as readable text."""

    ids: NDArray[np.int64]
    """(token,)."""
    tokens: tuple[str, ...]
    """As the tokenizer writes them: `Ġcat`, `▁cat`, `##s`."""
    pieces: tuple[str, ...]
    """Readable text: ` cat`; bytes that are not valid text alone as `\\xe2\\x82`."""
    words: NDArray[np.int64]
    """(token,): word number of each token, from 0; a special token is a word of its own."""
    is_special: NDArray[np.bool_]
    """(token,)."""
    segments: tuple[Segment, ...] = ()

    def __post_init__(self) -> None:
        make_read_only(self.ids, self.words, self.is_special)

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def word_texts(self) -> tuple[str, ...]:
        """The words, without surrounding spaces."""
        texts: dict[int, str] = {}
        for word, piece in zip(self.words.tolist(), self.pieces, strict=True):
            texts[word] = texts.get(word, "") + piece
        return tuple(_BYTES.sub(_decode_bytes, text.strip() or text) for text in texts.values())


@dataclass(frozen=True, slots=True, eq=False)
class Steps:
    """Scores of each step, from the model's logits before temperature, top-k and other processing."""

    logits: NDArray[np.float64]
    """(step,): the logit of the choice."""
    logprobs: NDArray[np.float64]
    """(step,)."""
    entropies: NDArray[np.float64]
    """(step,): entropy of the distribution, in nats."""
    ranks: NDArray[np.int64]
    """(step,): 1 + number of tokens with a greater logit."""
    candidates: NDArray[np.int64]
    """(step, candidate): ids of the most likely tokens, best first."""
    candidate_pieces: tuple[tuple[str, ...], ...]
    """(step, candidate): readable text."""
    candidate_logprobs: NDArray[np.float64]
    """(step, candidate)."""
    kept: NDArray[np.float64] | None = None
    """(step, candidate): sampling probability after temperature, top-k, top-p …; 0 for excluded tokens. None if the
    logits were not processed."""
    n_kept: NDArray[np.int64] | None = None
    """(step,): number of tokens that could be sampled."""
    drawn: NDArray[np.float64] | None = None
    """(step,): sampling probability of the choice."""

    def __post_init__(self) -> None:
        make_read_only(self.logits, self.logprobs, self.entropies, self.ranks, self.candidates, self.candidate_logprobs)
        make_read_only(self.kept, self.n_kept, self.drawn)

    def __len__(self) -> int:
        return len(self.logits)

    @property
    def probs(self) -> NDArray[np.float64]:
        """(step,): the probability of the choice."""
        probs: NDArray[np.float64] = np.exp(self.logprobs)
        return probs


@dataclass(frozen=True, slots=True, eq=False)
class Beams:
    """Every beam of a beam search as a tree, one node per token."""

    ids: NDArray[np.int64]
    """(node,)."""
    pieces: tuple[str, ...]
    parents: NDArray[np.int64]
    """(node,): the previous node; -1 for the first token after the prompt."""
    steps: NDArray[np.int64]
    """(node,): step, from 0."""
    logprobs: NDArray[np.float64]
    """(node,): log-probability of this token in the search."""
    scores: NDArray[np.float64]
    """(node,): the sum up to this token."""
    is_best: NDArray[np.bool_]
    """(node,): whether it is part of the returned sequence."""

    def __post_init__(self) -> None:
        make_read_only(self.ids, self.parents, self.steps, self.logprobs, self.scores, self.is_best)

    def __len__(self) -> int:
        return len(self.ids)


def _decode_bytes(escaped: re.Match[str]) -> str:
    """Decodes the bytes of tokens that are valid text only together."""
    return bytes.fromhex(escaped[0].replace("\\x", "")).decode("utf-8", "backslashreplace")
