"""The page of a saliency asks what a contrast asks, has the text first and no path of anybody's disk."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.lm.tiny_lms import tiny, tokenizer

import cutaway
from cutaway.results.lm.saliency import Saliency
from cutaway.views.pages.model import ColoredText, Heatmap, Prose, Table


def made(**fields: Any) -> Saliency:
    scores = np.array([[0.75, 0.25, np.nan], [0.5, 0.25, 0.25]])
    given = {
        "method": "grad_x_input",
        "target": "logprob",
        "scores": scores,
        "signed": scores.copy(),
        "targets": (" are", "\n"),
        "positions": ("The", " keys", " are"),
        "roles": ("decoder",) * 3,
        "is_written": np.array([False, False, True]),
        "places": np.array([2, -1]),
        "values": np.array([3.5, 17.0]),
        "about": {"model": "LlamaForCausalLM", "name": "/home/me/models/tiny-llama"},
    }
    return Saliency(**{**given, **fields})


def table(found: Saliency) -> Table:
    (section,) = [each for each in found.page().sections if each.title == "Highest scores"]
    (block,) = section.blocks
    assert isinstance(block, Table)
    return block


def test_the_text_comes_first_and_the_model_has_its_name() -> None:
    page = made(notes=("Not converged.",)).page()
    assert page.title == "Saliency by gradient × input"
    assert page.about == "tiny-llama · gradient × input of the log-probability · 2 targets"
    assert [type(block) for block in page.sections[0].blocks] == [Prose, ColoredText]
    assert page.sections[-1].title == "Provenance"
    assert "/home" not in page.text()


@pytest.mark.parametrize(
    ("contrast", "asked", "column"),
    [
        ((" is", " is"), "Why … rather than ·is?", "lead over ·is"),
        ((" is", "."), "Why ·are, ↵ rather than ·is, .?", "lead"),
    ],
)
def test_a_contrast_asks_its_question_and_tells_leads(contrast: tuple[str, str], asked: str, column: str) -> None:
    found = made(contrast=contrast)
    assert found.page().title == f"{asked} Saliency by gradient × input"
    head = table(found).columns[1]
    assert head.name == column
    assert "minus that of" in head.about


def test_tokens_read_as_everywhere() -> None:
    found = made()
    (heatmap,) = [block for section in found.page().sections for block in section.blocks if isinstance(block, Heatmap)]
    assert heatmap.column_names == ("The", "·keys", "·are")
    assert heatmap.row_names == ("0 ·are", "1 ↵")
    assert table(found).rows[1] == ("1 ↵", 17.0, "The", 0.5, "“·keys” 25.0 %, “·are” 25.0 %")


def test_segments_are_called_so() -> None:
    page = made(unit="segment", positions=("user", "(rest)", "(written)")).page()
    assert page.title == "Saliency of segments by gradient × input"
    assert "how much each segment mattered" in page.sections[0].about


def test_a_written_token_chooses_its_target_in_all_texts_of_the_page() -> None:
    for name in ("gpt2", "t5"):
        found = cutaway.generate(tiny(name), tokenizer(), "the cat sat", max_new_tokens=4).saliency()
        texts = [block for section in found.page().sections for block in section.blocks if block.kind == "text"]
        assert len(texts) == 2
        assert len({block.link for block in texts}) == 1
        assert texts[0].link
        for block in texts:
            *_, written = block.texts
            chosen = {place: channel for place, channel in enumerate(written.chooses) if channel >= 0}
            assert set(chosen) == set(written.marks)
            first = len(found.positions) - len(written.tokens)
            assert all(found.places[channel] == first + place for place, channel in chosen.items())
            assert all(not text.chooses for text in block.texts[:-1])
