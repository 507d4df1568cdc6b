"""Patching as a page: layers × tokens, layers × heads, or layers alone."""

from __future__ import annotations

import numpy as np
import pytest

from cutaway.results.patching import Patching
from cutaway.views.pages.model import Bars, Heatmap, Page, Table


def made(**fields: object) -> Patching:
    given = {
        "model": "Net",
        "sites": ("h.0.mlp", "h.1.mlp"),
        "positions": np.array([0, 1, 2]),
        "clean": np.array(3.0),
        "corrupted": np.array(1.0),
        "scores": np.array([[1.0, 3.0, 1.0000001], [1.0, 0.0, 2.0]]),
        "row_names": ("layer 0", "layer 1"),
        "clean_pieces": ("a", " b", " c"),
        "corrupted_pieces": ("a", " d", " c"),
        "about": {"part": "stream", "clean": "a b c", "corrupted": "a d c", "target": " x", "contrast": " y"},
    }
    return Patching(**{**given, **fields})  # type: ignore[arg-type]


def block(page: Page, kind: type) -> object:
    (found,) = [each for section in page.sections for each in section.blocks if isinstance(each, kind)]
    return found


def test_layers_and_tokens_of_both_prompts() -> None:
    page = made().page()
    heatmap = block(page, Heatmap)
    assert isinstance(heatmap, Heatmap)
    assert heatmap.row_names == ("layer 0", "layer 1")
    assert heatmap.column_names == ("0 a", "1 ·b / ·d", "2 ·c")
    assert heatmap.values == ((0, 1, 0), (0, -0.5, 0.5))
    assert heatmap.high == 1
    table = block(page, Table)
    assert isinstance(table, Table)
    assert table.rows[0] == ("layer 0", "1 ·b / ·d", 1.0, 3.0, "h.0.mlp")
    assert "·x − ·y" in page.text()
    assert page.topic == "language"


def test_heads_are_a_map_of_their_own() -> None:
    scores = np.array([[1.0, 1.5], [1.0, 2.0], [0.0, 1.1], [1.0, 1.0]])
    fields = {"sites": ("h.0.o", "h.0.o", "h.10.o", "h.10.o"), "scores": scores, "positions": np.array([0, 1])}
    names = {"row_names": tuple("abcd"), "clean_pieces": ("a", "b"), "corrupted_pieces": ("a", "c")}
    heatmap = block(made(**fields, **names, heads=np.array([0, 1, 0, 1])).page(), Heatmap)
    assert isinstance(heatmap, Heatmap)
    assert heatmap.row_names == ("layer 0", "layer 10")
    assert heatmap.column_names == ("head 0", "head 1")
    assert heatmap.values == ((0.25, 0.5), (-0.5, 0))


def test_whole_values_are_bars_and_a_study_of_any_model_has_a_page() -> None:
    whole = {"scores": np.array([[3.0], [2.0]]), "positions": np.array([-1])}
    plain: dict[str, object] = {"clean_pieces": (), "corrupted_pieces": (), "about": {}, "row_names": ()}
    bars = block(made(**whole, **plain).page(), Bars)
    assert isinstance(bars, Bars)
    assert bars.names == ("0", "1")
    assert bars.values == (1, 0.5)
    page = made(**plain).page()
    heatmap = block(page, Heatmap)
    assert isinstance(heatmap, Heatmap)
    assert heatmap.column_names == ("0", "1", "2")
    several = made(clean=np.array([3.0, 1.0]), corrupted=np.array([1.0, 1.0]), scores=np.ones((2, 3, 2)), **plain)
    assert several.share.shape == (2, 3)
    assert "Net" in several.page().text()
    same = made(clean=np.array(1.0), **plain)
    assert np.isnan(same.share).all()
    assert "Net" in same.text()


def test_its_arrays_cannot_be_written_to() -> None:
    with pytest.raises(ValueError, match="read-only"):
        made().scores[0, 0] = 1
