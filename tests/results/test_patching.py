"""Patches are ordered by what they recover, and printed so."""

from __future__ import annotations

from typing import Any

import numpy as np

from cutaway.results.patching import Patching


def patching(scores: Any, clean: Any = 2.0, corrupted: Any = 1.0, positions: Any = (0, 1)) -> Patching:
    array = np.array(scores, dtype=np.float64)
    return Patching(
        model="Net",
        sites=tuple(f"h.{i}" for i in range(len(array))),
        positions=np.array(positions),
        clean=np.array(clean, dtype=np.float64),
        corrupted=np.array(corrupted, dtype=np.float64),
        scores=array,
    )


def test_what_is_recovered_runs_from_none_to_all() -> None:
    found = patching([[1, 2], [1.5, 0.5]])
    assert found.recovered.tolist() == [[0, 1], [0.5, -0.5]]
    assert found.top(3) == [("h.0", 1), ("h.1", 0), ("h.0", 0)]
    falling = patching([[1, 2]], clean=0.0, corrupted=2.0)
    assert falling.recovered.tolist() == [[0.5, 0]]


def test_entries_without_a_gap_are_left_out() -> None:
    found = patching([[[1, 7], [2, 7]]], clean=[2, 3], corrupted=[1, 3])
    assert np.isnan(found.recovered[..., 1]).all()
    assert found.top(1) == [("h.0", 1)]


def test_it_prints_what_recovers_most() -> None:
    assert repr(patching([[1, 2], [1.5, 0.5]])).splitlines() == [
        "Patching of Net: 2 sites × 2 positions",
        "  clean 2, corrupted 1",
        "  h.0 position 1  2, 100 % recovered",
        "  h.1 position 0  1.5, 50 % recovered",
        "  h.0 position 0  1, 0 % recovered",
        "  h.1 position 1  0.5, -50 % recovered",
    ]
    whole = patching([[1.25]], positions=[-1])
    assert repr(whole).splitlines()[2] == "  h.0  1.25, 25 % recovered"
    assert whole.top(1) == [("h.0", None)]


def test_the_table_has_a_row_for_each_patch() -> None:
    table = patching([[1, 2], [1.5, 0.5]]).table()
    assert list(table) == ["site", "position", "score", "recovered"]
    assert table["recovered"].tolist() == [0, 1, 0.5, -0.5]
    assert table["site"].tolist() == ["h.0", "h.0", "h.1", "h.1"]
