"""A small folder of collections and results, for the tests of the tabs that show pages."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from cutaway.results.neurons.ranking import Ranking, ranked
from cutaway.store.activations.activations import Activations
from cutaway.views.pages.model import Page, Prose, Section

WORDS = ["the", "cat", "sat", "on", "a", "mat", "and", "the", "dog", "saw", "the", "cat"]
N_ROWS = 20 * len(WORDS)


def values() -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    """Rows × 12 units of two sites; the first rises with `cat`, and the last never changes."""
    found = np.random.default_rng(0).normal(size=(N_ROWS, 12)).astype(np.float32)
    found[:, 0] += 6 * np.array([word == "cat" for word in WORDS * 20])
    found[:, -1] = 1
    return found


def activations() -> Activations:
    found = values()
    return Activations.of({"enc.0": found[:, :8], "enc.1": found[:, 8:]}, words=[WORDS] * 20)


def ranking(method: str = "mine", *, seed: int = 1) -> Ranking:
    scores = np.random.default_rng(seed).random(12)
    scores[0] = 2.0
    return ranked(method, scores, names=list(activations().names))


def fill(folder: Path) -> Path:
    """A collection, two rankings, a page about neurons."""
    activations().save(folder / "acts")
    ranking().save(folder / "ranks" / "mine")
    ranking("other", seed=2).save(folder / "ranks" / "other")
    Page("What <b>this</b> is", sections=[Section("Words", blocks=[Prose("Said.")])], topic="neurons").save(
        folder / "said"
    )
    return folder
