"""Pages about units say what the results say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cutaway.core.errors import InputError
from cutaway.results.neurons.clusters import Clusters
from cutaway.results.neurons.comparison import Comparison
from cutaway.results.neurons.ranking import Ranking, ranked
from cutaway.results.neurons.words import Context, Histograms, TopContexts, TopWords
from cutaway.store.activations.activations import Activations
from cutaway.views.pages.model import Bars, Block, ColoredText, Heatmap, Histogram, Lines, Page, Table
from cutaway.views.pages.result_pages import clusters_page, page_of
from cutaway.views.pages.results.units import neuron_page, ranking_page
from cutaway.views.pages.unit_texts import contexts_text, unit_numbers, units_text
from cutaway.views.showable import as_showable

WORDS = [["the", "cat", "sat"], ["a", "dog"], ["the", "cat", "sat"], ["no", "<script>alert(1)</script>"]]
LABELS = ["x", "y", "x", "y", "x", "x", "y", "x", "y", "y"]
NAMES = ("a#0", "a#1", "a#2", "b#0", "b#1", "c#0")


@pytest.fixture(scope="module")
def acts() -> Activations:
    rng = np.random.default_rng(3)
    a, b = rng.normal(5, 2, (10, 3)), rng.normal(size=(10, 2))
    b[:, 1] = 1.0
    return Activations.of({"a": a, "b": b, "c": rng.normal(size=(10, 1))}, words=WORDS)


@pytest.fixture(scope="module")
def ranking() -> Ranking:
    per_label = {
        "x": ranked("probeless", [1, 2, 3, 4, 0, 5], names=NAMES, signs=[1, -1, 1, 1, 0, 1], dead=[4]),
        "y": ranked("probeless", [5, 4, 3, 2, 0, 1], names=NAMES, dead=[4]),
    }
    return ranked(
        "probeless", [6, 7, 5, 4, 0.5, 9], names=NAMES, signs=[1, -1, 0, 1, 0, 1], dead=[4], per_label=per_label,
        about={"standardized": True, "l1": 0.125, "seen": [1, 2]},
    )  # fmt: skip


def blocks(page: Page, kind: type) -> list[Any]:
    return [block for section in page.sections for block in section.blocks if isinstance(block, kind)]


def titles(page: Page) -> list[str]:
    return [section.title for section in page.sections]


def column(table: Table, name: str) -> list[Any]:
    place = [each.name for each in table.columns].index(name)
    return [row[place] for row in table.rows]


def test_the_best_units_stand_in_their_order_with_scores_of_each_label(ranking: Ranking) -> None:
    table, *_ = blocks(ranking_page(ranking, n=4), Table)
    assert column(table, "rank") == [1, 2, 3, 4]
    assert column(table, "unit") == ranking.top(4) == ["c#0", "a#1", "a#0", "a#2"]
    assert column(table, "score") == [9, 7, 6, 5]
    assert column(table, "sign") == ["+", "−", "+", ""]
    assert column(table, "x") == [5, 2, 1, 3]
    assert column(table, "y") == [1, 4, 5, 3]


def test_the_best_units_are_counted_by_site_in_the_order_of_the_model(ranking: Ranking) -> None:
    (bars,) = blocks(ranking_page(ranking, n=4), Bars)
    assert (bars.names, bars.values) == (("a", "b", "c"), (3, 0, 1))


def test_scores_fall_to_the_last_unit_that_lives(ranking: Ranking) -> None:
    (lines,) = blocks(ranking_page(ranking), Lines)
    assert lines.x == (1, 2, 3, 4, 5)
    assert {line.name: line.y for line in lines.lines} == {
        "all": (9, 7, 6, 5, 4),
        "x": (5, 4, 3, 2, 1),
        "y": (5, 4, 3, 2, 1),
    }


def test_a_ranking_says_what_it_is_in_a_line_and_how_it_was_made_at_the_end(ranking: Ranking) -> None:
    page = ranking_page(ranking)
    assert page.title == "Units ranked by probeless"
    assert page.about == "6 units · 2 labels: x, y · 1 dead (constant), ranked last"
    assert page.sections[-1].title == "Provenance"
    (table,) = page.sections[-1].blocks
    assert isinstance(table, Table)
    assert table.rows == (("standardized", "yes"), ("l1", "0.125")), "only what is simple is told"


def test_a_plain_array_has_indices_and_no_sites() -> None:
    page = ranking_page(ranked("mine", [0.1, 0.9]))
    assert "Units per site" not in titles(page)
    assert column(blocks(page, Table)[0], "unit") == ["#1", "#0"]
    assert "sign" not in [each.name for each in blocks(page, Table)[0].columns]


def test_with_activations_and_labels_values_are_counted_and_text_is_colored(
    acts: Activations, ranking: Ranking
) -> None:
    page = ranking_page(ranking, acts, LABELS)
    spread = blocks(page, Histogram)
    assert [block.title for block in spread] == ["c#0", "a#1", "a#0"]
    for block in spread:
        assert {each.name: sum(each.counts) for each in block.series} == {"x": 5, "y": 5}
    values = acts.columns([5])[:, 0]
    expected = np.histogram(values[[label == "x" for label in LABELS]], np.array(spread[0].edges))[0]
    assert spread[0].series[0].counts == tuple(expected.tolist())
    (text,) = blocks(page, ColoredText)
    assert text.channels == ("c#0", "a#1", "a#0", "a#2", "b#0")


def test_labels_of_another_corpus_are_refused(acts: Activations, ranking: Ranking) -> None:
    with pytest.raises(InputError, match="3 labels for 10 rows"):
        ranking_page(ranking, acts, ["x", "y", "x"])


def test_text_is_colored_by_standard_deviations_or_by_values(acts: Activations) -> None:
    columns = acts.columns([0, 3]).astype(float)
    for scale, values in (("raw", columns), ("std", (columns - columns.mean(0)) / columns.std(0))):
        text = units_text(acts, ["a#0", 3], [1, 3], scale=scale)  # type: ignore[arg-type]
        assert text.channels == ("a#0", "b#0")
        assert [each.tokens for each in text.texts] == [tuple(WORDS[1]), tuple(WORDS[3])]
        np.testing.assert_allclose(text.texts[0].values, values[3:5].T)
        np.testing.assert_allclose(text.most, np.abs(values[[3, 4, 8, 9]]).max(0))


def test_sentences_are_chosen_by_their_strongest_word_and_equal_ones_once(acts: Activations) -> None:
    text = units_text(acts, "a#0")
    assert sorted(each.tokens for each in text.texts) == sorted({tuple(words) for words in WORDS})
    values = acts.columns([0])[:, 0]
    strongest = int(acts.items[np.abs(values - values.mean()).argmax()])
    assert text.texts[0].tokens == tuple(WORDS[strongest])


def test_a_unit_that_never_changes_colors_nothing(acts: Activations) -> None:
    text = units_text(acts, "b#1")
    assert text.most == (0.0,)
    assert all(value == 0 for each in text.texts for value in each.values[0])


@pytest.mark.parametrize(
    ("unit", "said"),
    [("a#9", "no unit 'a#9'. Nearest: 'a#"), (6, "no unit 6: there are 6"), ("#6", "no unit 6")],
)
def test_units_that_are_not_there_are_told(unit: int | str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        unit_numbers(unit, NAMES)


def test_sentences_that_are_not_there_are_told(acts: Activations) -> None:
    with pytest.raises(InputError, match="item 9 has no row: items are numbered from 0 to 3"):
        units_text(acts, 0, [9])


def words() -> TopWords:
    return TopWords("a#1", ("cat", "dog"), np.array([2.5, -1.5]), np.array([2, 1]), min_count=1, n_left_out=7)


def contexts() -> TopContexts:
    return TopContexts("a#1", (Context(6, 2, ("the",), "cat", ("sat",), 3.0, 2.5),))


def histograms() -> Histograms:
    counts = np.array([[1, 4], [3, 2]])
    return Histograms("a#1", ("x", "y"), np.array([0.0, 1, 2]), counts, np.array([1.5, 0.5]), np.array([0.1, 0.2]))


def test_a_page_about_a_unit_has_all_that_is_given(acts: Activations, ranking: Ranking) -> None:
    page = neuron_page(
        "a#1", words=words(), contexts=contexts(), histograms=histograms(), rankings=[ranking],
        effects=[("accuracy", 0.75, 0.5)], acts=acts,
    )  # fmt: skip
    assert page.title == "a#1"
    assert titles(page) == [
        "Top words",
        "Distribution of values",
        "Ranks by method",
        "Effect of ablation",
        "Top contexts",
    ]
    top, _, places, effect = blocks(page, Table)
    assert top.rows == (("cat", 2.5, 2), ("dog", -1.5, 1))
    assert "Leaves out 7 words with fewer than 1 occurrences" in page.sections[0].about
    assert places.rows == (
        ("probeless", "all", 2, 6, 0.8, 7.0, "−"),
        ("probeless", "x", 4, 6, 0.4, 2.0, "−"),
        ("probeless", "y", 2, 6, 0.8, 4.0, ""),
    )
    assert effect.rows == (("accuracy", 0.75, 0.5, -0.25),)


def test_a_page_about_nothing_is_refused() -> None:
    with pytest.raises(InputError, match="needs content"):
        neuron_page("a#1")


def test_contexts_are_framed_and_with_activations_colored_throughout(acts: Activations) -> None:
    (bare,) = contexts_text(contexts()).texts
    assert (bare.tokens, bare.values, bare.marks) == (("the", "cat", "sat"), ((None, 2.5, None),), (1,))
    (whole,) = contexts_text(contexts(), acts).texts
    values = acts.columns([1])[:, 0].astype(float)
    assert (whole.tokens, whole.marks) == (("the", "cat", "sat"), (1,))
    np.testing.assert_allclose(whole.values[0], ((values - values.mean()) / values.std())[5:8])


def test_methods_are_compared_as_a_matrix() -> None:
    overlap = np.array([[1, 0.25], [0.25, 1]])
    comparison = Comparison(("one", "two"), 10, overlap, np.array([0.25, 0.25]), np.array([0.5, 0.125]))
    page = page_of(comparison)
    assert page is not None
    (heatmap,) = blocks(page, Heatmap)
    assert (heatmap.row_names, heatmap.values, heatmap.low, heatmap.high) == (
        ("one", "two"),
        ((1, 0.25), (0.25, 1)),
        0,
        1,
    )
    assert blocks(page, Table)[0].rows == (("one", 0.25, 0.5), ("two", 0.25, 0.125))


def test_clusters_of_several_units_are_listed_largest_first() -> None:
    labels = np.array([0, 1, 1, 2, 2, 2])
    clusters = Clusters(labels, np.array([0, 2, 3]), threshold=0.5, absolute=True, names=NAMES, dead=np.array([0]))
    page = clusters_page(clusters)
    (table,) = blocks(page, Table)
    assert table.rows == (("b#0", 3, "b#0, b#1, c#0"), ("a#2", 2, "a#1, a#2"))
    assert "of one unit  1" in page.text()


@pytest.mark.parametrize("make", [words, contexts, histograms, lambda: ranked("mine", [0.5, 1])])
def test_results_show_themselves(make: Any) -> None:
    result = make()
    shown = as_showable(result)
    assert isinstance(shown.view, Page)
    html = result._repr_html_()
    assert html.startswith("<div")
    assert "<script" not in html


def test_every_block_of_a_page_reads_as_text(acts: Activations, ranking: Ranking) -> None:
    page = ranking_page(ranking, acts, LABELS)
    block: Block
    for section in page.sections:
        for block in section.blocks:
            assert Page("p", sections=[type(section)(section.title, blocks=[block])]).text(60)
