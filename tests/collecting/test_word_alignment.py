"""Words and tokens without offsets, where words alone are cut otherwise than in their sentence."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cutaway.collecting.word_alignment import SubwordFunctions, align_words, strip_markers

UNKNOWN = "<unk>"


def _written(token: str) -> str:
    return "" if token == UNKNOWN else strip_markers(token)


# Cuts nothing as any sentence below is cut.
APART = SubwordFunctions(lambda text: ["§"], _written)


def test_letters_lead_to_the_words() -> None:
    assert align_words(["Qu'", "on"], ["qu", "'", "on"], APART) == [(0, 1), (2, 2)]
    assert align_words(["Café", "zz"], ["caf", "##e", "z", "##z"], APART) == [(0, 1), (2, 3)]


def test_a_token_over_two_words_belongs_to_both() -> None:
    assert align_words(["new", "york"], ["newy", "ork"], APART) == [(0, 0), (0, 1)]


def test_an_unknown_token_takes_the_word_between_its_neighbors() -> None:
    assert align_words(["ab", "ab"], [UNKNOWN, "ab"], APART) == [(0, 0), (1, 1)]
    assert align_words(["ab", "xyz", "ab"], ["ab", UNKNOWN, UNKNOWN, "ab"], APART) == [(0, 0), (1, 2), (3, 3)]


def test_as_many_unknown_tokens_as_words_are_one_each() -> None:
    assert align_words(["a", "x", "y", "b"], ["a", UNKNOWN, UNKNOWN, "b"], APART) == [(0, 0), (1, 1), (2, 2), (3, 3)]


def test_unknown_tokens_are_shared_as_the_words_alone_are_cut() -> None:
    pieces = SubwordFunctions(lambda text: {"x": [UNKNOWN], "y": [UNKNOWN] * 2}.get(text, ["§"]), _written)
    assert align_words(["a", "x", "y", "b"], ["a", *[UNKNOWN] * 3, "b"], pieces) == [(0, 0), (1, 1), (2, 3), (4, 4)]


def test_where_nothing_says_whose_a_token_is_no_word_has_it() -> None:
    assert align_words(["a", "x", "y", "z", "b"], ["a", UNKNOWN, UNKNOWN, "b"], APART) == [
        (0, 0),
        None,
        None,
        None,
        (3, 3),
    ]


def test_words_of_which_nothing_is_left_have_no_token() -> None:
    assert align_words(["a", "\u00ad", "", "b"], ["a", "b"], APART) == [(0, 0), None, None, (1, 1)]


@given(st.lists(st.text("abc", min_size=1, max_size=6), min_size=1, max_size=6), st.randoms(use_true_random=False))
def test_however_words_are_cut_they_are_found_again(words: list[str], draw: object) -> None:
    tokens: list[str] = []
    spans = []
    for word in words:
        first = len(tokens)
        at = 0
        while at < len(word):
            n = draw.randint(1, 3)  # type: ignore[attr-defined]
            tokens.append(word[at : at + n])
            at += n
        spans.append((first, len(tokens) - 1))
    assert align_words(words, tokens, APART) == spans
