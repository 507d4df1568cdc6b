"""Evaluations are read as numbers, tables and text."""

from __future__ import annotations

import numpy as np
import pytest

from cutaway.core.errors import InputError
from cutaway.results.neurons.evaluation import Estimate, Evaluation, Layers, Setting

SETTING = Setting("probeless", "accuracy", "classes", 100, 8, 10, "sentences", 5, (0,), 0.95, 1.5, True)


def evaluation(**fields: object) -> Evaluation:
    kept = (Estimate(0.6, 0.5, 0.7), Estimate(0.79, 0.7, 0.9))
    given = {
        "setting": SETTING,
        "counts": (1, 4),
        "kept": kept,
        "all_units": Estimate(0.8, 0.75, 0.85),
        "delta": (Estimate(-0.2, -0.3, -0.1), Estimate(-0.01, -0.1, 0.1)),
        **fields,
    }
    return Evaluation(**given)  # type: ignore[arg-type]


def test_an_estimate_is_a_number_with_an_interval() -> None:
    found = Estimate(0.5, 0.4, 0.6)
    assert float(found) == 0.5
    assert 0.4 in found
    assert 0.61 not in found
    assert repr(found) == "0.500 [0.400, 0.600]"


def test_the_score_is_that_of_the_most_units() -> None:
    found = evaluation()
    assert found.n == 4
    assert found.score.value == 0.79
    alone = evaluation(counts=(), kept=(), delta=())
    assert alone.n == 8
    assert alone.score.value == 0.8


def test_the_smallest_number_that_is_enough() -> None:
    assert evaluation().smallest(0.02) == 4
    assert evaluation().smallest(0.3) == 1
    assert evaluation().smallest(0.0) is None
    with pytest.raises(InputError, match="within=-1"):
        evaluation().smallest(-1)


def test_its_arrays_cannot_be_written_to() -> None:
    found = evaluation(chosen=np.ones(8))
    with pytest.raises(ValueError, match="read-only"):
        found.chosen[0] = 1.0


def test_a_table_has_a_row_for_each_number_of_units() -> None:
    rows = evaluation().table()
    records = rows.to_dict("records") if hasattr(rows, "to_dict") else rows
    assert [row["n"] for row in records] == [1, 4]
    assert records[1]["score.low"] == 0.7
    assert "control" not in records[0]


def test_it_reads_in_a_terminal() -> None:
    text = repr(evaluation(null=np.full(19, 0.5), p_value=0.05, notes=("mind this",)))
    assert text.splitlines() == [
        "Evaluation of probeless: accuracy 0.790 [0.700, 0.900] with 4 of 8 units",
        "  all units 0.800 [0.750, 0.850], difference -0.010 [-0.100, 0.100]",
        "  permuted labels 0.500, p = 0.05",
        "  100 rows, 10 sentences; 5 folds, 1 seed",
        "  note: mind this",
    ]


def test_layers_are_found_by_site() -> None:
    alone = evaluation(counts=(), kept=(), delta=())
    best = evaluation(counts=(), kept=(), delta=(), all_units=Estimate(0.9, 0.8, 1.0))
    found = Layers(("h.0", "h.1"), (alone, best))
    assert found.best == "h.1"
    assert found["h.1"] is best
    assert "h.1  accuracy 0.900 [0.800, 1.000]" in repr(found)
    with pytest.raises(InputError, match=r"site 'h\.2' was not evaluated\. Evaluated sites: 'h\.0', 'h\.1'"):
        _ = found["h.2"]
