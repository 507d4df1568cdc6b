"""The page of a generation says what was read, what was written, how surely, and what else could have been."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.results.generations import ASKED

from cutaway.results.lm.generation import Generation
from cutaway.results.lm.tokens import Beams
from cutaway.views.pages.html import static_html
from cutaway.views.pages.model import ColoredText, Page, Table
from cutaway.views.pages.results.beams import beams_section
from cutaway.views.pages.results.generation import generation_page, surprisal


def blocks(page: Page, title: str) -> list[Any]:
    (found,) = [section.blocks for section in page.sections if section.title == title]
    return list(found)


@pytest.mark.parametrize("sort", ASKED)
def test_every_sort_has_a_page_that_reads_as_text_and_stands_still(sort: str) -> None:
    gen = ASKED[sort]()
    page = gen.page()
    assert page.topic == "language"
    titles = [section.title for section in page.sections]
    assert titles[:2] == ["Text", "Summary"]
    assert ("Beams" in titles) == (gen.beams is not None)
    assert ("Candidates" in titles) == (gen.kind != "classifier")
    (steps,) = blocks(page, {"masked": "Each mask", "classifier": "Each label"}.get(gen.kind, "Each step"))
    assert len(steps.rows) == len(gen)
    assert page.text(90)
    assert static_html(page) in gen._repr_html_()


def test_written_tokens_have_numbers_and_frames_and_given_ones_have_none() -> None:
    gen = ASKED["greedy"]()
    (block,) = blocks(gen.page(), "Text")
    (text,) = block.texts
    assert block.channels == ("probability", "entropy, bits", "rank", "surprisal, bits")
    assert text.tokens == gen.pieces
    assert text.marks == tuple(range(gen.n_prompt, len(gen.read)))
    assert all(row[: gen.n_prompt] == (None,) * gen.n_prompt for row in text.values)
    np.testing.assert_allclose(text.values[0][gen.n_prompt :], gen.steps.probs)
    np.testing.assert_allclose(np.exp2(-np.array(text.values[3][gen.n_prompt :])), gen.steps.probs)
    np.testing.assert_allclose(surprisal(gen), -np.log2(gen.steps.probs))
    assert text.values[2][gen.n_prompt :] == tuple(gen.steps.ranks.astype(float))


def test_an_encoder_decoder_has_two_texts_and_masks_show_what_filled_them() -> None:
    double, masked = ASKED["encoder-decoder"](), ASKED["masked"]()
    (block,) = blocks(double.page(), "Text")
    assert [text.title for text in block.texts] == ["source", "generated"]
    assert block.texts[0].tokens == double.source.pieces
    (block,) = blocks(masked.page(), "Text")
    assert block.texts[0].marks == tuple(masked.rows)
    assert [block.texts[0].tokens[row] for row in masked.rows] == list(masked.targets.pieces)


def test_labels_of_a_text_are_bars_and_those_of_tokens_stand_at_them() -> None:
    whole, tagged = ASKED["labeled"](), ASKED["tagged"]()
    (bars,) = blocks(whole.page(), "All labels")
    assert sum(bars.values) == pytest.approx(1.0)
    assert len(bars.names) == 3
    (block,) = blocks(whole.page(), "Text")
    assert block.text == "the cat"
    (block,) = blocks(tagged.page(), "Text")
    assert block.texts[0].marks == tuple(tagged.rows)
    (steps,) = blocks(tagged.page(), "Each label")
    assert [row[1].split()[0] for row in steps.rows] == [str(row) for row in tagged.rows]


def fates(gen: Generation) -> list[list[str]]:
    """What became of the candidates of each step."""
    (table,) = blocks(generation_page(gen), "Candidates")
    return [[row[-1] for row in table.rows if row[0] == step] for step in range(len(gen))]


def test_candidates_are_kept_or_cut_by_what_cut_them() -> None:
    gen = ASKED["sampled"]()
    assert gen.steps.kept is not None
    kept = np.array(gen.steps.kept)
    kept[:, 2:] = 0.0  # as top-p would leave it
    chosen = gen.steps.candidates[:, 0]
    cut = replace(
        gen,
        steps=replace(gen.steps, kept=kept),
        targets=replace(gen.targets, ids=np.array(chosen)),
        decoding={"top_k": 4, "top_p": 0.5, "seed": 0},
    )
    expected = ["generated", "possible", "excluded by top-p", "excluded by top-p", *["excluded by top-k"] * 4]
    assert fates(cut) == [expected] * len(gen)
    unsure = replace(cut, decoding={"top_k": 4, "top_p": 0.5, "repetition_penalty": 1.3, "seed": 0})
    assert fates(unsure)[0][2:] == ["excluded"] * 6


def test_a_token_that_was_no_candidate_has_a_row_of_its_own() -> None:
    gen = ASKED["forced"]()
    (table,) = blocks(gen.page(), "Candidates")
    own = [row for row in table.rows if row[-1] == "given"]
    assert [row[3] for row in own] == gen.steps.ranks.tolist()
    np.testing.assert_allclose([row[4] for row in own], 100 * gen.steps.probs)


def test_beams_are_lines_that_split_where_the_search_did() -> None:
    beams = Beams(
        ids=np.arange(6),
        pieces=(" a", " b", "c", "\n", " e", " f"),
        parents=np.array([-1, 0, 1, 1, -1, 4]),
        steps=np.array([0, 1, 2, 2, 0, 1]),
        logprobs=np.log(np.array([0.5, 0.5, 0.5, 0.25, 0.25, 0.5])),
        scores=np.log(np.array([0.5, 0.25, 0.125, 0.0625, 0.25, 0.125])),
        is_best=np.array([True, True, True, False, False, False]),
    )
    table, texts = beams_section(beams).blocks
    assert isinstance(table, Table)
    assert isinstance(texts, ColoredText)
    assert [row[0] for row in table.rows] == ["·a·b", "│ c", "│ ↵", "·e·f"]
    assert [row[1] for row in table.rows] == ["0–1", "2", "2", "0–1"]
    assert [row[-1] for row in table.rows] == ["✓", "✓", "", ""]
    assert table.rows[0][2] == pytest.approx(math.log(0.25))
    assert [text.tokens for text in texts.texts] == [(" a", " b", "c"), (" a", " b", "\n")]
    assert texts.texts[0].title.endswith("returned")


def test_a_tree_of_a_real_search_has_every_node_in_one_line() -> None:
    gen = ASKED["beams"]()
    table = beams_section(gen.beams).blocks[0]
    assert isinstance(table, Table)
    ends = [len(row[1].split("–")) for row in table.rows]
    spans = [tuple(map(int, row[1].split("–"))) for row in table.rows]
    assert sum(span[-1] - span[0] + 1 for span in spans) == len(gen.beams)
    assert max(ends) <= 2
