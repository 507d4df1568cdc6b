"""Similarities as pages: a map of many, a line over training, a spectrum of two."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cutaway.results.lm.similarity import Dissimilarities, Similarity
from cutaway.views.pages.model import Bars, Facts, Heatmap, Lines, Page, Prose, Table
from cutaway.views.pages.result_pages import page_of


def made(values: object, rows: tuple[str, ...], columns: tuple[str, ...], **fields: object) -> Similarity:
    array = np.array(values, np.float64)
    given = {"method": "cka", "n_rows": 50, "row_units": (4,) * len(rows), "column_units": (6,) * len(columns)}
    return Similarity(values=array, row_names=rows, column_names=columns, **{**given, **fields})  # type: ignore[arg-type]


LAYERS = ("h.0", "h.1", "h.10")
SQUARE = made([[1, 0.9, 0.2], [0.9, 1, 0.4], [0.2, 0.4, 1]], LAYERS, LAYERS, is_within=True)


def block(page: Page, kind: type) -> object:
    (found,) = [each for section in page.sections for each in section.blocks if isinstance(each, kind)]
    return found


def test_layers_are_a_map_with_short_names_and_each_beside_the_next() -> None:
    page = page_of(SQUARE)
    assert page is not None
    heatmap, bars, table = (block(page, kind) for kind in (Heatmap, Bars, Table))
    assert isinstance(heatmap, Heatmap)
    assert heatmap.row_names == heatmap.column_names == ("0", "1", "10")
    assert (heatmap.low, heatmap.high) == (0.0, 1.0)
    assert heatmap.values[0] == (1, 0.9, 0.2)
    assert isinstance(bars, Bars)
    assert (bars.names, bars.values) == (("0 → 1", "1 → 10"), (0.9, 0.4))
    assert isinstance(table, Table)
    assert table.rows == (("h.0", "h.1", 0.9), ("h.1", "h.10", 0.4), ("h.0", "h.10", 0.2))


@pytest.mark.parametrize(("least", "low"), [(0.83, 0.8), (0.3, 0.0), (-0.12, -0.2), (1.0, 0.9), (float("nan"), 0.9)])
def test_the_palest_color_leaves_room_for_what_differs(least: float, low: float) -> None:
    found = block(made([[1, least], [least, 1]], ("a", "b"), ("c", "d")).page(), Heatmap)
    assert isinstance(found, Heatmap)
    assert found.low == pytest.approx(low)


def test_many_layers_have_colors_alone() -> None:
    names = tuple(f"layers.{i}" for i in range(20))
    page = made(np.eye(20), names, names, is_within=True).page()
    heatmap = block(page, Heatmap)
    assert isinstance(heatmap, Heatmap)
    assert not heatmap.shows_numbers


def test_a_map_that_is_not_even_lists_both_directions() -> None:
    table = block(made([[1, 0.6], [0.7, 1]], ("x", "y"), ("x", "y"), is_within=True, method="pwcca").page(), Table)
    assert isinstance(table, Table)
    assert table.rows == (("y", "x", 0.7), ("x", "y", 0.6))


def test_steps_of_a_training_are_a_line_and_other_names_are_bars() -> None:
    line = block(made([[0.1], [0.8], [1.0]], ("step 0", "step 10", "step 100"), ("end",)).page(), Lines)
    assert isinstance(line, Lines)
    assert (line.x, line.lines[0].y) == ((0, 10, 100), (0.1, 0.8, 1.0))
    bars = block(made([[0.1, -0.8]], ("end",), ("a", "b")).page(), Bars)
    assert isinstance(bars, Bars)
    assert bars.is_signed


def test_two_are_a_number_with_its_correlations_and_its_notes() -> None:
    spectrum = np.array([[[0.9, 0.5, np.nan]]])
    found = made([[0.7]], ("a",), ("b",), method="cca", correlations=spectrum, notes=("Few rows.",))
    page = found.page()
    lines, facts, prose = (block(page, kind) for kind in (Lines, Facts, Prose))
    assert isinstance(lines, Lines)
    assert lines.lines[0].y == (0.9, 0.5)
    assert isinstance(facts, Facts)
    assert [(fact.name, fact.value) for fact in facts.items][:2] == [("similarity", "0.7000"), ("method", "CCA")]
    assert isinstance(prose, Prose)
    assert prose.text == "Few rows."
    assert "0.7000" in found.text()


def test_dissimilarities_are_a_map_of_named_rows() -> None:
    values = np.abs(np.subtract.outer(np.arange(300.0), np.arange(300.0)))
    page = Dissimilarities(values, metric="euclidean").page()
    heatmap = block(page, Heatmap)
    assert isinstance(heatmap, Heatmap)
    assert len(heatmap.row_names) == 120
    assert heatmap.row_names[-1] == "299"
    assert "120 of 300 rows" in page.text()
    named = block(Dissimilarities(values[:2, :2].copy(), metric="euclidean", names=("p", "q")).page(), Heatmap)
    assert isinstance(named, Heatmap)
    assert named.row_names == ("p", "q")


def test_both_are_shown_in_notebooks_and_files(tmp_path: Path) -> None:
    assert "Similarity by linear CKA" in SQUARE._repr_html_()
    assert "Dissimilarity of rows" in Dissimilarities(np.zeros((2, 2)), metric="cosine")._repr_html_()
    SQUARE.page().to_html(tmp_path / "page.html")
    assert "Similarity by linear CKA" in (tmp_path / "page.html").read_text(encoding="utf-8")
