"""What all results can do, wherever the code for it lies."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import cutaway
from cutaway.results.neurons.comparison import Stability
from cutaway.results.neurons.ranking import ranked
from cutaway.results.result import Result
from cutaway.views.pages.model import Heatmap, Page

RANKING = ranked("mine", [0.5, 2.0])


def test_a_result_is_a_page_a_text_and_a_file(tmp_path: Path) -> None:
    page = RANKING.page()
    assert isinstance(page, Page)
    assert RANKING.text(80) == page.text(80)
    assert RANKING.to_html(tmp_path / "page.html").read_text().startswith("<!doctype html>")
    assert RANKING._repr_html_().startswith("<")


def test_a_result_has_no_room_for_more_than_its_fields() -> None:
    assert not hasattr(RANKING, "__dict__")
    assert Result.__slots__ == ()


def test_a_page_is_its_own_page() -> None:
    page = Page("P", topic="neurons")
    assert page.page() is page
    assert page.topic == "neurons"


def test_stability_is_shown_by_the_overlap_of_its_seeds() -> None:
    overlap = np.array([[1.0, 0.5], [0.5, 1.0]])
    page = Stability("linear", 2, (0, 1), 0.8, overlap, np.array([1.0, 0.5, 0.5])).page()
    facts, heatmap = page.sections[0].blocks
    assert [fact.value for fact in facts.items] == ["2", "0.50", "1"]
    assert isinstance(heatmap, Heatmap)
    assert heatmap.values == ((1.0, 0.5), (0.5, 1.0))


def test_what_is_loaded_is_shown_as_what_was_saved(tmp_path: Path) -> None:
    RANKING.save(tmp_path / "r")
    found = cutaway.load(tmp_path / "r")
    assert isinstance(found, Result)
    assert found.page() == RANKING.page()
