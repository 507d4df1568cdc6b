"""A few pictures are held to the letter, so that a change in how they look is seen by whoever makes it.

`CUTAWAY_DRAW_GOLDENS=1 python -m pytest tests/views/test_goldens.py` draws them again.
Look at them before you keep them.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.views.nets import loop, perceptron, stack

FOLDER = Path(__file__).parent / "golden"
PICTURES: dict[str, Callable[[], str]] = {
    "perceptron": lambda: perceptron().draw(),
    "perceptron-right-bytes": lambda: perceptron().draw(direction="right", color_by="bytes"),
    "stack": lambda: stack().draw(),
    "stack-rolled": lambda: stack().draw(rolled=True),
    "stack-depth-1": lambda: stack().draw(depth=1),
    "stack-focus": lambda: stack().draw(focus="blocks.1.inner.1"),
    "loop-rolled": lambda: loop().draw(rolled=True),
    "loop-rolled-right": lambda: loop().draw(rolled=True, direction="right"),
}


@pytest.mark.parametrize("name", PICTURES)
def test_the_picture_is_the_one_that_was_looked_at(name: str) -> None:
    drawn, path = PICTURES[name](), FOLDER / f"{name}.svg"
    if os.environ.get("CUTAWAY_DRAW_GOLDENS"):
        FOLDER.mkdir(exist_ok=True)
        path.write_text(drawn, encoding="utf-8")
    # Line by line: a failure shows what changed and not two whole pictures.
    assert drawn.splitlines() == path.read_text(encoding="utf-8").splitlines()


def test_there_is_no_golden_that_nothing_draws() -> None:
    assert {path.stem for path in FOLDER.glob("*.svg")} == set(PICTURES)
