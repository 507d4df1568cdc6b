"""Calls with too many positional arguments are explained; signatures stay as they are."""

from __future__ import annotations

import inspect

import pytest

from cutaway.core.call_errors import explain_positional
from cutaway.core.errors import InputTypeError


class Probe:
    @explain_positional("Write probe.fit().")
    def fit(self, rows: int = 3, *, steps: int = 1) -> int:
        """Fits."""
        return rows * steps


def test_extra_arguments_are_counted_and_described() -> None:
    with pytest.raises(
        InputTypeError, match=r"^Probe\.fit\(\) got 1 positional argument too many, an int\. Write probe"
    ):
        Probe().fit(1, 2)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="2 positional arguments too many, a str and a list"):
        Probe().fit(1, "a", [])  # type: ignore[call-arg]


def test_correct_calls_and_other_mistakes_stay_pythons() -> None:
    assert Probe().fit(2, steps=5) == 10
    with pytest.raises(TypeError, match="unexpected keyword argument 'step'"):
        Probe().fit(step=1)  # type: ignore[call-arg]


def test_the_signature_and_the_docstring_stay() -> None:
    assert list(inspect.signature(Probe.fit).parameters) == ["self", "rows", "steps"]
    assert Probe.fit.__doc__ == "Fits."
