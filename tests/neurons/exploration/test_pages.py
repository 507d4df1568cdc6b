"""A page about a unit is put together in one call."""

from __future__ import annotations

import numpy as np
import pytest

from cutaway.core.errors import InputError
from cutaway.neurons.exploration.pages import colored, page
from cutaway.neurons.exploration.words import histograms, top_contexts, top_words
from cutaway.results.neurons.ranking import ranked
from cutaway.store.activations.activations import Activations
from cutaway.views.pages.results.units import neuron_page


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


def test_without_labels_the_histogram_is_of_all_values(acts: Activations) -> None:
    sections = {section.title: section for section in page(acts, 0).sections}
    assert list(sections) == ["Top words", "Distribution of values", "Top contexts"]
    [series] = sections["Distribution of values"].blocks[0].series
    assert (series.name, sum(series.counts)) == ("all", len(acts))


def test_rows_without_words_are_told_by_their_items() -> None:
    values = np.zeros((6, 2))
    values[4, 1] = 3.0
    sections = {section.title: section for section in page(Activations.of({"conv": values}), "conv#1").sections}
    assert list(sections) == ["Distribution of values", "Top items"]
    assert sections["Top items"].blocks[0].rows[0][:3] == (4, 4, 3.0)


def test_a_plain_array_has_no_words_to_tell_of() -> None:
    with pytest.raises(InputError, match="has no words"):
        page(np.zeros((3, 2)), 0)


def test_sentences_are_colored_by_several_units(acts: Activations) -> None:
    found = colored(acts, ["h#0", 2], items=[3, 1], scale="raw")
    [block] = found.sections[0].blocks
    assert block.channels == ("h#0", "h#2")
    assert [list(text.tokens) for text in block.texts] == [acts.sentences[3], acts.sentences[1]]
    np.testing.assert_allclose(block.texts[0].values, acts.array()[15:20, [0, 2]].T)
    assert len(colored(acts, 0, n=2).sections[0].blocks[0].texts) == 2
    flat = colored(Activations.of(np.zeros((2, 1)), words=["a", "b"]), 0)
    assert "zero everywhere" in flat.text()
