"""Generations of small models, one of every sort."""

from __future__ import annotations

from collections.abc import Callable

from tests.lm.tiny_lms import tiny, tokenizer

import cutaway
from cutaway.results.lm.generation import Generation

ASKED: dict[str, Callable[[], Generation]] = {
    "greedy": lambda: cutaway.generate(tiny("llama"), tokenizer(), "the cat", max_new_tokens=4),
    "sampled": lambda: cutaway.generate(tiny("gpt2"), tokenizer(), "the cat", max_new_tokens=4, top_k=9, seed=3),
    "beams": lambda: cutaway.generate(tiny("gpt2"), tokenizer(), "the cat", max_new_tokens=4, num_beams=3),
    "forced": lambda: cutaway.generate(tiny("gpt2"), tokenizer(), "the cat", text=" sat"),
    "ids": lambda: cutaway.generate(tiny("gpt2"), None, [5, 9], max_new_tokens=2),
    "template": lambda: cutaway.generate(
        tiny("gpt2"), tokenizer(), cutaway.lm.Template("the {animal} sat", animal="cat"), max_new_tokens=2
    ),
    "encoder-decoder": lambda: cutaway.generate(tiny("t5"), tokenizer(), "the cat", max_new_tokens=3),
    "masked": lambda: cutaway.lm.fill(tiny("bert"), tokenizer(), "the <mask> sat on the <mask>"),
    "labeled": lambda: cutaway.lm.classify(tiny("bert_classifier"), tokenizer(), "the cat", target=[0, 2]),
    "tagged": lambda: cutaway.lm.classify(tiny("bert_tagger"), tokenizer(), "the cat sat"),
}
