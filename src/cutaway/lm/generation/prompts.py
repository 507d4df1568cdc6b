"""Encodes prompts: a text, a template, chat messages, a pair of texts, or token ids."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from string import Formatter
from typing import Any

from cutaway.core.errors import InputError, InputTypeError
from cutaway.core.formatting import hint, listed, type_text
from cutaway.results.lm.tokens import Segment

Span = tuple[str, int, int]
"""A name, and the start and end of its characters."""
_CHOICES = "give a text, a list of chat messages, a Template, or token ids; or a list of these"


class Template:
    """A text with named fields. Each field is a segment, so `saliency.segments()` can tell which one mattered.

    >>> Template("Q: {question} A:", question="Why?").text
    'Q: Why? A:'
    """

    def __init__(self, template: str, /, **fields: object) -> None:
        self.text = ""
        self.spans: list[Span] = []
        used: dict[str, int] = {}
        formatter = Formatter()
        for before, name, spec, conversion in formatter.parse(template):
            self.text += before
            if name is None:
                continue
            if name not in fields:
                given = ", ".join(map(repr, fields)) or "none"
                raise InputError(f"the template needs a value for the field {name!r}; given: {given}.")
            start = len(self.text)
            value = formatter.convert_field(fields[name], conversion) if conversion else fields[name]
            self.text += format(value, spec) if spec else str(value)
            self.spans.append((_unique_name(name, used), start, len(self.text)))
        if used.keys() != fields.keys():
            unknown = sorted(fields.keys() - used.keys())[0]
            has = f"it has {listed(map(repr, used))}" if used else "it has none"
            raise InputError(f"the template has no field {unknown!r}; {has}.{hint(unknown, used)}")

    def __repr__(self) -> str:
        return f"Template({self.text!r})"


PromptList = list[str] | list[Template] | list[tuple[str, str]] | list[list[int]] | list[list[Mapping[str, Any]]]
"""Several prompts."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """An encoded prompt."""

    ids: list[int]
    text: str | None = None
    segments: tuple[Segment, ...] = ()
    extra_inputs: Mapping[str, list[int]] = field(default_factory=dict)
    """Other outputs of the tokenizer, such as `token_type_ids`."""


def check_tokenizer(model: Any, tokenizer: Any, prompt: Any, verb: str) -> None:
    """Raises if model, tokenizer and prompt are not given in this order."""
    call = f"{verb}(model, tokenizer, prompt)"
    if prompt is None and isinstance(tokenizer, str):
        raise InputTypeError(
            f"the tokenizer is missing: {tokenizer!r} is in its place. Call {verb}(model, tokenizer, {tokenizer!r})."
        )
    if prompt is None:
        raise InputTypeError(f"the prompt is missing: call {call}.")
    if hasattr(tokenizer, "forward"):  # only a model has it
        swapped = f"the tokenizer is a model, {type(tokenizer).__name__}, and the model {type_text(model)}"
        raise InputTypeError(f"{swapped}: call {call}.")
    if isinstance(tokenizer, str):
        raise InputTypeError(
            f"the tokenizer is the text {tokenizer!r}: give a loaded one, AutoTokenizer.from_pretrained({tokenizer!r})."
        )


def is_prompt_list(prompt: Any) -> bool:
    """Whether this is a list of prompts rather than one prompt.

    >>> is_prompt_list(["a", "b"]), is_prompt_list([1, 2]), is_prompt_list([{"role": "user", "content": "a"}])
    (True, False, False)
    """
    if not isinstance(prompt, list):
        return False
    return not prompt or not all(isinstance(each, Mapping) or _is_number(each) for each in prompt)


def encode_prompt(tokenizer: Any, prompt: Any) -> Prompt:
    """The ids and segments of a prompt, with the tokenizer's special tokens."""
    if isinstance(prompt, Template):
        return _encode_text(tokenizer, prompt.text, prompt.spans)
    if isinstance(prompt, str):
        return _encode_text(tokenizer, prompt, ())
    if isinstance(prompt, tuple) and len(prompt) == 2 and all(isinstance(each, str) for each in prompt):
        return _encode_pair(tokenizer, *prompt)
    if isinstance(prompt, Sequence) and prompt and all(isinstance(each, Mapping) for each in prompt):
        return _encode_chat(tokenizer, prompt)
    if isinstance(prompt, Mapping) and "input_ids" in prompt:  # the output of a tokenizer
        prompt = prompt["input_ids"]
    numbers = prompt.tolist() if hasattr(prompt, "tolist") else prompt
    if isinstance(numbers, Sequence) and numbers and isinstance(numbers[0], Sequence) and hasattr(prompt, "tolist"):
        if len(numbers) > 1:
            raise InputError(
                f"the prompt is a batch of {len(numbers)} rows of token ids: give a list of prompts, one per row, "
                "without padding."
            )
        numbers = numbers[0]
    elif isinstance(numbers, Sequence) and len(numbers) == 1 and isinstance(numbers[0], Sequence):
        numbers = numbers[0]
    if isinstance(numbers, Sequence) and all(map(_is_number, numbers)):
        return _check_not_empty(Prompt([int(number) for number in numbers]))
    raise InputTypeError(f"the prompt is of type {type(prompt).__name__}: {_CHOICES}.")


def encode_continuation(tokenizer: Any, text: Any) -> list[int]:
    """The ids of a text that follows a prompt, without special tokens."""
    if isinstance(text, str):
        ids = _check_tokenizer(tokenizer)(text, add_special_tokens=False)["input_ids"]
        numbers = [int(number) for number in ids]
    else:
        numbers = encode_prompt(None, text).ids
    if not numbers:
        raise InputError("text='' has no tokens: give the continuation to explain.")
    return numbers


def _encode_text(tokenizer: Any, text: str, spans: Sequence[Span], **options: Any) -> Prompt:
    if not text:
        raise InputError(
            "the prompt is empty: give at least one token; prompt=[tokenizer.bos_token_id] lets the model start."
        )
    encode = _check_tokenizer(tokenizer)
    encoding = encode(text, **_offsets(encode, bool(spans)), **options)
    ids = [int(number) for number in encoding["input_ids"]]
    segments = _segments(spans, encoding.get("offset_mapping")) if spans else ()
    return _check_not_empty(Prompt(ids, text, segments, _extra_inputs(encoding)))


def _encode_pair(tokenizer: Any, first: str, second: str) -> Prompt:
    if not first or not second:
        raise InputError("one text of the pair is empty: give both, or a single text.")
    encode = _check_tokenizer(tokenizer)
    encoding = encode(first, second)
    # Only fast tokenizers know which text a token comes from.
    numbers = encoding.sequence_ids() if hasattr(encoding, "sequence_ids") and encode.is_fast else []
    segments = []
    for number, name in enumerate(("first", "second")):
        places = [i for i, each in enumerate(numbers) if each == number]
        if places:
            segments.append(Segment(name, places[0], places[-1] + 1))
    ids = [int(each) for each in encoding["input_ids"]]
    return Prompt(ids, f"{first}\n{second}", tuple(segments), _extra_inputs(encoding))


def _encode_chat(tokenizer: Any, messages: Sequence[Mapping[str, Any]]) -> Prompt:
    """Renders messages with the tokenizer's chat template, up to where the model answers."""
    encode = _check_tokenizer(tokenizer)
    if not getattr(encode, "chat_template", None):
        raise InputError(
            f"{type(encode).__name__} has no chat template: give one text, or set tokenizer.chat_template."
        )
    is_begun = str(messages[-1].get("role")) == "assistant"  # the model continues an answer that has begun
    how = {"continue_final_message": True} if is_begun else {"add_generation_prompt": True}

    def render(contents: Sequence[Any]) -> str:
        given = [{**message, "content": content} for message, content in zip(messages, contents, strict=True)]
        rendered: str = encode.apply_chat_template(given, tokenize=False, **how)
        return rendered

    contents = [message.get("content") for message in messages]
    text, used = render(contents), dict[str, int]()
    names = [_unique_name(str(message.get("role", "message")), used) for message in messages]
    places = _message_spans(text, contents, render)
    spans = [(name, *place) for name, place in zip(names, places, strict=True) if place is not None]
    # The template has written the special tokens already.
    return _encode_text(encode, text, spans, add_special_tokens=False)


def _message_spans(
    text: str, contents: Sequence[Any], render: Callable[[Sequence[Any]], str]
) -> list[tuple[int, int] | None]:
    """The characters of each message in the rendered text; None if they are not found.

    A template may contain the words of a message itself, so searching is not enough: the template is rendered again
    with markers in place of the messages, and the text between the markers shows what belongs to the template.
    """
    is_text = [isinstance(each, str) and bool(each.strip()) for each in contents]
    marks = [
        f"\u27e6{i}\u27e7" if is_marked else each
        for i, (each, is_marked) in enumerate(zip(contents, is_text, strict=True))
    ]
    rest, at, spans = render(marks), 0, list[tuple[int, int] | None]()
    for content, mark, is_marked in zip(contents, marks, is_text, strict=True):
        before, split, rest = rest.partition(mark) if is_marked else ("", "", rest)
        # Many chat templates strip the messages.
        forms = (content, content.strip()) if split else ()
        written = next((each for each in forms if text.startswith(before + each, at)), None)
        if written is None:
            spans.append(None)
            continue
        start = at + len(before)
        at = start + len(written)
        spans.append((start, at))
    return spans


def _unique_name(name: str, used: dict[str, int]) -> str:
    """The name, with a number from its second use on."""
    used[name] = used.get(name, 0) + 1
    return name if used[name] == 1 else f"{name} {used[name]}"


def _segments(spans: Sequence[Span], offsets: Any) -> tuple[Segment, ...]:
    """The tokens of each span: those that share more characters with it than with any other span."""
    if offsets is None:
        return ()
    tokens_of: dict[int, list[int]] = {}
    for token, (a, b) in enumerate(offsets):
        # A token may reach over the border of two fields; it belongs to the one that has most of it.
        shared = [max(0, min(b, end) - max(a, start)) for _, start, end in spans]
        if b > a and any(shared):
            tokens_of.setdefault(shared.index(max(shared)), []).append(token)
    return tuple(Segment(spans[i][0], tokens[0], tokens[-1] + 1) for i, tokens in sorted(tokens_of.items()))


def _offsets(tokenizer: Any, is_wanted: bool) -> dict[str, bool]:
    return {"return_offsets_mapping": True} if is_wanted and getattr(tokenizer, "is_fast", False) else {}


def _extra_inputs(encoding: Any) -> dict[str, list[int]]:
    """Other outputs of the tokenizer with one number per token."""
    n = len(encoding["input_ids"])
    names = [name for name in encoding if name not in ("input_ids", "attention_mask", "offset_mapping")]
    return {name: [int(each) for each in encoding[name]] for name in names if len(encoding[name]) == n}


def _check_tokenizer(tokenizer: Any) -> Any:
    if tokenizer is None:
        raise InputTypeError("a text needs a tokenizer, and tokenizer=None: give the tokenizer, or token ids.")
    if not callable(tokenizer):
        raise InputTypeError(
            f"the tokenizer is {type_text(tokenizer)}: give one of transformers, "
            "AutoTokenizer.from_pretrained(…), or token ids as the prompt."
        )
    return tokenizer


def _check_not_empty(prompt: Prompt) -> Prompt:
    if not prompt.ids:
        raise InputError("the prompt has no tokens: give at least one.")
    return prompt


def _is_number(value: Any) -> bool:
    return hasattr(value, "__index__") and not isinstance(value, bool)
