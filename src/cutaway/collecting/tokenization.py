"""Tokenizes sentences, and finds the tokens that make up each row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from cutaway.collecting.texts import Text
from cutaway.collecting.word_alignment import Spans, SubwordFunctions, align_words, strip_markers
from cutaway.core.errors import InputError, InputTypeError
from cutaway.core.formatting import plural

RowKind = Literal["words", "items", "positions"]
_BLANKS = frozenset("▁ĠĊĉ \t\n")
"""White space as tokenizers write it: a token of nothing else belongs to no word."""
_NOT_ROWS = ("input_ids", "attention_mask", "offset_mapping", "special_tokens_mask")


@dataclass(slots=True)
class EncodedItem:
    """One tokenized item and its rows."""

    ids: list[int]
    extra_inputs: dict[str, list[int]]
    """Other inputs with one number per token, such as `token_type_ids`."""
    is_special: list[bool]
    """For each token, whether the tokenizer added it."""
    word: list[int] = field(default_factory=list)
    """The word of each row; -1 for a special token and for a whole item."""
    first: list[int] = field(default_factory=list)
    last: list[int] = field(default_factory=list)
    """First and last token of each row, inclusive."""
    texts: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def add(self, word: int, first: int, last: int, text: str) -> None:
        self.word.append(word)
        self.first.append(first)
        self.last.append(last)
        self.texts.append(text)


@dataclass(frozen=True, slots=True)
class RowSettings:
    """What becomes a row, and how many tokens of an item are read."""

    rows: RowKind = "words"
    special: bool = False
    max_length: int | None = None


@dataclass(slots=True)
class _Tokens:
    """The tokens of one item, and the token span of each word; words of a pair are numbered consecutively."""

    ids: list[int]
    extra_inputs: dict[str, list[int]]
    is_special: list[bool]
    spans: Spans


class Encoder:
    """Tokenizes items and finds their rows.

    Args:
        tokenizer: a tokenizer of transformers; its offsets are used if it has them.
        settings: what becomes a row.
    """

    def __init__(self, tokenizer: Any, settings: RowSettings) -> None:
        if not callable(tokenizer) or not hasattr(tokenizer, "convert_ids_to_tokens"):
            if isinstance(tokenizer, str):
                raise InputTypeError(
                    f"tokenizer={tokenizer!r} is a string: pass the tokenizer itself, "
                    f"transformers.AutoTokenizer.from_pretrained({tokenizer!r})."
                )
            raise InputTypeError(
                f"tokenizer={type(tokenizer).__name__}: pass a tokenizer of transformers; wrap others with "
                "transformers.PreTrainedTokenizerFast(tokenizer_object=…)."
            )
        self._tokenizer = tokenizer
        self._settings = settings
        self._has_offsets = bool(getattr(tokenizer, "is_fast", False))
        self._blank: frozenset[int] = frozenset()
        if self._has_offsets:
            vocabulary = tokenizer.get_vocab().items()
            self._blank = frozenset(number for token, number in vocabulary if not set(token) - _BLANKS)
        self._subword_cache: dict[str, list[str]] = {}

    def encode(self, items: Sequence[tuple[Text, ...]]) -> list[EncodedItem]:
        """Tokenize items, in order."""
        results: list[EncodedItem | None] = [None] * len(items)
        for n in (1, 2):  # sentences and pairs
            numbers = [i for i, item in enumerate(items) if len(item) == n]
            same_length = [items[i] for i in numbers]
            for i, encoded in zip(numbers, self._encoded(same_length) if same_length else (), strict=True):
                results[i] = encoded
        return [encoded for encoded in results if encoded is not None]

    def _encoded(self, items: list[tuple[Text, ...]]) -> list[EncodedItem]:
        # Without truncation first: a word is cut off if its span is shorter than in the whole sentence.
        whole = self._tokens(items, None)
        limit = self._settings.max_length
        long = [i for i, tokens in enumerate(whole) if limit is not None and len(tokens.ids) > limit]
        cut = dict(zip(long, self._tokens([items[i] for i in long], limit) if long else (), strict=True))
        return [self._rows(item, tokens, cut.get(i)) for i, (item, tokens) in enumerate(zip(items, whole, strict=True))]

    def _tokens(self, items: list[tuple[Text, ...]], limit: int | None) -> list[_Tokens]:
        if self._has_offsets:
            return self._align_with_offsets(items, limit)
        return [self._align_without_offsets(item, limit) for item in items]

    def _align_with_offsets(self, items: list[tuple[Text, ...]], limit: int | None) -> list[_Tokens]:
        texts = [[item[side].text for item in items] for side in range(len(items[0]))]
        results = self._tokenizer(
            *texts,
            return_offsets_mapping=True,
            return_special_tokens_mask=True,
            return_attention_mask=False,
            # Texts beyond `model_max_length` become problems of the item; transformers would also log each.
            verbose=False,
            **({} if limit is None else {"truncation": True, "max_length": limit}),
        )
        others = [name for name in results if name not in _NOT_ROWS]
        all_tokens = []
        for i, item in enumerate(items):
            ids, offsets, masks = (results[name][i] for name in ("input_ids", "offset_mapping", "special_tokens_mask"))
            # A special token that the user wrote has a span in the text; one that the tokenizer added has none.
            special = [bool(mask) and stop <= start for mask, (start, stop) in zip(masks, offsets, strict=True)]
            sides = results.sequence_ids(i) if len(item) > 1 else None
            spans: Spans = []
            for side, text in enumerate(item):
                spans += self._spans(text, ids, offsets, None if sides is None else [s == side for s in sides])
            all_tokens.append(_Tokens(ids, {name: results[name][i] for name in others}, special, spans))
        return all_tokens

    def _spans(self, text: Text, ids: list[int], offsets: list[tuple[int, int]], in_part: list[bool] | None) -> Spans:
        """The tokens that cover each word; a token that covers several words belongs to each."""
        words, n, blank = text.spans, len(text.spans), self._blank
        first, last = [-1] * n, [-1] * n
        at = 0
        for token, (start, stop) in enumerate(offsets):
            if stop <= start or ids[token] in blank or (in_part is not None and not in_part[token]):
                continue
            # Offsets ascend, so a word that ended before this token is never visited again.
            while at < n and words[at][1] <= start:
                at += 1
            word = at
            while word < n and words[word][0] < stop:
                if first[word] < 0:
                    first[word] = token
                last[word] = token
                word += 1
        return [(a, b) if a >= 0 else None for a, b in zip(first, last, strict=True)]

    def _align_without_offsets(self, item: tuple[Text, ...], limit: int | None) -> _Tokens:
        parts = [self._ids(text.text) for text in item]
        whole = self._call(item, None)
        places = _locate_parts(parts, whole["input_ids"])
        if places is None:
            raise InputError(
                f"{type(self._tokenizer).__name__} has no offsets, and special tokens change how it tokenizes "
                f"{item[0].text[:60]!r}: words cannot be aligned. Use a fast tokenizer."
            )
        spans: list[Spans] = []
        for text, part in zip(item, parts, strict=True):
            spans.append(align_words(text.words, self._names(part), SubwordFunctions(self._subwords, self._surface)))
        if limit is None:
            kept_spans = [(0, len(part)) for part in parts]
            encoded: Mapping[str, Any] = whole
        else:
            encoded = self._call(item, limit)
            kept_spans = _kept_ranges(parts, whole["input_ids"], places, encoded["input_ids"])
            # What truncation removed from the first sentence moves the second one to the left.
            places = [place - sum(len(p) - (b - a) for p, (a, b) in zip(parts[:side], kept_spans[:side], strict=True))
                      for side, place in enumerate(places)]  # fmt: skip
        ids = list(encoded["input_ids"])
        special = [True] * len(ids)
        all_spans: Spans = []
        for place, (start, stop), part_spans in zip(places, kept_spans, spans, strict=True):
            special[place : place + stop - start] = [False] * (stop - start)
            for span in part_spans:
                inside = span is not None and start <= span[0] and span[1] < stop
                all_spans.append((span[0] - start + place, span[1] - start + place) if span and inside else None)
        extra_inputs = {name: list(encoded[name]) for name in encoded if name not in _NOT_ROWS}
        return _Tokens(ids, extra_inputs, special, all_spans)

    def _call(self, item: tuple[Text, ...], limit: int | None) -> Mapping[str, Any]:
        how = {} if limit is None else {"truncation": True, "max_length": limit}
        encoded: Mapping[str, Any] = self._tokenizer(*(text.text for text in item), verbose=False, **how)
        return encoded

    def _ids(self, text: str) -> list[int]:
        return list(self._tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"])

    def _names(self, ids: Sequence[int]) -> list[str]:
        return list(self._tokenizer.convert_ids_to_tokens(list(ids)))

    def _subwords(self, text: str) -> list[str]:
        if text not in self._subword_cache:
            # Bounded: large corpora have millions of word types.
            if len(self._subword_cache) > 1 << 16:
                self._subword_cache.clear()
            self._subword_cache[text] = self._names(self._ids(text))
        return self._subword_cache[text]

    def _surface(self, token: str) -> str:
        # The text of an unknown token is lost, so it has no letters to align.
        if token == getattr(self._tokenizer, "unk_token", None):
            return ""
        return strip_markers(str(self._tokenizer.convert_tokens_to_string([token])))

    def _rows(self, item: tuple[Text, ...], whole: _Tokens, cut: _Tokens | None) -> EncodedItem:
        tokens = cut or whole
        encoded = EncodedItem(tokens.ids, tokens.extra_inputs, tokens.is_special)
        words = [word for text in item for word in text.words]
        kept_spans = self._complete_words(words, whole, cut, encoded.problems)
        if not words:
            encoded.problems.append("has no words")
        special = self._settings.special
        if self._settings.rows == "items":
            content = [i for i, is_added in enumerate(tokens.is_special) if special or not is_added]
            if content:
                encoded.add(-1, content[0], content[-1], " ".join(text.text for text in item))
        elif self._settings.rows == "positions":
            # Reversed, so that a token over several words belongs to the first of them.
            owner = {t: w for w, span in reversed(kept_spans) for t in range(span[0], span[1] + 1)}
            for token, name in enumerate(self._names(tokens.ids)):
                if special or not tokens.is_special[token]:
                    encoded.add(owner.get(token, -1), token, token, str(name))
        else:
            rows = [(span, word, words[word]) for word, span in kept_spans]
            if special:
                added = [i for i, is_special in enumerate(tokens.is_special) if is_special]
                names = self._names([tokens.ids[i] for i in added])
                rows += [((i, i), -1, str(name)) for i, name in zip(added, names, strict=True)]
                rows.sort(key=lambda row: row[0])
            for (first, last), word, text in rows:
                encoded.add(word, first, last, text)
        return encoded

    def _complete_words(
        self, words: list[str], whole: _Tokens, cut: _Tokens | None, problems: list[str]
    ) -> list[tuple[int, tuple[int, int]]]:
        """The words whose tokens are all read, with their spans. Adds a problem for each other word."""
        kept_spans = []
        cut_off: list[int] = []
        for word, span in enumerate(whole.spans):
            if span is None:
                problem = f"word {word} ({words[word]!r}) has no token" if words[word] else f"word {word} is empty"
                if self._settings.rows == "words":
                    problems.append(f"{problem} and therefore no row")
                continue
            left = span if cut is None else cut.spans[word]
            if left is None or left[1] - left[0] != span[1] - span[0]:
                cut_off.append(word)
            else:
                kept_spans.append((word, left))
        if cut_off:
            first = ", ".join(f"{word} ({words[word]!r})" for word in cut_off[:3])
            problems.append(
                f"{len(whole.ids)} tokens exceed max_length={self._settings.max_length}: "
                f"{len(cut_off)} of {plural(len(words), 'word')} cut off, first {first}"
            )
        return kept_spans


def _locate_parts(parts: list[list[int]], whole: Sequence[int]) -> list[int] | None:
    """Where the tokens of each sentence begin among all tokens of an item."""
    places, start, whole = [], 0, list(whole)
    for part in parts:
        at = next((i for i in range(start, len(whole) - len(part) + 1) if whole[i : i + len(part)] == part), None)
        if at is None:
            return None
        places.append(at)
        start = at + len(part)
    return places


def _kept_ranges(
    parts: list[list[int]], whole: Sequence[int], places: list[int], cut: Sequence[int]
) -> list[tuple[int, int]]:
    """Which tokens of each sentence are left in a truncated item: a prefix or a suffix of each."""
    n_left = len(cut) - (len(whole) - sum(map(len, parts)))
    cut, whole = list(cut), list(whole)
    between, at = [], 0
    for place, part in zip(places, parts, strict=True):
        between.append(whole[at:place])
        at = place + len(part)
    # Tokenizers truncate on the right, or on the left with truncation_side="left".
    for from_end in (False, True):
        for n in range(min(len(parts[0]), n_left), -1, -1):
            # How a pair shares the cut depends on the truncation strategy, so every division is tried.
            counts = [n, n_left - n][: len(parts)]
            if any(count > len(part) or count < 0 for count, part in zip(counts, parts, strict=True)):
                continue
            if len(parts) == 1 and n != n_left:
                break
            kept_spans = [(len(p) - c, len(p)) if from_end else (0, c) for p, c in zip(parts, counts, strict=True)]
            rebuilt: list[int] = []
            for added, part, (start, stop) in zip(between, parts, kept_spans, strict=True):
                rebuilt += [*added, *part[start:stop]]
            if rebuilt + whole[at:] == cut:
                return kept_spans
    raise InputError("the tokenizer truncates sentences in the middle: words cannot be aligned.")
