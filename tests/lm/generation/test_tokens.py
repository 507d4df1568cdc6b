"""Tokens are shown as they are read, in every way of writing them."""

from __future__ import annotations

import pytest
from tests.lm.tiny_lms import tokenizer
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from cutaway.core.errors import InputError
from cutaway.lm.generation.tokens import TokenReader


def made(words: list[str], kind: str) -> PreTrainedTokenizerFast:
    vocab = {word: i for i, word in enumerate(["<unk>", *words])}
    if kind == "wordpiece":
        built = Tokenizer(models.WordPiece(vocab, unk_token="<unk>"))
        built.pre_tokenizer, built.decoder = pre_tokenizers.BertPreTokenizer(), decoders.WordPiece()
    else:
        built = Tokenizer(models.Unigram([(word, -1.0) for word in vocab], unk_id=0, byte_fallback=True))
        built.pre_tokenizer, built.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
    return PreTrainedTokenizerFast(tokenizer_object=built, unk_token="<unk>")


def test_byte_level_tokens_join_to_the_text() -> None:
    text = "the cat likes 1, 2 – déjà"
    ids = tokenizer()(text)["input_ids"]
    pieces = TokenReader(tokenizer())
    shown = pieces.tokens(ids)
    assert shown.tokens[1].startswith("Ġ")
    assert shown.pieces[1].startswith(" ")
    plain = [piece for piece in shown.pieces if "\\x" not in piece]
    assert "".join(plain) == "".join(letter for letter in text if ord(letter) < 128)
    assert pieces.text(ids) == text
    assert "\\xc3" in shown.pieces


def test_words_are_made_of_their_tokens() -> None:
    ids = tokenizer()("<s>she likes reading, 12")["input_ids"]
    shown = TokenReader(tokenizer()).tokens(ids)
    assert shown.is_special.tolist() == [True] + [False] * (len(ids) - 1)
    assert shown.word_texts == ("<s>", "she", "likes", "reading,", "12")
    assert (shown.words[1:] >= shown.words[:-1]).all()


def test_wordpiece_tokens_lose_their_marks() -> None:
    own = made(["play", "##ing", "ball"], "wordpiece")
    shown = TokenReader(own).tokens(own("playing ball")["input_ids"])
    assert shown.tokens == ("play", "##ing", "ball")
    assert shown.pieces == ("play", "ing", "ball")
    assert shown.word_texts == ("playing", "ball")


def test_marked_tokens_and_single_bytes_are_read() -> None:
    own = made(["▁play", "ing", "▁ball", "<0xE2>", "<0x41>"], "unigram")
    shown = TokenReader(own).tokens([1, 2, 3, 4, 5])
    assert shown.pieces == (" play", "ing", " ball", "\\xe2", "A")
    assert shown.word_texts == ("playing", "ball\\xe2A")


def test_ids_beyond_the_tokenizer_are_shown_as_numbers() -> None:
    assert TokenReader(tokenizer()).pieces([5, 400]) == ("!", "<400>")
    assert TokenReader(None).tokens([7]).pieces == ("<7>",)


def test_one_token_is_found_by_its_text() -> None:
    pieces = TokenReader(tokenizer())
    assert pieces.names([pieces.id_of(" cat")]) == ("Ġcat",)
    assert pieces.id_of("Ġcat") == pieces.id_of(" cat")
    assert pieces.id_of(7) == 7
    assert pieces.id_of("<mask>") == 4
    with pytest.raises(InputError, match=r"'elephant' is \d+ tokens: 'e'.* most words begin with a space"):
        pieces.id_of("elephant")
    with pytest.raises(InputError, match="token 999 is unknown: the tokenizer has 320"):
        pieces.id_of(999)
    with pytest.raises(InputError, match="'zebra' is not in this tokenizer's vocabulary"):
        TokenReader(made(["play"], "wordpiece")).id_of("zebra")
    assert TokenReader(None).id_of(7) == 7
    with pytest.raises(InputError, match=r"token ' cat' cannot be looked up without a tokenizer: give its id"):
        TokenReader(None).id_of(" cat")


def test_letters_of_several_tokens_are_whole_in_words() -> None:
    ids = tokenizer()("日本 é")["input_ids"]
    tokens = TokenReader(tokenizer()).tokens(ids)
    assert any("\\x" in piece for piece in tokens.pieces)
    assert "".join(tokens.word_texts) == "日本é"


def test_a_token_that_the_model_does_not_have_is_unknown() -> None:
    with pytest.raises(InputError, match="token 320 is unknown: the model has 320, counted from 0"):
        TokenReader(None, 320).id_of(320)
