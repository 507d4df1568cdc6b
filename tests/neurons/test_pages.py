"""A page about a unit is put together in one call."""

from __future__ import annotations

import numpy as np
import pytest

from cutaway.core.errors import InputError
from cutaway.neurons.pages import page
from cutaway.neurons.words import histograms, top_contexts, top_words
from cutaway.results.ranking import ranked
from cutaway.store.activations import Activations
from cutaway.views.neuron_view import neuron_page


@pytest.fixture(scope="module")
def acts() -> Activations:
    rng = np.random.default_rng(0)
    words = [[str(word) for word in rng.choice(["cat", "dog", "the", "sat"], 5)] for _ in range(8)]
    return Activations.of({"h": rng.normal(size=(40, 3))}, words=words)


def test_it_is_the_page_of_what_is_computed_one_by_one(acts: Activations) -> None:
    labels = ["even" if row % 2 == 0 else "odd" for row in range(40)]
    ranking = ranked("mine", [1, 3, 2], names=list(acts.names))
    found = page(acts, 1, labels, rankings=[ranking], effects=[("loss", 1.0, 2.0)])
    expected = neuron_page(
        "h#1",
        words=top_words(acts, 1),
        contexts=top_contexts(acts, 1),
        histograms=histograms(acts, 1, labels),
        rankings=[ranking],
        effects=[("loss", 1.0, 2.0)],
        acts=acts,
    )
    assert found == expected
    assert found == page(acts, "h#1", labels, rankings=[ranking], effects=[("loss", 1.0, 2.0)])
    assert "mine" in found.text()


def test_without_labels_there_is_no_histogram(acts: Activations) -> None:
    assert [section.title for section in page(acts, 0).sections] == ["Words that move it most", "Where it is strongest"]


def test_a_plain_array_has_no_words_to_tell_of() -> None:
    with pytest.raises(InputError, match="has no words"):
        page(np.zeros((3, 2)), 0)
