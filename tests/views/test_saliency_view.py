"""Saliency as a page: its texts show one target at a time, the same in all of them."""

from __future__ import annotations

from tests.language.tiny_lms import tiny, tokenizer

import cutaway


def test_a_written_token_chooses_its_target_in_all_texts_of_the_page() -> None:
    for name in ("gpt2", "t5"):
        found = cutaway.generate(tiny(name), tokenizer(), "the cat sat", max_new_tokens=4).saliency()
        texts = [plate for section in found.page().sections for plate in section.plates if plate.kind == "text"]
        assert len(texts) == 2
        assert len({plate.link for plate in texts}) == 1
        assert texts[0].link
        for plate in texts:
            *_, written = plate.texts
            chosen = {place: channel for place, channel in enumerate(written.chooses) if channel >= 0}
            assert set(chosen) == set(written.marks)
            first = len(found.positions) - len(written.tokens)
            assert all(found.places[channel] == first + place for place, channel in chosen.items())
            assert all(not text.chooses for text in plate.texts[:-1])
