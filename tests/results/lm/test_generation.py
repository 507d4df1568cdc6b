"""A generation is plain data that remembers its model as long as there is one."""

from __future__ import annotations

import gc
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.lm.tiny_lms import TINY, tiny, tokenizer
from tests.results.generations import ASKED
from tests.store.saved_results import same

import cutaway
from cutaway.core.errors import ExistsError, InputError
from cutaway.store.reading.archive import Archive
from cutaway.store.results.result_file import read_description


def test_its_model_is_held_by_the_program_and_not_by_it() -> None:
    model = TINY["gpt2"]()
    gen = cutaway.generate(model, tokenizer(), "the cat", max_new_tokens=2)
    assert gen.model is model
    assert gen.tokenizer is tokenizer()
    del model
    gc.collect()
    with pytest.raises(InputError, match=r"the model was deleted, because no variable holds it.* gen.with_model"):
        _ = gen.model
    other = tiny("gpt2")
    again = gen.with_model(other)
    assert again.model is other
    assert again.tokenizer is tokenizer()
    np.testing.assert_array_equal(again.token_ids, gen.token_ids)


def test_without_a_model_it_says_how_to_get_one() -> None:
    gen = replace(cutaway.generate(tiny("gpt2"), tokenizer(), "the cat", max_new_tokens=2))
    with pytest.raises(InputError, match=r"it was read from disk\. Attach one: gen = gen\.with_model"):
        _ = gen.model


def test_it_can_be_read_and_tabulated() -> None:
    gen = cutaway.generate(tiny("t5"), tokenizer(), "the cat", max_new_tokens=3)
    assert repr(gen).startswith("Generation (encoder-decoder, T5ForConditionalGeneration): 3 tokens generated:")
    rows = gen.table()
    assert len(rows) == 3
    assert gen.about["tokenizer"] == type(tokenizer()).__name__
    assert gen.about["dtype"] == "float32"


@pytest.mark.parametrize("sort", ASKED)
def test_it_is_read_back_as_it_was_saved(sort: str, tmp_path: Path) -> None:
    gen = ASKED[sort]()
    gen.save(tmp_path / "gen")
    again = cutaway.load(tmp_path / "gen")
    assert same(again, replace(gen))
    assert again.page() == gen.page()
    assert repr(again) == repr(gen)
    with pytest.raises(InputError, match=r"it was read from disk\. Attach one: gen = gen\.with_model"):
        _ = again.model
    model = tiny("gpt2")
    assert again.with_model(model, tokenizer()).model is model
    with pytest.raises(ExistsError):
        gen.save(tmp_path / "gen")


def test_what_was_read_can_be_asked_once_it_has_its_model(tmp_path: Path) -> None:
    gen = cutaway.generate(tiny("gpt2"), tokenizer(), "the cat", max_new_tokens=2)
    gen.save(tmp_path / "gen")
    again = cutaway.load(tmp_path / "gen")
    with pytest.raises(InputError, match="has no model"):
        again.saliency()
    whole = again.with_model(tiny("gpt2"), tokenizer())
    np.testing.assert_array_equal(whole.saliency().scores, gen.saliency().scores)


def test_the_list_of_saved_results_knows_its_model_and_topic(tmp_path: Path) -> None:
    cutaway.generate(tiny("gpt2"), tokenizer(), "the cat", max_new_tokens=2).save(tmp_path / "gen")
    about = read_description(Archive(tmp_path / "gen"))
    assert (about.type, about.topic, about.of["model"]) == ("Generation", "language", "GPT2LMHeadModel")
    assert about.title.startswith("Generated: ")


def test_thousands_of_steps_are_saved(tmp_path: Path) -> None:
    gen = cutaway.generate(tiny("mamba"), tokenizer(), [5] * 3000, text=[7] * 3000)
    gen.save(tmp_path / "gen")
    assert same(cutaway.load(tmp_path / "gen"), replace(gen))


def test_candidates_and_cuts_come_as_a_table() -> None:
    gen = cutaway.generate(tiny("llama"), tokenizer(), "the cat", max_new_tokens=3, temperature=0.7, top_k=5)
    steps, rows = gen.table(), gen.candidates()
    assert steps["n_kept"].tolist() == [5, 5, 5]
    np.testing.assert_array_equal(steps["drawn"], gen.steps.drawn)
    assert len(rows) == 60
    assert rows[rows["kept"] > 0].groupby("target").size().tolist() == [5, 5, 5]
    np.testing.assert_allclose(rows.groupby("target")["kept"].sum(), 1.0)
    assert rows[rows["is_chosen"]]["id"].tolist() == gen.target_ids.tolist()
    assert "kept" not in cutaway.generate(tiny("llama"), tokenizer(), "the cat", max_new_tokens=1).candidates()


def test_reading_one_needs_no_torch(tmp_path: Path) -> None:
    ASKED["beams"]().save(tmp_path / "gen")
    code = (
        "import sys, cutaway; gen = cutaway.load(sys.argv[1]); print(gen.page().text(), gen.to_html(sys.argv[2])); "
        "assert isinstance(gen, cutaway.Generation); assert not {'torch', 'transformers'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "gen"), str(tmp_path / "gen.html")], check=True)
    assert "<title>Generated: " in (tmp_path / "gen.html").read_text()
