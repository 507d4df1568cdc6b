"""What type hints allow, as the language means them."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Optional, Protocol, TypeVar, Union

import numpy as np
import pytest
from numpy.typing import NDArray

from cutaway.store.results.types import ANY, entries_of, fields_of, fits, items_of, options_of, options_text

T = TypeVar("T")


class Named(Protocol):
    name: str


@pytest.mark.parametrize(
    ("value", "hint", "is_right"),
    [
        (3, int, True),
        (3, float, True),
        (3.0, int, False),
        (True, int, True),
        ("a", str | None, True),
        (None, Optional[str], True),  # noqa: UP045
        (None, str, False),
        (3, Union[str, float], True),  # noqa: UP007
        ("mean", Literal["zero", "mean"], True),
        ("max", Literal["zero", "mean"], False),
        (1, Literal[True], False),
        (np.float32(1), float, True),
        (np.int64(1), float, True),
        (np.str_("a"), str, True),
        (np.bool_(True), bool, True),
        (np.float32(1), int, False),
        (np.zeros(2), NDArray[np.float64], True),
        (np.zeros(2), NDArray[Any] | None, True),
        ([1.0], NDArray[np.float64], False),
        ((), tuple[int, ...], True),
        ([], tuple[int, ...], False),
        ([], Sequence[int], True),
        ({}, Mapping[str, int], True),
        ({}, Sequence[int], False),
        (object(), Any, True),
        (object(), object, True),
        (object(), T, True),
        (object(), Named, True),
        ("a", Hashable, True),
        ([], Hashable, False),
    ],
)
def test_a_value_fits_a_hint(value: Any, hint: Any, is_right: bool) -> None:
    assert fits(value, options_of(hint)) is is_right


def test_items_of_rows_are_said_one_by_one_or_all_alike() -> None:
    assert list(items_of(options_of(tuple[int, ...] | list[str]), 2) or ()) == [(int, str)] * 2
    assert list(items_of(options_of(tuple[int, str] | None), 2) or ()) == [(int,), (str,)]
    assert items_of(options_of(tuple[int, str] | None), 3) is None
    assert list(items_of(options_of(tuple[int, str] | Sequence[float]), 2) or ()) == [(float, int), (float, str)]
    assert list(items_of(options_of(tuple), 1) or ()) == list(items_of(ANY, 1) or ()) == [ANY]  # type: ignore[type-arg]
    assert items_of(options_of(str | Mapping[str, int]), 1) is None


def test_entries_are_open_where_several_mappings_are_allowed() -> None:
    assert entries_of(options_of(Mapping[str, int] | dict[int, str])) == (ANY, ANY)
    assert entries_of(options_of(Mapping[str, int | None])) == ((str,), (int, type(None)))


def test_fields_have_their_hints_resolved() -> None:
    @dataclass
    class Part:
        x: int | None

    assert fields_of(Part) == {"x": (int, type(None))}
    assert options_text(fields_of(Part)["x"]) == "int or NoneType"
