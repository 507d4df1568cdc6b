"""Collections as pages, and what lists say of collections and saved results."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cutaway.core.errors import DamagedError
from cutaway.results.neurons.ranking import ranked
from cutaway.store.activations.activations import Activations
from cutaway.store.activations.sampling import UnitReader
from cutaway.store.activations.windows import CollectedSite
from cutaway.store.activations.writer import ActivationsWriter, Rows
from cutaway.store.reading.archive import Archive
from cutaway.store.writing.writer import Writer
from cutaway.views.pages.model import Facts, Page, Section
from cutaway.views.pages.page_items import SiteItem, collection_item, result_item
from cutaway.views.pages.results.activations import activations_view, unit_view

PROVENANCE = {
    "model": {"class": "BertModel", "name": "minilm", "n_parameters": 22_000_000},
    "rows": "words",
    "special": True,
    "left_out": {"h.2": "it was ordered by the data"},
    "time": 1.7e9,
}


def collected(path: Path, n_windows: int = 2) -> Activations:
    sites = [CollectedSite("h.0", 4), CollectedSite("h.1", 2, units=(3, 8))]
    with ActivationsWriter(path, sites, aggregate="last", provenance=PROVENANCE) as writer:
        for window in range(n_windows):
            values = np.random.default_rng(window).normal(size=(6, 6)).astype(np.float32)
            rows = Rows.of([2 * window] * 3 + [2 * window + 1] * 3, word=[0, 1, 2] * 2)
            words = ["a", "b", "c"] * 2
            arrays = {"h.0": values[:, :4], "h.1": values[:, 4:]}
            writer.window(arrays, rows, words, n_items=2, problems=[(2 * window, "it is long")])
    return Activations.read(Archive(path))


def facts_of(section: Section) -> dict[str, str]:
    (facts,) = section.blocks
    assert isinstance(facts, Facts)
    return {fact.name: fact.value for fact in facts.items}


def test_the_page_of_a_collection_tells_what_was_collected_and_how(tmp_path: Path) -> None:
    view = activations_view(collected(tmp_path / "acts"))
    sections = {section.title: section for section in view.page.sections}
    assert facts_of(sections["Summary"]) == {
        "rows": "12",
        "units": "6",
        "items": "4",
        "values": "float32",
        "aggregation": "last",
        "special tokens": "kept",
        "unit rule": "sizes",
        "sites left out": "1",
        "problems": "2",
    }
    assert facts_of(sections["Collected from"])["model"] == "BertModel"
    assert sections["Sites"].blocks[0].rows == (("h.0", 4), ("h.1", 2))
    assert sections["Sites left out"].blocks[0].rows == (("h.2", "it was ordered by the data"),)
    assert sections["Problems"].blocks[0].rows == ((0, "it is long"), (2, "it is long"))
    assert [(site.site, site.width, site.units) for site in view.sites] == [("h.0", 4, ()), ("h.1", 2, (3, 8))]


def test_the_page_of_a_unit_names_the_rankings_that_know_it(tmp_path: Path) -> None:
    acts = collected(tmp_path / "acts")
    ranking = ranked("mine", np.arange(6.0), names=list(acts.names))
    page = unit_view(UnitReader(acts), "h.1#8", {"folder/mine": ranking}, n_left_out=3).page
    assert page.title == "h.1#8"
    assert page.about == "3 further rankings in this folder not read."
    places = next(section for section in page.sections if section.title == "Ranks by method").blocks[0]
    assert places.columns[0].name == "saved as"
    assert places.rows[0][:4] == ("folder/mine", "mine", "all", 1)


def test_a_sample_says_that_it_is_one(tmp_path: Path) -> None:
    acts = collected(tmp_path / "acts", 8)
    page = unit_view(UnitReader(acts, most_rows=24), "h.0#1", {}).page
    assert page.about.startswith("From 24 of 48 rows (50.0 %), sampled evenly")
    assert unit_view(UnitReader(acts), "h.0#1", {}).page.about == ""


def test_a_collection_without_rows_has_pages_all_the_same(tmp_path: Path) -> None:
    acts = collected(tmp_path / "acts", 0)
    assert facts_of(activations_view(acts).page.sections[0])["rows"] == "0"
    assert "no rows" in unit_view(UnitReader(acts), "h.0#1", {}).page.about


def test_the_list_knows_collections_and_results_without_reading_them(tmp_path: Path) -> None:
    collected(tmp_path / "acts")
    item = collection_item(Archive(tmp_path / "acts"), edition="x")
    assert (item.topic, item.type, item.title, item.created) == ("neurons", "Activations", "BertModel · minilm", 1.7e9)
    assert (item.n_rows, item.n_units, item.edition) == (12, 6, "x")
    assert item.sites == (SiteItem("h.0", 4, 3), SiteItem("h.1", 2, 8))
    known = [("language", "language"), ("neurons", "neurons"), ("start", "start")]
    for topic, expected in [*known, ("", "neurons"), ("weather", "neurons")]:
        Page("About it", topic=topic).save(tmp_path / f"page-{topic}")
        found = result_item(Archive(tmp_path / f"page-{topic}"))
        assert (found.topic, found.type, found.title) == (expected, "Page", "About it")
        assert found.created > 1.7e9


def test_a_result_that_was_begun_and_not_written_is_told(tmp_path: Path) -> None:
    Writer(tmp_path / "half", kind="result").close()
    with pytest.raises(DamagedError, match="not saved completely"):
        result_item(Archive(tmp_path / "half"))
