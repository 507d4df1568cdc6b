"""Pages of evaluations show what was found, whatever of it there is."""

from __future__ import annotations

import numpy as np

import cutaway  # noqa: F401 (says where pages are made)
from cutaway.results.neurons.evaluation import Ablated, Estimate, Evaluation, Layers, Setting
from cutaway.views.pages.model import Lines, Table
from cutaway.views.pages.result_pages import page_of
from cutaway.views.pages.results.evaluation import evaluation_page, layers_page

SETTING = Setting("probeless", "accuracy", "classes", 100, 8, 10, "sentences", 5, (0, 1), 0.95, 1.5, True)
LOW, HIGH = Estimate(0.6, 0.5, 0.7), Estimate(0.8, 0.75, 0.85)
BARE = Evaluation(SETTING, (), (), HIGH, ())
FULL = Evaluation(
    SETTING,
    counts=(1, 4),
    kept=(LOW, HIGH),
    all_units=HIGH,
    delta=(LOW, HIGH),
    random=(LOW, LOW),
    majority=0.4,
    control=(LOW, LOW),
    control_all=LOW,
    selectivity=(LOW, HIGH),
    selectivity_all=HIGH,
    information=(LOW, HIGH),
    information_null=(0.0, -0.1),
    information_all=HIGH,
    entropy=1.0,
    ablated=tuple(Ablated("keep", "zero", n, LOW) for n in (1, 4)),
    null=np.full(5, 0.5),
    p_value=1 / 6,
    per_seed=np.array([0.8, 0.7]),
    stability=(0.5, 1.0),
    chosen=np.array([0, 1, 0, 0.5, 0, 0, 1, 1]),
    units=np.array([1, 6, 7, 3]),
    names=[f"h#{unit}" for unit in range(8)],
    notes=("mind this",),
)


def test_all_that_was_found_is_on_the_page() -> None:
    page = evaluation_page(FULL)
    assert [section.title for section in page.sections] == [
        "Summary",
        "Score by number of units",
        "Mutual information",
        "Ablated inputs",
        "Permutation test",
        "Stability of the top units",
    ]
    curve = page.sections[1].blocks[0]
    assert isinstance(curve, Lines)
    assert curve.x == (1, 4)
    assert [line.name for line in curve.lines] == [
        "top units by probeless",
        "random units",
        "control task",
        "all units",
        "most frequent class",
    ]
    assert curve.lines[0].low == (0.5, 0.75)
    assert "Mind this" in page.text()
    units = page.sections[-1].blocks[0]
    assert isinstance(units, Table)
    assert units.rows[0] == ("h#1", 1)


def test_a_page_of_little_is_short() -> None:
    assert [section.title for section in evaluation_page(BARE).sections] == ["Summary"]
    one_null = Evaluation(SETTING, (), (), HIGH, (), null=np.array([0.8]), p_value=1.0, per_seed=np.array([0.8]))
    assert evaluation_page(one_null).text()


def test_layers_are_a_plot_and_a_table() -> None:
    page = layers_page(Layers(("h.0", "h.1"), (FULL, FULL)))
    lines = page.sections[1].blocks
    names = [[line.name for line in each.lines] for each in lines if isinstance(each, Lines)]
    assert names[0] == ["accuracy", "control task", "most frequent class"]
    assert names[1:] == [["score minus control task"], ["bits on held-out rows", "entropy of the classes"]]
    assert "h.1" in page.text()
    assert len(layers_page(Layers(("h.0",), (BARE,))).sections[1].blocks) == 1


def test_results_are_shown_in_notebooks_and_as_text() -> None:
    assert page_of(FULL) == FULL.page()
    assert "top units by probeless" in FULL._repr_html_()
    assert "Score by number of units" in FULL.text(80)
    assert "Score by site" in Layers(("h.0",), (FULL,)).text()
