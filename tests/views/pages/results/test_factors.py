"""Factors as a page: text in the color of each, curves, layers and overlaps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cutaway.results.lm.factors import Factors, FactorText
from cutaway.results.lm.token_names import readable
from cutaway.views.pages.model import ColoredText, Heatmap, Lines, Page, Table
from cutaway.views.pages.result_pages import page_of

PIECES = ("one", ",", " two", ",", " three")


def made(**fields: object) -> Factors:
    given = {
        "method": "nmf",
        "weights": np.array([[0.0, 2, 0, 3], [1.0, 0, 4, 0]]),
        "units": np.array([[1.0, 1, 0], [0, 2, 2]]),
        "layer_names": ("h.0", "h.1"),
        "layers": np.array([0, 0, 1]),
        "indices": np.array([0, 1, 0]),
        "error": 0.125,
        "texts": (FactorText(0, 4, PIECES, 3),),
        "notes": ("Something to know.",),
    }
    return Factors(**{**given, **fields})  # type: ignore[arg-type]


def numbers(rows: Any) -> Any:
    return np.array(rows, float)


def blocks(page: Page, kind: type) -> list[object]:
    return [each for section in page.sections for each in section.blocks if isinstance(each, kind)]


def test_given_tokens_have_responses_and_written_ones_causes() -> None:
    page = page_of(made())
    assert page is not None
    (text,) = blocks(page, ColoredText)
    assert isinstance(text, ColoredText)
    assert text.channels == ("0 ,", "1 ·two")
    assert text.shows_strongest
    assert text.texts[0].tokens == PIECES
    scales = np.sqrt([[2], [8]])  # a weight of 1 is so much of the units
    assert np.allclose(numbers(text.texts[0].values), scales * [[0, 2, 0, 0, 3], [1, 0, 4, 4, 0]])
    assert text.texts[0].marks == (3, 4)
    assert not text.is_signed


def test_a_text_that_was_only_read_has_a_value_for_each_token() -> None:
    (text,) = blocks(made(texts=(FactorText(0, 4, PIECES),)).page(), ColoredText)
    assert isinstance(text, ColoredText)
    assert text.texts[0].values[0] == (0, pytest.approx(2 * 2**0.5), 0, pytest.approx(3 * 2**0.5), None)
    assert text.texts[0].marks == ()


def test_curves_units_layers_and_overlaps_are_told() -> None:
    page = made().page()
    cells = ("“,”", "“·three”", "h.0#0, h.0#1", "h.0#0, h.0#1")
    (lines,), (table, *_) = (blocks(page, kind) for kind in (Lines, Table))
    assert isinstance(lines, Lines)
    assert lines.x_names == tuple(map(readable, PIECES[: len(lines.x)]))
    assert np.allclose(numbers([line.y for line in lines.lines]), [[0, 2 / 3, 0, 1], [0.25, 0, 1, 0]])
    assert isinstance(table, Table)
    assert table.rows[0] == ("0", pytest.approx(10 / 30), 2, pytest.approx(2 / 3), *cells)
    assert "12.5 % of the activations unexplained" in page.about
    layers, overlap = blocks(page, Heatmap)
    assert isinstance(layers, Heatmap)
    assert layers.values == ((1, 0), (0.5, 0.5))
    assert isinstance(overlap, Heatmap)
    assert overlap.values == ((2, 1), (1, 2))
    assert "Something to know." in page.text()


def test_without_tokens_and_layers_there_are_curves_all_the_same() -> None:
    page = made(texts=(), layer_names=("",), layers=np.zeros(3, np.int64), method="kmeans").page()
    assert blocks(page, ColoredText) == blocks(page, Heatmap) == []
    assert len(blocks(page, Lines)) == 1
    assert "2 factors of 3 units" in made()._repr_html_()


def test_factors_of_pca_contend_by_their_own_spread() -> None:
    weights = np.array([[90.0, -30, -30, -30], [1, -2, 0, 1]])
    (block,) = blocks(made(method="pca", weights=weights, texts=(FactorText(0, 4, PIECES[:4]),)).page(), ColoredText)
    assert isinstance(block, ColoredText)
    assert np.allclose(numbers(block.texts[0].values), weights / weights.std(axis=1, keepdims=True))
    assert np.abs(numbers(block.texts[0].values)).argmax(axis=0).tolist() == [0, 1, 0, 1]


def test_each_text_has_its_own_values() -> None:
    texts = (FactorText(0, 1, ("a", "b"), 1, "first"), FactorText(1, 4, ("c", "d", "e"), None, "second"))
    page = made(texts=texts).page()
    (block,) = blocks(page, ColoredText)
    assert isinstance(block, ColoredText)
    assert [text.title for text in block.texts] == ["first", "second"]
    assert np.allclose(numbers(block.texts[0].values), np.sqrt([[2], [8]]) * [[0, 0], [1, 1]])
    assert np.allclose(numbers(block.texts[1].values), np.sqrt([[2], [8]]) * [[2, 0, 3], [0, 4, 0]])
    assert blocks(page, Lines) == []


def test_the_strongest_at_each_token_is_told_without_a_browser() -> None:
    page = made().page()
    assert "1:one 0:, 1:·two [1:," not in page.text()
    assert "1:one 0:, 1:·two 1:[,] 0:[·three]" in page.text()
    html = made()._repr_html_()
    assert "the strongest at each token" in html
    assert 'title="1 ·two">one</span>' in html
