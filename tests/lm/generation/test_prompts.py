"""Prompts of every form become ids, and their parts keep their names."""

from __future__ import annotations

from copy import deepcopy

import pytest
from tests.lm.tiny_lms import tokenizer

from cutaway.core.errors import InputError
from cutaway.lm.generation.prompts import Template, encode_continuation, encode_prompt, is_prompt_list


def test_a_template_knows_where_its_fields_are() -> None:
    made = Template("{a} and {{b}} and {b}{c}", a="one", b=2, c="")
    assert made.text == "one and {b} and 2"
    assert made.spans == [("a", 0, 3), ("b", 16, 17), ("c", 17, 17)]
    found = encode_prompt(tokenizer(), made)
    assert [segment.name for segment in found.segments] == ["a", "b"], "an empty field has no tokens"
    with pytest.raises(InputError, match="needs a value for the field 'b'; given: 'a'"):
        Template("{a} {b}", a=1)
    with pytest.raises(InputError, match="the template has no field 'c'"):
        Template("{a}", a=1, c=2)


def test_the_same_field_twice_is_two_segments() -> None:
    found = encode_prompt(tokenizer(), Template("{a} sat {a}", a="cat"))
    assert [segment.name for segment in found.segments] == ["a", "a 2"]


def test_messages_of_one_role_are_numbered() -> None:
    messages = [
        {"role": "user", "content": "the cat"},
        {"role": "assistant", "content": "sat"},
        {"role": "user", "content": "the cat"},
    ]
    found = encode_prompt(tokenizer(), messages)
    assert [segment.name for segment in found.segments] == ["user", "assistant", "user 2"]
    assert found.segments[0].end <= found.segments[1].start < found.segments[2].start


def test_several_prompts_are_told_from_one() -> None:
    assert not is_prompt_list("a")
    assert not is_prompt_list([1, 2])
    assert not is_prompt_list([{"role": "user", "content": "a"}])
    assert not is_prompt_list(("a", "b")), "a pair is one prompt"
    assert is_prompt_list([[1, 2], [3]])
    assert is_prompt_list([[{"role": "user", "content": "a"}]])
    assert is_prompt_list([Template("a")])


def test_a_continuation_has_no_special_tokens() -> None:
    assert encode_continuation(tokenizer(), " cat") == tokenizer()(" cat", add_special_tokens=False)["input_ids"]
    assert encode_continuation(None, [3, 4]) == [3, 4]


def test_fields_are_written_as_a_format_says_and_share_no_token() -> None:
    made = Template("{x:.2f} {y!r}", x=3.14159, y="cat")
    assert made.text == "3.14 'cat'"
    found = encode_prompt(tokenizer(), Template("{a}{b} sat", a="c", b="at"))
    assert [(each.name, each.start, each.end) for each in found.segments] == [("b", 0, 1)], "it has more of the token"


def test_a_message_is_found_behind_what_a_template_says_of_its_own() -> None:
    """SmolLM2's own says that it was trained by Hugging Face."""
    own = deepcopy(tokenizer())
    own.chat_template = (
        "<system>the cat sat</system>{% for m in messages %}<{{ m.role }}>{{ m.content | trim }}</{{ m.role }}>"
        "{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}"
    )
    found = encode_prompt(own, [{"role": "user", "content": " cat "}, {"role": "user", "content": "sat"}])
    assert found.text == "<system>the cat sat</system><user>cat</user><user>sat</user><assistant>"
    offsets = own(found.text, return_offsets_mapping=True, add_special_tokens=False)["offset_mapping"]
    texts = [found.text[offsets[each.start][0] : offsets[each.end - 1][1]] for each in found.segments]
    assert [each.name for each in found.segments] == ["user", "user 2"]
    assert offsets[found.segments[0].start][0] >= found.text.index("<user>")
    assert ["cat" in texts[0], "sat" in texts[1]] == [True, True]


def test_an_answer_that_is_begun_is_gone_on_from() -> None:
    messages = [{"role": "user", "content": "the cat"}, {"role": "assistant", "content": "sat on"}]
    found = encode_prompt(tokenizer(), messages)
    assert found.text is not None
    assert found.text.endswith("sat on")
