"""What Python sends is what the browser expects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests import wire


@pytest.mark.parametrize("file", wire.FILES, ids=lambda file: f"{file.parent.name}/{file.name}")
def test_the_typescript_of_the_views_is_that_of_their_dataclasses(file: Path) -> None:
    written = file.read_text(encoding="utf-8")
    made = wire.typescript(*wire.FILES[file])
    assert written == made, "the views have changed: run `python -m tests.wire`, and mend what tsc finds"


@pytest.mark.parametrize(
    ("hint", "said"),
    [
        (tuple[int, ...], "number[]"),
        (tuple[str, float], "[string, number]"),
        (tuple[float | None, ...], "(number | null)[]"),
        (tuple[tuple[str, ...], ...], "string[][]"),
        (dict[int, tuple[str, ...]], "Record<number, string[]>"),
        (frozenset[int], "number[]"),
        (Sequence[str], "string[]"),
        (bool | None, "boolean | null"),
    ],
)
def test_a_python_type_has_its_typescript(hint: object, said: str) -> None:
    assert wire._typed(hint, {}) == said


def test_a_type_that_cannot_travel_is_refused() -> None:
    with pytest.raises(TypeError, match="in TypeScript"):
        wire._typed(complex, {})


@dataclass
class Example:
    """Something."""

    size: int
    """How large
    it is."""
    other: str


def test_what_stands_below_a_field_goes_along() -> None:
    assert wire._interface(Example, {}) == (
        "/** Something. */\nexport interface Example {\n  /** How large it is. */\n  size: number;\n  other: string;\n}"
    )
