"""A generation is plain data that remembers its model as long as there is one."""

from __future__ import annotations

import gc
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from tests.language.tiny_lms import TINY, tiny, tokenizer

import cutaway
from cutaway.core.errors import InputError


def test_its_model_is_held_by_the_program_and_not_by_it() -> None:
    model = TINY["gpt2"]()
    gen = cutaway.generate(model, tokenizer(), "the cat", max_new_tokens=2)
    assert gen.model is model
    assert gen.tokenizer is tokenizer()
    del model
    gc.collect()
    with pytest.raises(InputError, match=r"the program has let go of the model.* gen.with_model"):
        _ = gen.model
    other = tiny("gpt2")
    again = gen.with_model(other)
    assert again.model is other
    assert again.tokenizer is tokenizer()
    np.testing.assert_array_equal(again.token_ids, gen.token_ids)


def test_without_a_model_it_says_how_to_get_one() -> None:
    gen = replace(cutaway.generate(tiny("gpt2"), tokenizer(), "the cat", max_new_tokens=2))
    with pytest.raises(InputError, match=r"it was read from disk\. Give it one: gen = gen\.with_model"):
        _ = gen.model


def test_it_can_be_read_and_tabulated() -> None:
    gen = cutaway.generate(tiny("t5"), tokenizer(), "the cat", max_new_tokens=3)
    assert repr(gen).startswith("Generation (encoder-decoder, T5ForConditionalGeneration): 3 tokens written:")
    rows = gen.table()
    assert len(rows) == 3
    assert gen.about["tokenizer"] == type(tokenizer()).__name__
    assert gen.about["dtype"] == "float32"


def test_reading_one_needs_no_torch() -> None:
    code = "import sys, cutaway; cutaway.Generation; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
