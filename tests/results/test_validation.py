"""The report reads well, and is true only where something was proven."""

from __future__ import annotations

from typing import Any

from cutaway.results.validation import Coverage, Failure, Validation


def report(**changes: Any) -> Validation:
    fields: dict[str, Any] = {
        "failures": (),
        "coverage": Coverage(exact=3, close=1, opaque=1),
        "outcomes": {},
        "edges_felt": 5,
        "edges_unfelt": 1,
        "outputs_compared": 1,
        "largest_deviation": 2e-7,
    }
    return Validation(**{**fields, **changes})


def test_it_is_true_when_nothing_failed_and_something_was_proven() -> None:
    assert report()
    assert not report(failures=(Failure("value", "relu_1_2", "net.py:3 in forward", "off"),))
    assert not report(coverage=Coverage(not_saved=4), outputs_compared=0)
    assert report(coverage=Coverage(opaque=4))
    assert report(coverage=Coverage(), outputs_compared=0)


def test_it_says_what_was_found() -> None:
    text = repr(report())
    assert text.splitlines()[0] == "valid: 4 of 5 ops proven, 1 of them within tolerance, 1 opaque"
    assert "6 inputs perturbed; 5 of them changed the result" in text
    assert "2.0e-07" in text


def test_a_failure_names_op_reason_and_line() -> None:
    failure = Failure("value", "relu_1_2", "net.py:3 in forward", "off by 1e-2")
    text = repr(report(failures=(failure,) * 12))
    assert text.startswith("NOT VALID")
    assert "relu_1_2: off by 1e-2 at net.py:3 in forward" in text
    assert "and 2 more failures" in text


def test_coverage_adds_up() -> None:
    coverage = Coverage(exact=1, close=2, failed=3, opaque=4, undefined=5, without_inputs=6, not_saved=7)
    assert coverage.total == 28
    assert coverage.proven == 3
