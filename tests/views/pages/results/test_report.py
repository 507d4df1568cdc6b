"""The page of a report has a section for each question, and none for what was not asked."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

import cutaway  # noqa: F401 (says where pages are made)
from cutaway.results.neurons.ablation import Ablation
from cutaway.results.neurons.clusters import Clusters
from cutaway.results.neurons.comparison import Comparison
from cutaway.results.neurons.evaluation import Estimate, Evaluation, Layers, Setting
from cutaway.results.neurons.ranking import ranked
from cutaway.results.neurons.report import Asked, Report
from cutaway.results.neurons.words import Context, Histograms, TopContexts, TopWords
from cutaway.views.pages.model import ColoredText, Lines, Page, Table
from cutaway.views.pages.result_pages import page_of
from cutaway.views.pages.results.report import report_page

SETTING = Setting("probeless", "accuracy", "classes", 100, 4, 10, "sentences", 5, (0,), 0.95, 1.5, True)
LOW, HIGH = Estimate(0.6, 0.5, 0.7), Estimate(0.8, 0.75, 0.85)
NAMES = ["a#0", "a#1", "b#0", "b#1"]
JUDGED = Evaluation(
    SETTING,
    counts=(1, 2),
    kept=(LOW, HIGH),
    all_units=HIGH,
    delta=(LOW, LOW),
    random=(LOW, LOW),
    majority=0.4,
    chosen=np.array([0.2, 1.0, 0.8, 0.0]),
    stability=(0.5, 1.0),
    null=np.full(19, 0.5),
    p_value=0.05,
    per_seed=np.array([0.8]),
)
FIRST = ranked("probeless", [1.0, 4, 3, 2], signs=[0, 1, -1, 0], names=NAMES)
SECOND = ranked("linear", [4.0, 3, 1, 2], names=NAMES)
BARE = Report(
    asked=Asked("classes", ("noun", "verb"), np.array([60, 40]), 100, 4, 10, ("a", "b"), 2, 0, "report(acts, labels)"),
    rankings={"probeless": FIRST},
    vote=FIRST,
    evaluations={"probeless": JUDGED},
    per_label={},
    comparison=None,
    layers=None,
    clusters=None,
    notes=("mind this",),
)
EYE = np.eye(2)
FULL = replace(
    BARE,
    rankings={"probeless": FIRST, "linear": SECOND},
    evaluations={"probeless": JUDGED, "linear": replace(JUDGED, kept=(LOW, LOW))},
    comparison=Comparison(("probeless", "linear"), 2, EYE, np.ones(2), np.ones(2)),
    layers=Layers(("a", "b"), (JUDGED, JUDGED)),
    clusters=Clusters(np.array([0, 1, 1, 2]), np.array([0, 1, 3]), 0.5, absolute=True, names=NAMES),
    words=(TopWords("a#1", ("cat",), np.array([2.0]), np.array([3]), 2, 0),),
    contexts=(TopContexts("a#1", (Context(6, 2, ("the",), "cat", ("sat",), 3.0, 2.5, (0.1, 2.5, -0.2)),)),),
    histograms=(Histograms("a#1", ("noun", "verb"), np.arange(3.0), np.ones((2, 2), int), np.zeros(2), np.ones(2)),),
    ablation=Ablation(
        *("Net", "probeless", "mean", ("loss",), ("a#1",)),
        *(np.array([1]), np.array([1.0]), np.array([[2.0]]), np.array([[[1.0], [1.5]]])),
    ),
)


def titles(page: Page) -> list[str]:
    return [section.title for section in page.sections]


def block(page: Page, title: str, place: int = 0) -> object:
    return next(section for section in page.sections if section.title == title).blocks[place]


def test_each_question_has_its_section() -> None:
    assert titles(report_page(FULL)) == [
        *("Summary", "Score by site", "Sites", "Top units", "Agreement of methods", "Redundancy"),
        *("How many units are needed", "With 2 units", "Checks of probeless"),
        *("Unit a#1", "Ablation of the top units: loss", "Caveats", "Provenance"),
    ]
    assert page_of(FULL) == report_page(FULL)


def test_what_was_not_asked_has_none() -> None:
    assert titles(report_page(replace(BARE, seconds={"ranking": 1.0}))) == [
        *("Summary", "Sites", "Top units", "How many units are needed", "With 2 units"),
        *("Checks of probeless", "Caveats", "Provenance"),
    ]


def test_units_have_their_rank_by_every_method() -> None:
    table = block(report_page(FULL), "Top units")
    assert isinstance(table, Table)
    assert [column.name for column in table.columns] == [
        *("unit", "probeless", "linear", "stability, probeless", "stability, linear", "sign", "cluster"),
    ]
    assert table.rows == (
        ("a#1", 1, 2, 1.0, 1.0, "+", 2),
        ("b#0", 2, 4, 0.8, 0.8, "−", 2),
        ("a#0", 4, 1, 0.2, 0.2, "", 1),
    )


def test_all_methods_stand_in_one_plot() -> None:
    curve = block(report_page(FULL), "How many units are needed")
    assert isinstance(curve, Lines)
    names = [line.name for line in curve.lines]
    assert names == ["probeless", "linear", "random units", "all units", "most frequent class"]


def test_units_alike_are_counted_once() -> None:
    page = report_page(FULL)
    assert "1 cluster\n" in page.text()
    table = block(page, "Redundancy", 1)
    assert isinstance(table, Table)
    assert table.rows == (("a#1", 2, 2, "b#0"),)


def test_words_around_are_colored() -> None:
    text = block(report_page(FULL), "Unit a#1", 2)
    assert isinstance(text, ColoredText)
    assert text.texts[0].values == ((0.1, 2.5, -0.2),)
    assert text.texts[0].marks == (1,)


def test_titles_say_what_is_told() -> None:
    asked = BARE.asked
    numbers = replace(BARE, asked=replace(asked, kind="numbers", labels=(), counts=np.empty(0, np.int64)))
    many = replace(BARE, asked=replace(asked, labels=tuple("abcdef"), counts=np.ones(6, np.int64)))
    assert report_page(BARE).title == "Units that distinguish verb from noun"
    assert report_page(numbers).title == "Units that predict a number"
    assert report_page(many).title == "Units that distinguish a, b, c, d and 2 more"
