"""Prompts of every form become ids, and their parts keep their names."""

from __future__ import annotations

import pytest
from tests.language.tiny_lms import tokenizer

from cutaway.core.errors import InputError
from cutaway.language.prompts import Template, continuation, is_several, prompted


def test_a_template_knows_where_its_fields_are() -> None:
    made = Template("{a} and {{b}} and {b}{c}", a="one", b=2, c="")
    assert made.text == "one and {b} and 2"
    assert made.spans == [("a", 0, 3), ("b", 16, 17), ("c", 17, 17)]
    found = prompted(tokenizer(), made)
    assert [segment.name for segment in found.segments] == ["a", "b"], "an empty field has no tokens"
    with pytest.raises(InputError, match="the template has a field 'b', and given were 'a'"):
        Template("{a} {b}", a=1)
    with pytest.raises(InputError, match="the template has no field 'c'"):
        Template("{a}", a=1, c=2)


def test_the_same_field_twice_is_two_segments() -> None:
    found = prompted(tokenizer(), Template("{a} sat {a}", a="cat"))
    assert [segment.name for segment in found.segments] == ["a", "a"]


def test_messages_of_one_role_are_numbered() -> None:
    messages = [
        {"role": "user", "content": "the cat"},
        {"role": "assistant", "content": "sat"},
        {"role": "user", "content": "the cat"},
    ]
    found = prompted(tokenizer(), messages)
    assert [segment.name for segment in found.segments] == ["user", "assistant", "user 2"]
    assert found.segments[0].end <= found.segments[1].start < found.segments[2].start


def test_several_prompts_are_told_from_one() -> None:
    assert not is_several("a")
    assert not is_several([1, 2])
    assert not is_several([{"role": "user", "content": "a"}])
    assert not is_several(("a", "b")), "a pair is one prompt"
    assert is_several([[1, 2], [3]])
    assert is_several([[{"role": "user", "content": "a"}]])
    assert is_several([Template("a")])


def test_a_continuation_has_no_special_tokens() -> None:
    assert continuation(tokenizer(), " cat") == tokenizer()(" cat", add_special_tokens=False)["input_ids"]
    assert continuation(None, [3, 4]) == [3, 4]
