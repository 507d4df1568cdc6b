"""The page of a lens shows what each layer would have written, and how near what was written is."""

from __future__ import annotations

from typing import Any

import numpy as np

from cutaway.results.lm.lens import Lens, Watched
from cutaway.views.pages.html import static_html
from cutaway.views.pages.model import Heatmap, Lines, Page, Prose, Table
from cutaway.views.pages.results.lens import lens_page


def made(n_targets: int = 3, **more: Any) -> Lens:
    rng = np.random.default_rng(0)
    n_layers, n_classes, k = 4, 50, 6
    logits = rng.normal(size=(n_layers, n_targets, n_classes))
    logprobs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    ids = np.arange(n_targets) % n_classes
    order = np.argsort(-logits, axis=-1)[..., :k]
    own = np.take_along_axis(logprobs, ids[None, :, None].repeat(n_layers, 0), -1)[..., 0]
    return Lens(
        layers=("embedding", "0 attention", "0", "1"),
        sites=("wte", "h.0.ln_2@in.0", "h.0", "h.1"),
        targets=tuple(f" t{i}" for i in ids),
        target_ids=ids,
        rows=np.arange(n_targets),
        is_written=np.ones(n_targets, bool),
        ranks=1 + (logprobs > own[..., None]).sum(-1),
        logprobs=own,
        entropies=-(np.exp(logprobs) * logprobs).sum(-1),
        kl=(np.exp(logprobs[-1]) * (logprobs[-1] - logprobs)).sum(-1),
        top_ids=order,
        top_logprobs=np.take_along_axis(logprobs, order, -1),
        named_ids=np.arange(n_classes),
        names=tuple(f" w{i}" if i else "<script>" for i in range(n_classes)),
        n_classes=n_classes,
        **more,
    )


def blocks(page: Page, kind: type) -> list[Any]:
    return [block for section in page.sections for block in section.blocks if isinstance(block, kind)]


def test_each_cell_has_the_likeliest_of_its_layer_and_the_rank_of_what_was_written() -> None:
    lens = made()
    page = lens_page(lens)
    assert page.topic == "language"
    (heatmap,) = blocks(page, Heatmap)
    assert heatmap.row_names == lens.layers
    assert heatmap.column_names == ("·t0", "·t1", "·t2")
    assert [list(row) for row in heatmap.values] == lens.ranks.tolist()
    assert heatmap.texts[2][1] == lens.top_pieces[2, 1, 0].replace(" ", "·")
    assert f"rank {lens.ranks[2, 1]}" in heatmap.notes[2][1]
    assert heatmap.is_log
    assert (heatmap.low, heatmap.high) == (50, 1)


def test_layers_stand_in_a_table_and_in_lines() -> None:
    lens = made(notes=("something to know.",))
    page = lens_page(lens)
    table, *words = blocks(page, Table)
    assert [row[0] for row in table.rows] == list(lens.layers)
    assert table.rows[0][1] == float(np.median(lens.ranks[0]))
    assert table.rows[-1][3] == 1.0
    assert len(words) == 3
    assert [row[1] for row in words[1].rows] == lens.ranks[:, 1].tolist()
    probabilities, distances = blocks(page, Lines)
    np.testing.assert_allclose(probabilities.lines[0].y, lens.probs[:, 0])
    np.testing.assert_allclose(distances.lines[0].y, lens.kl.mean(1))
    assert blocks(page, Prose)[0].text == "Something to know."


def test_watched_tokens_have_lines_and_ranks() -> None:
    ranks = np.array([[[50, 1]], [[10, 2]], [[5, 3]], [[1, 4]]])
    watched = Watched(np.array([3, 4]), (" is", " are"), ranks, -np.log(ranks + 0.0))
    page = lens_page(made(1, watched=watched))
    _, heatmap = blocks(page, Heatmap)
    assert heatmap.column_names == ("·is", "·are")
    assert [list(row) for row in heatmap.values] == ranks[:, 0].tolist()
    np.testing.assert_allclose(blocks(page, Lines)[0].lines[1].y, np.log10(ranks[:, 0, 1]))


def test_long_texts_are_cut_and_odd_ones_are_only_text() -> None:
    page = lens_page(made(200))
    (heatmap,) = blocks(page, Heatmap)
    assert len(heatmap.column_names) == 60
    assert len(set(heatmap.column_names)) == 60
    assert "The last 60 of 200" in page.sections[0].about
    assert "<script>" not in static_html(page)
    assert "·w" in page.text()


def test_a_lens_of_nothing_has_a_page() -> None:
    page = lens_page(made(0))
    assert not blocks(page, Heatmap)
    assert page.text()
    assert static_html(page)
