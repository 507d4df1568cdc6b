"""Arguments and plain values go into text and come back; what is no plain data is told in words."""

from __future__ import annotations

import enum
from collections import namedtuple
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cutaway.core.errors import DamagedError
from cutaway.core.pytree import leaves
from cutaway.graph.argument_text import OpaqueArgument, arguments_text
from cutaway.store.traces.arguments import TENSOR, Encoder, decode_all_arguments, decode_arguments, decode_values

atoms = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False)
    | st.complex_numbers(allow_nan=False)
    | st.text(st.characters(exclude_categories=()), max_size=8)
    | st.binary(max_size=8)
    | st.just(...)
)
texts = st.text(max_size=4)
keys = texts | st.integers() | st.booleans()
trees = st.recursive(
    atoms,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(keys, inner, max_size=4)
        | st.builds(slice, inner, inner, inner)
    ),
    max_leaves=12,
)


def is_tensor(value: Any) -> bool:
    return value is TENSOR


def back(*args: Any, **kwargs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    return decode_arguments(Encoder(is_tensor).arguments(args, kwargs))


@settings(deadline=None)
@given(
    st.lists(trees | st.just(TENSOR), max_size=4).map(tuple), st.dictionaries(st.text(max_size=4), trees, max_size=3)
)
def test_plain_data_comes_back_as_it_was(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    encoder = Encoder(is_tensor)
    found = decode_arguments(encoder.arguments(args, kwargs))
    assert found == (args, kwargs)
    assert repr(found) == repr((args, kwargs))  # types, too: True is not 1
    assert encoder.n_things == 0


@settings(deadline=None)
@given(trees)
def test_a_plain_value_comes_back_as_it_was(value: Any) -> None:
    text = Encoder(is_tensor).value(value)
    assert text is not None
    assert repr(decode_values([text])) == repr([value])


@settings(deadline=None)
@given(st.recursive(st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=10))
def test_any_json_is_read_or_refused(tree: Any) -> None:
    import json

    try:
        decode_arguments(json.dumps(tree))
    except DamagedError:
        pass


class Color(enum.StrEnum):
    RED = "red"


class Size(enum.IntEnum):
    LARGE = 3


def test_numbers_and_texts_of_other_classes_become_plain() -> None:
    given = (np.float64(0.5), np.int64(3), np.bool_(True), Color.RED, Size.LARGE, float("inf"))
    (half, three, true, red, large, infinite), _ = back(*given)
    assert [half, three, true, red, large, infinite] == [0.5, 3, True, "red", 3, float("inf")]
    assert [type(value) for value in (half, three, true, red, large)] == [float, int, bool, str, int]
    assert arguments_text((half, three, true, red, large, infinite), {}, is_tensor) == arguments_text(
        given, {}, is_tensor
    )


Pair = namedtuple("Pair", "left right")


@dataclass
class Setting:
    scale: float
    mask: Any


class Odd:
    def __repr__(self) -> str:
        raise RuntimeError("no")


def test_named_tuples_and_dataclasses_keep_their_names_and_the_places_of_tensors() -> None:
    given = ([Pair(1, TENSOR)], Setting(0.5, [TENSOR]))
    found, _ = back(*given)
    assert found[0] == [(1, TENSOR)]
    assert (found[0][0].left, found[1].scale) == (1, 0.5)
    paths = [[path for path, _ in leaves(tree, is_tensor)] for tree in (found, given)]
    assert paths[0] == paths[1] == ["0.0.right", "1.mask.0"]
    assert arguments_text(found, {}, is_tensor) == arguments_text(given, {}, is_tensor)


def test_anything_else_is_told_in_words() -> None:
    encoder = Encoder(is_tensor)
    (odd, many, long, huge), _ = decode_arguments(
        encoder.arguments((Odd(), list(range(30_000)), "x" * 9_000, 10**3_000), {})
    )
    assert odd == OpaqueArgument("Odd", "<Odd>")
    assert (many.name[:9], long.name[:3]) == ("[0, 1, 2,", "'xx")
    assert isinstance(huge, OpaqueArgument)
    assert encoder.n_things == 4
    assert Encoder(is_tensor).value([Odd()]) is None


def test_a_container_that_holds_itself_ends() -> None:
    loop: list[Any] = []
    loop.append(loop)
    assert back(loop)[0][0][0][0][0]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[",
        "1",
        "[[],[]],[[],[]]",
        "[[1],[2]]",
        '[[["q"]],[]]',
        '[[["s"]],[]]',
        '[[["d",1]],[]]',
        '[[["d",["l"],1]],[]]',
        "[[[[]]],[]]",
        '[[{"a":1}],[]]',
        '[[["x","only one"]],[]]',
        '[[["b","zz"]],[]]',
        '[[["n","Pair",["a"],1,2]],[]]',
        '[[["n","Pair",["__class__"],1]],[]]',
        '[[["o","import os",["a"],1]],[]]',
        '[[["g",1,2,0]],[]]',
        f"[[{'[' * 100}{']' * 100}],[]]",
        f"[[{'[' * 100_000}{']' * 100_000}],[]]",
        f"[[{'9' * 5_000}],[]]",
    ],
)
def test_damaged_arguments_are_refused(text: str) -> None:
    with pytest.raises(DamagedError):
        decode_all_arguments([text])
