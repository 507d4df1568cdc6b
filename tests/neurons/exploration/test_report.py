"""A report finds planted units, tells noise as noise, and leaves out what it cannot know."""

from __future__ import annotations

import warnings
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import cutaway
from cutaway.core.errors import InputError
from cutaway.neurons.exploration.report import histogram_labels, report, units_to_inspect
from cutaway.neurons.labels.labels import encode
from cutaway.results.neurons.ranking import ranked
from cutaway.results.neurons.report import Report
from cutaway.store.activations.activations import Activations

TESTED: dict[str, Any] = {"n_permutations": 20, "n_resamples": 100}
QUICK: dict[str, Any] = {"n_permutations": 0, "n_resamples": 50}
N_ROWS, N_UNITS = 300, 12


def planted() -> tuple[Activations, np.ndarray]:
    """Unit 3 of the first site rises with verbs, unit 2 of the second falls."""
    random = np.random.default_rng(0)
    is_verb = random.random(N_ROWS) < 0.5
    x = random.normal(size=(N_ROWS, N_UNITS))
    x[:, 3] += 2.0 * is_verb
    x[:, 8] -= 2.0 * is_verb
    words = [[f"w{number}" for number in random.integers(0, 40, 10)] for _ in range(N_ROWS // 10)]
    acts = Activations.of({"h.0": x[:, :6], "h.1": x[:, 6:]}, words=words)
    return acts, np.where(is_verb, "verb", "other")


@cache
def of_planted() -> Report:
    return report(*planted(), n=2, **TESTED)


def titles(found: Report) -> list[str]:
    return [section.title for section in found.page().sections]


def noted(found: Report, text: str) -> bool:
    return any(text in note for note in found.notes)


def test_planted_units_are_found_by_every_method_and_told_so() -> None:
    found = of_planted()
    assert found.answer.verdict == "found"
    assert list(found.rankings) == ["probeless", "linear", "gaussian"]
    for ranking in found.rankings.values():
        assert sorted(ranking.top(2)) == ["h.0#3", "h.1#2"]
    assert set(found.units[:2].tolist()) == {3, 8}
    assert found.rank_of(3)["linear"] in (1, 2)
    assert found.ranking.signs[[3, 8]].tolist() == [1, -1]
    for each in found.evaluations.values():
        assert each.score.low > max(each.random[-1].high, each.majority or 0)
        assert each.chosen[[3, 8]].tolist() == [1.0, 1.0]
    assert found.evaluations["probeless"].p_value == pytest.approx(1 / 21)
    assert found.evaluations["linear"].p_value is None  # the test is of the method that leads
    assert found.comparison is not None
    assert (found.comparison.overlap == 1).all()


def test_noise_is_told_as_noise() -> None:
    random = np.random.default_rng(1)
    found = report(random.normal(size=(200, 20)), random.integers(0, 2, 200), methods="probeless", **TESTED)
    assert found.answer.verdict == "nothing"
    assert "chance" in str(found.answer)
    assert found.evaluations["probeless"].p_value is not None
    assert found.evaluations["probeless"].p_value > 0.05


def test_labels_that_any_units_tell_are_nothing_special() -> None:
    random = np.random.default_rng(2)
    label = random.integers(0, 2, 300)
    x = 2.0 * label[:, None] + random.normal(size=(300, 20))
    found = report(x, label, methods="probeless", n=10, **QUICK)
    assert found.answer.verdict == "spread"


def test_its_parts_are_those_of_the_single_calls() -> None:
    acts, labels = planted()
    found = of_planted()
    alone = cutaway.neurons.evaluate("linear", acts, labels, n=[1, 2], n_permutations=0, n_resamples=100)
    assert found.evaluations["linear"].kept == alone.kept
    assert found.evaluations["linear"].selectivity == alone.selectivity
    np.testing.assert_array_equal(found.ranking.scores, cutaway.neurons.rank(acts, labels).scores)
    assert found.layers is not None
    assert found.layers.score == cutaway.neurons.layers(acts, labels, n_resamples=100).score
    assert found.clusters is not None
    np.testing.assert_array_equal(found.clusters.labels, cutaway.neurons.clusters(acts).labels)
    first = found.words[0]
    assert first.words == cutaway.neurons.top_words(acts, first.unit, 12).words


def test_a_seed_makes_it_the_same_again() -> None:
    acts, labels = planted()
    one, two, other = (
        report(acts, labels, methods="linear", n=2, seed=seed, n_permutations=1, n_resamples=20) for seed in (3, 3, 4)
    )
    assert one.evaluations["linear"].kept == two.evaluations["linear"].kept
    np.testing.assert_array_equal(one.evaluations["linear"].null, two.evaluations["linear"].null)
    assert one.notes == two.notes
    assert one.evaluations["linear"].kept != other.evaluations["linear"].kept


def test_numbers_are_told_by_correlation_and_looked_at_by_quarters() -> None:
    random = np.random.default_rng(0)
    x = random.normal(size=(200, 8))
    found = report(x, x[:, 5] + 0.3 * random.normal(size=200), n=1, **QUICK)
    assert found.answer.verdict == "found"
    assert list(found.rankings) == ["probeless", "linear"]
    assert found.best.tolist() == [5]
    assert found.evaluations["probeless"].setting.metric == "pearson"
    assert len(found.histograms[0].labels) == 4
    assert "Pearson" in str(found.answer)


def test_several_labels_a_row_are_told_one_by_one() -> None:
    random = np.random.default_rng(0)
    table = random.random((240, 3)) < 0.4
    x = random.normal(size=(240, 8))
    x[:, 2] += 3.0 * table[:, 0]
    x[:, 6] += 3.0 * table[:, 1]
    found = report(x, table, methods="probeless", n=1, **QUICK)
    assert not found.evaluations
    assert [each.score.low > (each.majority or 0) for each in found.per_label.values()] == [True, True, False]
    assert "2 of 3 labels: 0, 1" in str(found.answer)
    assert "Label by label" in titles(found)
    assert noted(found, "several labels")
    assert found.table() is not None


def test_of_many_classes_the_best_unit_of_each_is_looked_at() -> None:
    random = np.random.default_rng(0)
    kind = random.integers(0, 3, 240)
    x = random.normal(size=(240, 8))
    for label in range(3):
        x[:, 2 * label] += 3.0 * (kind == label)
    found = report(x, kind, methods="probeless", n=3, **QUICK)
    assert {each.unit for each in found.histograms} == {"#0", "#2", "#4"}
    assert "Ranked first for 1" in found.text()


def test_what_a_plain_array_cannot_tell_is_left_out_and_said() -> None:
    random = np.random.default_rng(0)
    x = random.normal(size=(100, 4))
    found = report(x, x[:, 1] > 0, methods="probeless", n=1, **QUICK)
    assert found.layers is None
    assert found.words == found.contexts == ()
    assert found.asked.n_items is None
    assert noted(found, "a plain array has no sites")
    assert noted(found, "the words are unknown")
    assert not {"Score by site", "Sites", "Agreement of methods"} & set(titles(found))
    assert found.comparison is None


def test_one_site_has_no_others_beside_it() -> None:
    acts, labels = planted()
    found = report(acts.at("h.0"), labels, methods="probeless", n=1, **QUICK)
    assert found.layers is None
    assert noted(found, "all units are at one site, h.0")
    assert found.words


def test_what_is_to_be_mistrusted_is_told() -> None:
    random = np.random.default_rng(0)
    x = random.normal(size=(60, 80))
    x[:, 7] = 1.0
    label = np.zeros(60, int)
    label[::8] = 1
    found = report(x, label, methods="probeless", n=2, groups=np.arange(60) // 15, n_permutations=3, n_resamples=20)
    assert noted(found, "87% of the rows are 0")
    assert noted(found, "few rows have the label 1 (8)")
    assert noted(found, "1 constant unit")
    assert noted(found, "more units (80) than rows (60)")
    assert noted(found, "there are only 4 groups, so the evaluation uses 4 folds")
    assert noted(found, "p is never below 0.25")
    assert found.answer.verdict == "nothing"


def test_units_are_ablated_in_the_model_beside_random_ones() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.Linear(8, 1))
    with torch.no_grad():
        model[1].weight.zero_()[0, 5] = 4.0
    x = torch.randn(200, 6)
    acts = cutaway.collect(model, x, at="0")
    label = model(x)[:, 0].detach().numpy() > 0
    found = report(
        acts, label, methods="probeless", n=1, model=model, metric=lambda: model(x).var().item(), to="mean", **QUICK
    )
    assert found.best == ["0#5"]
    assert found.ablation is not None
    assert found.ablation.scores[-1, 0] < 1e-6 * found.ablation.baseline[0]
    assert (found.ablation.random[-1, :, 0] > 0.9 * found.ablation.baseline[0]).any()
    assert "Ablation of the top units: metric" in titles(found)
    with pytest.raises(InputError, match="ablation needs both"):
        report(acts, label, model=model)


def test_the_page_tells_a_reader_who_was_not_there() -> None:
    found = of_planted()
    text = found.text()
    assert titles(found)[0] == "Summary"
    for part in ("Score by site", "Top units", "Redundancy", "How many units are needed", "Caveats"):
        assert part in titles(found)
    call = "cutaway.neurons.report(acts, labels, methods=('probeless', 'linear', 'gaussian'), n=2, seed=0"
    assert call in " ".join(text.split())
    assert f"cutaway {cutaway.__version__}" in text
    assert "Unit h.1#2" in text
    assert found.page().topic == "neurons"
    assert "Units that distinguish verb from other" in found._repr_html_()
    assert "best by probeless: h." in repr(found)


def test_it_is_written_as_html_and_saved_and_read_back(tmp_path: Path) -> None:
    found = of_planted()
    written = found.to_html(tmp_path / "verbs.html")
    assert "Units that distinguish verb from other" in written.read_text()
    found.save(tmp_path / "verbs")
    again = cutaway.load(tmp_path / "verbs")
    assert isinstance(again, Report)
    assert again.page() == found.page()
    for each in fields(Report):
        assert type(getattr(again, each.name)) is type(getattr(found, each.name))


def test_a_method_of_ones_own_stands_beside_the_rest() -> None:
    acts, labels = planted()

    def apart(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return np.abs(x[y == "verb"].mean(axis=0) - x[y == "other"].mean(axis=0))

    found = report(acts, labels, methods=("probeless", apart), n=2, **QUICK)
    assert list(found.rankings) == ["probeless", "apart"]
    assert sorted(found.rankings["apart"].top(2)) == ["h.0#3", "h.1#2"]
    with pytest.raises(InputError, match="a different name"):
        report(acts, labels, methods=("probeless", "probeless"))
    calls = report(acts, labels, methods=apart, n=2, by="row", options={"apart": {}}, **QUICK).asked.call
    assert "methods=('apart',), n=2, seed=0" in calls
    assert "by='row'" in calls
    assert "level" not in calls


def test_nothing_warns() -> None:
    acts, labels = planted()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        report(acts, labels, methods="probeless", n=2, n_permutations=1, n_resamples=10).page()


def test_rare_labels_share_a_histogram() -> None:
    labels = [f"tag{min(row, 20):02}" for row in range(60)]
    kinds = histogram_labels(encode(labels, rare="keep"))
    assert kinds is not None
    assert len(kinds.classes) == 12
    assert kinds.classes[-1] == "other labels"
    assert kinds.counts.sum() == 60
    several = histogram_labels(encode(np.eye(15, dtype=bool).repeat(2, axis=0)))
    assert several is not None
    assert several.codes.shape == (30, 11)


def test_units_looked_at_are_the_best_ones() -> None:
    assert units_to_inspect(ranked("mine", [0.1, 0.9, 0.5]), 2) == [1, 2]
    of_labels = {label: ranked("mine", np.roll([3, 2, 1, 0], label)) for label in range(3)}
    assert units_to_inspect(ranked("mine", [0, 0, 1, 2], per_label=of_labels), 2) == [2, 0, 1, 3]


def test_labels_that_are_only_memorized_are_memory() -> None:
    random = np.random.default_rng(0)
    types = random.normal(size=(40, 60))
    words = random.integers(0, 40, 600)
    x = types[words] + 0.3 * random.normal(size=(600, 60))
    acts = Activations.of({"h.0": x}, words=[[f"w{word}" for word in words[i : i + 10]] for i in range(0, 600, 10)])
    found = report(acts, random.integers(0, 2, 40)[words], methods="probeless", n=40, **TESTED)
    assert found.answer.verdict == "memory"


def test_a_unit_that_spreads_farther_in_one_class_is_found_by_gaussians() -> None:
    random = np.random.default_rng(0)
    labels, x = random.integers(0, 2, 300), random.normal(size=(300, 8))
    x[:, 4] *= 1 + 3 * labels
    found = report(x, labels, methods="gaussian", n=2, **TESTED)
    assert found.answer.verdict == "found"
    assert found.best[0] == 4
    assert "Gaussians on 2 units by gaussian estimate 0." in str(found.answer)


def test_units_that_are_all_dead_are_nothing() -> None:
    found = report(np.ones((60, 4)), np.arange(60) % 2, **TESTED)
    assert found.answer.verdict == "nothing"
    assert noted(found, "4 constant units")
