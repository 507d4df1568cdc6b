"""The classes that the logits of a model score: tokens, or the labels of a classifier."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from cutaway.core.errors import InputError, InputTypeError
from cutaway.core.formatting import hint, listed, type_text
from cutaway.lm.generation.tokens import TokenReader
from cutaway.lm.model.language_model import vocab_size
from cutaway.results.lm.generation import Generation

_MOST_LABELS = 12


@dataclass(frozen=True, slots=True)
class Classes:
    """Converts between classes and their texts."""

    reader: TokenReader | None
    """Reads tokens; None if the classes are labels."""
    labels: Sequence[str] = ()

    @staticmethod
    def of(gen: Generation) -> Classes:
        """The classes of the model of a generation."""
        if gen.kind != "classifier":
            tokenizer = gen._tokenizer and gen.tokenizer  # without one, ids still work
            return Classes(TokenReader(tokenizer, vocab_size(gen.model)))
        n = int(getattr(getattr(gen.model, "config", None), "num_labels", 0))
        return Classes(None, label_names(gen.model, n))

    def id_of(self, asked: Any, option: str) -> int:
        """The number of a token or label, given by text or number.

        Args:
            option: the option it was given as, for messages.
        """
        if not isinstance(asked, str) and (isinstance(asked, bool) or not hasattr(asked, "__index__")):
            what = "token" if self.reader is not None else "label"
            raise InputTypeError(f"{option}={asked!r} is {type_text(asked)}: give a {what} by text or number.")
        if self.reader is not None:
            return self.reader.id_of(asked)
        if isinstance(asked, str) and asked in self.labels:
            return list(self.labels).index(asked)
        if isinstance(asked, str) or not 0 <= int(asked) < len(self.labels):
            raise InputError(
                f"{option}={asked!r} is not a label of this model.{hint(asked, self.labels)} It has "
                f"{len(self.labels):,}, counted from 0: {listed(map(repr, self.labels), _MOST_LABELS)}."
            )
        return int(asked)

    def texts(self, ids: Sequence[int]) -> tuple[str, ...]:
        """The readable texts of classes."""
        return tuple(self.labels[i] for i in ids) if self.reader is None else self.reader.pieces(ids)


def label_names(model: Any, n: int) -> list[str]:
    """The names of the classes from the model's config."""
    known = getattr(getattr(model, "config", None), "id2label", None) or {}
    return [str(known.get(i, known.get(str(i), f"LABEL_{i}"))) for i in range(n)]
