"""Subwords to words: every family of tokenizers, with offsets and without."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.collecting import tiny

from cutaway.collecting.texts import read_texts
from cutaway.collecting.tokenization import EncodedItem, Encoder, RowSettings
from cutaway.core.errors import InputError

FAST = {
    "wordpiece": lambda: tiny.minilm()[1],
    "byte-level": tiny.byte_level,
    "byte-level, spaces kept": lambda: tiny.byte_level(False),
    "gpt2": tiny.gpt2,
    "sentencepiece": tiny.sentencepiece,
    "end of word": tiny.end_of_word,
}
SLOW = {
    "wordpiece": tiny.slow_wordpiece,
    "gpt2": tiny.slow_gpt2,
    "end of word": tiny.slow_end_of_word,
}
ALL = {**FAST, **{f"slow {name}": make for name, make in SLOW.items()}}


@cache
def encoder(tokenizer: Any, wanted: RowSettings) -> Encoder:
    return Encoder(tokenizer, wanted)


def encode(tokenizer: Any, *items: Any, **wanted: Any) -> list[EncodedItem]:
    return encoder(tokenizer, RowSettings(**wanted)).encode([read_texts(item, i) for i, item in enumerate(items)])


def pieces(tokenizer: Any, item: Any, **wanted: Any) -> list[tuple[str, list[str]]]:
    """Each row's text with its tokens."""
    (encoded,) = encode(tokenizer, item, **wanted)
    names = tokenizer.convert_ids_to_tokens(encoded.ids)
    rows = zip(encoded.texts, encoded.first, encoded.last, strict=True)
    return [(text, names[first : last + 1]) for text, first, last in rows]


TABLE = [
    ("wordpiece", "A good-looking house", [["a"], ["good", "-", "looking"], ["house"]]),
    ("gpt2", "A good-looking house", [["A"], ["Ġgood", "-", "looking"], ["Ġhouse"]]),
    ("wordpiece", "Mauritians", [["ma", "##uri", "##tian", "##s"]]),
    ("gpt2", "Mauritians", [["M", "aur", "it", "ians"]]),
    ("end of word", "sport qu' on", [["sport</w>"], ["qu</w>", "'</w>"], ["on</w>"]]),
    ("end of word", "sport qu'", [["sport</w>"], ["qu'</w>"]]),
]


@pytest.mark.parametrize(("family", "sentence", "tokens"), TABLE)
@pytest.mark.parametrize("families", [FAST, SLOW], ids=["offsets", "matching"])
def test_the_rows_of_the_papers_table_are_told_apart(
    families: Any, family: str, sentence: str, tokens: list[list[str]]
) -> None:
    """Table 1 of the NeuroX paper; its first tokenizer is cased, this one is not."""
    wanted = list(zip(sentence.split(), tokens, strict=True))
    assert pieces(families[family](), sentence) == wanted
    assert pieces(families[family](), sentence.split()) == wanted


@pytest.mark.parametrize("name", ALL)
def test_every_word_has_its_own_tokens_and_none_is_lost(name: str) -> None:
    tokenizer = ALL[name]()
    sentence = "A  good-looking house , playing 😀 cats sport"
    (encoded,) = encode(tokenizer, sentence)
    assert encoded.texts == sentence.split(), "double spaces make no word"
    assert encoded.word == list(range(8))
    assert encoded.problems == []
    for (_, last), (first, _) in zip(_spans(encoded)[:-1], _spans(encoded)[1:], strict=True):
        assert last < first


@pytest.mark.parametrize("name", ["wordpiece", "slow wordpiece"])
def test_a_word_without_tokens_is_told_and_has_no_row(name: str) -> None:
    (encoded,) = encode(ALL[name](), ["a", "\u00ad", "", "co\u00adop", "b"])
    assert encoded.texts == ["a", "co\u00adop", "b"]
    assert encoded.word == [0, 3, 4]
    assert encoded.problems == [
        "word 1 ('\\xad') has no token and therefore no row",
        "word 2 is empty and therefore no row",
    ]


@pytest.mark.parametrize("name", ["wordpiece", "slow wordpiece"])
def test_special_tokens_that_are_typed_are_words_and_those_put_in_are_not(name: str) -> None:
    tokenizer = ALL[name]()
    assert pieces(tokenizer, "a [MASK] b [SEP]") == [
        *[("a", ["a"]), ("[MASK]", ["[MASK]"]), ("b", ["b"]), ("[SEP]", ["[SEP]"])],
    ]
    (encoded,) = encode(tokenizer, "a [MASK]", special=True)
    assert encoded.texts == ["[CLS]", "a", "[MASK]", "[SEP]"]
    assert encoded.word == [-1, 0, 1, -1]


@pytest.mark.parametrize("name", ["wordpiece", "slow wordpiece"])
def test_words_that_are_cut_off_are_told_and_half_words_have_no_row(name: str) -> None:
    (encoded,) = encode(ALL[name](), "a Mauritians house", max_length=5)
    assert len(encoded.ids) == 5
    assert encoded.texts == ["a"]
    assert encoded.problems == [
        "8 tokens exceed max_length=5: 2 of 3 words cut off, first 1 ('Mauritians'), 2 ('house')"
    ]
    (fits,) = encode(ALL[name](), "a Mauritians house", max_length=8)
    assert fits.texts == ["a", "Mauritians", "house"]
    assert fits.problems == []


@pytest.mark.parametrize("name", ["wordpiece", "slow wordpiece"])
def test_words_of_a_pair_are_counted_on(name: str) -> None:
    tokenizer = ALL[name]()
    assert pieces(tokenizer, ("a b a", ["a", "Mauritians"])) == [
        *[("a", ["a"]), ("b", ["b"]), ("a", ["a"]), ("a", ["a"]), ("Mauritians", ["ma", "##uri", "##tian", "##s"])],
    ]
    (encoded,) = encode(tokenizer, ("a b a", ["a", "Mauritians"]))
    assert encoded.word == [0, 1, 2, 3, 4]
    (cut,) = encode(tokenizer, ("a b a", ["a", "Mauritians"]), max_length=9)
    assert cut.texts == ["a", "b", "a", "a"]
    assert len(cut.problems) == 1


def test_a_tokenizer_that_shortens_at_the_front_keeps_the_end() -> None:
    for tokenizer in (tiny.minilm()[1], tiny.slow_wordpiece()):
        try:
            tokenizer.truncation_side = "left"
            (encoded,) = encode(tokenizer, "Mauritians a house", max_length=5)
            assert encoded.texts == ["a", "house"]
            assert encoded.first == [2, 3]
        finally:
            tokenizer.truncation_side = "right"


def test_a_word_with_a_space_inside_is_one_row() -> None:
    assert pieces(tiny.minilm()[1], ["in", "New York", "now"])[1] == ("New York", ["new", "york"])


def test_a_token_that_covers_two_words_belongs_to_both() -> None:
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    whole = Tokenizer(models.WordLevel({"new york": 0, "<unk>": 1}, unk_token="<unk>"))
    whole.pre_tokenizer = pre_tokenizers.Split("|", "removed")
    (encoded,) = encode(PreTrainedTokenizerFast(tokenizer_object=whole), "new york")
    assert _spans(encoded) == [(0, 0), (0, 0)]


def test_rows_of_positions_are_tokens_and_name_their_word() -> None:
    (encoded,) = encode(tiny.minilm()[1], "a Mauritians", rows="positions")
    assert encoded.texts == ["a", "ma", "##uri", "##tian", "##s"]
    assert encoded.word == [0, 1, 1, 1, 1]


def test_rows_of_items_span_what_was_written() -> None:
    (encoded,) = encode(tiny.minilm()[1], "a Mauritians", rows="items")
    assert (encoded.word, _spans(encoded)) == ([-1], [(1, 5)])
    (encoded,) = encode(tiny.minilm()[1], "a Mauritians", rows="items", special=True)
    assert _spans(encoded) == [(0, 6)]


def test_two_tokenizers_do_not_disturb_each_other() -> None:
    first, second = Encoder(tiny.slow_wordpiece(), RowSettings()), Encoder(tiny.slow_end_of_word(), RowSettings())
    items = [read_texts("sport qu' on", 0)]
    alone = [first.encode(items), second.encode(items)]
    assert [first.encode(items), second.encode(items)] == alone
    assert alone[0][0].ids != alone[1][0].ids


WORDS = st.lists(
    st.sampled_from(["a", "Mauritians", "good-looking", "😀", "don't", "3.14", "Café", "U.S.", "[MASK]", "東京", "x²"]),
    min_size=1,
    max_size=8,
)


@given(WORDS)
@settings(max_examples=60)
def test_offsets_agree_with_the_word_ids_of_transformers(words: list[str]) -> None:
    tokenizer = tiny.minilm()[1]
    (encoded,) = encode(tokenizer, words)
    known = tokenizer(words, is_split_into_words=True)
    assert encoded.ids == known["input_ids"]
    of = known.word_ids()
    for word, (first, last) in zip(encoded.word, _spans(encoded), strict=True):
        assert [i for i, w in enumerate(of) if w == word] == list(range(first, last + 1))


@given(WORDS)
@settings(max_examples=60)
def test_matching_agrees_with_offsets(words: list[str]) -> None:
    (by_offsets,), (by_matching,) = encode(tiny.minilm()[1], words), encode(tiny.slow_wordpiece(), words)
    assert by_offsets.ids == by_matching.ids
    assert _spans(by_offsets) == _spans(by_matching)
    assert by_offsets.problems == by_matching.problems


@pytest.mark.parametrize("item", [3, ["a", 3], ("a",), ("a", "b", "c"), None])
def test_what_is_no_text_is_refused_by_its_number(item: Any) -> None:
    with pytest.raises(InputError, match="item 7 is "):
        read_texts(item, 7)


def _spans(encoded: EncodedItem) -> list[tuple[int, int]]:
    return list(zip(encoded.first, encoded.last, strict=True))
