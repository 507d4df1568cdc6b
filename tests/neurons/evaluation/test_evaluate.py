"""Evaluation finds what is there, and nothing where nothing is."""

from __future__ import annotations

from functools import cache
from typing import Any, ClassVar

import numpy as np
import pytest
from sklearn.base import BaseEstimator
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import RidgeClassifier
from sklearn.model_selection import cross_val_predict

from cutaway.core.errors import InputError
from cutaway.neurons.evaluation.evaluate import evaluate, layers
from cutaway.neurons.probes.gaussian.probe import Gaussian
from cutaway.neurons.probes.linear.probe import Linear
from cutaway.neurons.ranking.rank import rank
from cutaway.results.neurons.evaluation import Evaluation
from cutaway.store.activations.activations import Activations

PLANTED = [7, 13]
QUICK: dict[str, Any] = {"control": False, "ablations": False, "information": False, "n_resamples": 100}
BARE = {**QUICK, "n_permutations": 0}


class NearestMean(BaseEstimator):  # type: ignore[misc]
    """The quickest probe there is: of two classes, the one whose mean is nearer."""

    def fit(self, x: np.ndarray, y: np.ndarray) -> NearestMean:
        self.means_ = np.stack([x[y == 0].mean(0), x[y == 1].mean(0)])
        return self

    def predict(self, x: np.ndarray) -> np.ndarray:
        return ((x[:, None] - self.means_) ** 2).sum(2).argmin(1)


@cache
def planted() -> tuple[Activations, np.ndarray]:
    """60 sentences of 10 words, three classes; unit 7 rises with one, unit 13 falls with another."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 600)
    x = rng.normal(size=(600, 20)).astype(np.float32)
    x[:, 7] += 2.0 * (labels == 1)
    x[:, 13] -= 2.0 * (labels == 2)
    words = [[str(word) for word in rng.choice(80, 10)] for _ in range(60)]
    return Activations.of({"h.0": x[:, :10], "h.1": x[:, 10:]}, words=words), np.array(["a", "b", "c"])[labels]


@cache
def found() -> Evaluation:
    acts, labels = planted()
    return evaluate("probeless", acts, labels, n=[1, 2, 10], seeds=2, folds=4, n_permutations=10, n_resamples=300)


def test_planted_units_are_found_in_every_split() -> None:
    assert sorted(found().units[:2].tolist()) == PLANTED
    assert found().chosen[PLANTED].tolist() == [pytest.approx(1.0)] * 2
    assert found().stability[1] == 1.0
    assert found().names is not None
    assert found().names[7] == "h.0#7"


def test_two_units_do_as_well_as_all_and_chance_is_far_away() -> None:
    one, two, _ = found().kept
    assert one.high < two.low
    assert found().delta[1].low > -0.05
    assert found().smallest(0.02) == 2
    assert found().random[1].high < two.low
    assert found().majority is not None
    assert found().majority < 0.45 < two.low
    assert found().p_value == pytest.approx(1 / 11)
    assert found().null.max() < found().score.low
    assert len(found().per_seed) == 2


def test_the_task_is_not_memorized() -> None:
    assert found().control_all is not None
    assert found().control_all.high < 0.5
    assert found().selectivity[1].low > 0.2


def test_bits_are_below_the_entropy_and_lie_in_the_planted_units() -> None:
    one, two, ten = found().information
    assert found().entropy == pytest.approx(np.log2(3), abs=0.02)
    assert one.high < two.low
    assert 0.3 < ten.value < two.value < 1.2
    assert found().information_all is not None
    assert found().information_all.low > 0.4


def test_removing_the_planted_inputs_leaves_chance_and_keeping_them_leaves_the_score() -> None:
    scores = {(each.action, each.to, each.n): each.score for each in found().ablated}
    for to in ("zero", "mean"):
        assert scores["remove", to, 2].high < 0.45
        assert scores["keep", to, 2].low > 0.55


def test_noise_covers_chance_and_has_no_small_p() -> None:
    rng = np.random.default_rng(0)
    found = []
    for _ in range(6):
        words = [[str(word) for word in rng.choice(200, 10)] for _ in range(30)]
        acts = Activations.of(rng.normal(size=(300, 20)), words=words)
        plan: dict[str, Any] = {"ablations": False, "probe": NearestMean(), "n_permutations": 9}
        found.append(evaluate("probeless", acts, rng.permutation(np.arange(300) % 2), n=[5], **plan))
    assert sum(0.5 in each.score and 0.5 in each.all_units for each in found) >= 5
    assert sum(0.0 in each.selectivity[-1] for each in found) >= 5
    assert sum(each.information[-1].low <= 0 for each in found) >= 5
    assert np.median([each.p_value for each in found if each.p_value is not None]) > 0.1


def test_folds_widen_intervals_and_a_single_split_does_not() -> None:
    acts, labels = planted()
    folds, split = (evaluate(None, acts, labels, test=test, **BARE) for test in (None, 0.2))
    assert folds.setting.widened == pytest.approx(1.5, abs=0.02)
    assert split.setting.widened == 1.0
    assert split.score.high - split.score.low > folds.score.high - folds.score.low  # a fifth of the rows
    assert folds.score.high <= 1.0


def test_p_is_spread_evenly_when_labels_are_permuted() -> None:
    rng = np.random.default_rng(0)
    p = []
    for _ in range(30):
        x, labels = rng.normal(size=(40, 4)), rng.permutation(np.arange(40) % 2)
        plan = {**QUICK, "n_resamples": 0, "n_permutations": 9, "folds": 2, "probe": NearestMean()}
        p.append(evaluate(lambda x, y: np.abs(x[y == 1].mean(0)), x, labels, n=1, **plan).p_value)
    assert 0.4 < np.mean(p) < 0.75  # ties count against the labels
    assert np.mean(np.array(p) <= 0.2) < 0.4
    assert np.mean(np.array(p) > 0.5) > 0.3


def test_a_ranking_that_saw_the_test_rows_is_told_apart_from_one_made_inside() -> None:
    rng = np.random.default_rng(0)
    x, labels = rng.normal(size=(60, 2000)), np.arange(60) % 2
    inside = evaluate("probeless", x, labels, n=10, **BARE)
    outside = evaluate(rank(x, labels), x, labels, n=10, **BARE)
    assert inside.setting.is_ranked_inside
    assert inside.score.value < 0.7
    assert outside.score.value > inside.score.value + 0.2  # what leaks
    assert not outside.setting.is_ranked_inside
    assert "you passed a ranking, which was not computed on the training rows" in outside.notes[0]
    assert outside.stability == ()


class Recorder(BaseEstimator):  # type: ignore[misc]
    """Notes the rows it is fitted to and asked about; the first unit is the number of the row."""

    seen: ClassVar[list[tuple[str, set[int]]]] = []

    def fit(self, x: np.ndarray, y: np.ndarray) -> Recorder:
        self.seen.append(("fit", set(np.asarray(x)[:, 0].astype(int).tolist())))
        return self

    def predict(self, x: np.ndarray) -> np.ndarray:
        self.seen.append(("predict", set(np.asarray(x)[:, 0].astype(int).tolist())))
        return np.zeros(len(x), np.int64)


def test_nothing_of_the_test_rows_reaches_ranking_or_probe() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 3)).astype(np.float32)
    x[:, 0] = np.arange(60)
    acts = Activations.of(x, words=[[f"{sentence}"] * 6 for sentence in range(10)])
    Recorder.seen.clear()

    def method(rows: np.ndarray, labels: np.ndarray) -> list[float]:
        Recorder.seen.append(("fit", set(rows[:, 0].astype(int).tolist())))
        return [3, 2, 1]

    evaluate(method, acts, np.arange(60) % 2, n=1, **{**BARE, "probe": Recorder(), "control": True})
    learned: set[int] = set()
    n_predicted = 0
    for what, rows in Recorder.seen:
        if what == "fit":
            learned = rows
        elif max(rows) > 0 or rows == {0}:  # random units have another first unit
            sentences = {row // 6 for row in rows}
            if rows <= set(range(60)) and len(rows) == 12:
                n_predicted += 1
                assert not sentences & {row // 6 for row in learned}
    assert n_predicted >= 10


def test_every_kind_of_subject_is_evaluated_alike() -> None:
    acts, labels = planted()
    subjects = ["linear", Linear(), Linear, Gaussian(n_units=3), lambda x, y: np.abs(x[y == "b"].mean(0))]
    for ranker in subjects:
        each = evaluate(ranker, acts, labels, n=[2], folds=2, **BARE)
        assert each.score.value > 0.5
        assert 7 in each.units
    alone = evaluate(None, acts, labels, **BARE)
    assert alone.counts == ()
    assert alone.score == alone.all_units
    with pytest.raises(InputError, match="n=3: all units ranks no units"):
        evaluate(None, acts, labels, n=3)


def test_a_fitted_probe_is_fitted_anew_and_stays_as_it_was() -> None:
    acts, labels = planted()
    probe = Linear().fit(acts, labels)
    weights = probe.weights_.copy()
    assert evaluate(probe, acts, labels, n=2, **BARE).all_units.value < probe.score(acts, labels) + 0.02
    assert np.array_equal(probe.weights_, weights)


def test_scores_of_all_units_are_those_of_scikit_learn_on_the_same_split() -> None:
    acts, labels = planted()
    mask = np.arange(600) >= 450
    ours = evaluate(RidgeClassifier(), acts, labels, test=mask, **BARE)
    expected = RidgeClassifier().fit(acts.array()[~mask], labels[~mask]).score(acts.array()[mask], labels[mask])
    assert ours.score.value == pytest.approx(expected)
    assert ours.setting.n_folds == 1
    by_folds = evaluate(RidgeClassifier(), acts, labels, **BARE).score.value
    assert by_folds == pytest.approx(
        (cross_val_predict(RidgeClassifier(), acts.array(), labels) == labels).mean(), abs=0.03
    )


def test_the_most_frequent_class_is_the_dummy_of_scikit_learn() -> None:
    x, labels = np.random.default_rng(0).normal(size=(100, 3)), np.arange(100) % 4 == 0
    ours = evaluate(None, x, labels, **BARE)
    assert ours.majority == DummyClassifier().fit(x, labels).score(x, labels) == 0.75


@pytest.mark.parametrize("metric", ["pearson", "spearman"])
def test_numbers_are_evaluated_too(metric: str) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 10))
    target = x[:, 4] + rng.normal(size=300)
    each = evaluate("linear", x, target, metric=metric, n=[1], n_permutations=10, **QUICK)
    assert each.units.tolist() == [4]
    rho = 1 / np.sqrt(2)
    assert (rho if metric == "pearson" else 6 / np.pi * np.arcsin(rho / 2)) in each.score
    assert each.p_value == pytest.approx(1 / 11)
    assert each.information == ()
    noise = evaluate("probeless", x, rng.normal(size=300), metric=metric, n=[3], n_permutations=10, **QUICK)
    assert 0.0 in noise.score
    assert noise.p_value is not None
    assert noise.p_value > 0.1


def test_the_same_seeds_give_the_same_numbers_and_nothing_given_changes() -> None:
    acts, labels = planted()
    before = acts.array().copy()
    one, other = (evaluate("probeless", acts, labels, n=[3], **QUICK, n_permutations=3) for _ in range(2))
    assert one.score == other.score
    assert one.null.tolist() == other.null.tolist()
    assert np.array_equal(acts.array(), before)


def test_layers_say_where_the_labels_are() -> None:
    acts, _ = planted()
    labels = np.where(acts.array()[:, 7] > 0.5, "high", "low")
    sites = layers(acts, labels, n_resamples=100)
    assert sites.sites == ("h.0", "h.1")
    assert sites.best == "h.0"
    assert sites["h.0"].all_units.low > 0.85
    assert sites.selectivity[0] is not None
    assert sites.selectivity[0].low > 0.2
    assert sites.information[0] is not None
    assert sites.information[1] is not None
    assert sites.information[0].low > 0.4 > 0.05 > sites.information[1].low
    with pytest.raises(InputError, match=r"layers\(\) needs activations with sites"):
        layers(acts.array(), labels)


def test_rows_without_sentences_or_words_are_noted() -> None:
    x = np.random.default_rng(0).normal(size=(60, 3))
    each = evaluate("probeless", x, x[:, 0] > 0, n=1, **{**BARE, "control": True})
    assert [note.split(",")[0] for note in each.notes] == [
        "the sentences are unknown",
        "the words are unknown",
    ]
    assert each.control_all is None
    given = evaluate("probeless", x, x[:, 0] > 0, n=1, groups=np.arange(60) // 3, words=list("abc") * 20, **BARE)
    assert given.setting.n_groups == 20
    assert given.notes == ()


def test_noise_that_repeats_is_nothing_and_repeats_are_counted() -> None:
    rng = np.random.default_rng(0)
    once = [[str(word) for word in rng.choice(50, 6)] for _ in range(30)]
    x, labels = rng.normal(size=(180, 20)), rng.integers(0, 2, 180)
    acts = Activations.of(np.tile(x, (3, 1)), words=once * 3)
    each = evaluate("probeless", acts, np.tile(labels, 3), n=10, **{**QUICK, "n_permutations": 20})
    assert each.setting.n_groups == 30
    assert each.notes[0].startswith("60 of 90 sentences repeat another one")
    assert each.score.value < 0.6
    assert each.p_value is not None
    assert each.p_value > 0.05


@pytest.mark.slow
def test_p_is_small_by_chance_as_seldom_as_it_says_where_labels_follow_sentences_but_for_some_rows() -> None:
    groups, p = np.repeat(np.arange(20), 10), []
    for seed in range(100):
        rng = np.random.default_rng(seed)
        x = rng.normal(size=(20, 10))[groups] + 0.5 * rng.normal(size=(200, 10))
        own = rng.permutation(np.repeat([0, 1], 10))[groups]
        labels = np.where(rng.random(200) < 0.1, 1 - own, own)
        plan = {**QUICK, "n_resamples": 0, "n_permutations": 19, "probe": NearestMean()}
        p.append(evaluate("probeless", x, labels, n=3, groups=groups, **plan).p_value)
    assert np.mean(np.array(p) <= 0.051) <= 0.09


def test_units_that_fit_noise_by_chance_tell_no_bits_and_cost_few() -> None:
    rng = np.random.default_rng(5)
    x, labels = rng.normal(size=(60, 2000)), rng.integers(0, 2, 60)
    each = evaluate("probeless", x, labels, n=[1, 5, 20, 50], **{**BARE, "information": True})
    assert all(-0.5 < bits.value < 0.1 for bits in each.information)


def test_a_probe_that_calls_what_happens_impossible_tells_finite_bits_and_is_noted() -> None:
    rng = np.random.default_rng(0)
    x, labels = rng.normal(size=(100, 3)), rng.integers(0, 2, 100)
    each = evaluate(RandomForestClassifier(3, random_state=0), x, labels, **{**BARE, "information": True})
    assert each.information_all is not None
    assert np.isfinite([each.information_all.value, each.information_all.low]).all()
    assert any("a probability below one in a million" in note for note in each.notes)


def test_a_class_that_one_sentence_alone_has_is_no_crash() -> None:
    rng = np.random.default_rng(0)
    labels = np.array(["a", "b"] * 50)
    labels[:4] = "rare"
    acts = Activations.of(rng.normal(size=(100, 5)), words=[[*"abcdefghi", f"{sentence}"] for sentence in range(10)])
    each = evaluate("probeless", acts, labels, n=2, n_permutations=0, n_resamples=50)
    assert any("4 test rows have classes with fewer than two training rows" in note for note in each.notes)


def test_bad_requests_are_errors_that_say_what_to_do() -> None:
    acts, labels = planted()
    with pytest.raises(InputError, match="n=21: must be between 1 and 20"):
        evaluate("probeless", acts, labels, n=21)
    with pytest.raises(InputError, match=r"n=2\.7: must be an integer"):
        evaluate("probeless", acts, labels, n=2.7)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="no metric 'auc'"):
        evaluate("probeless", acts, labels, metric="auc")
    with pytest.raises(InputError, match="no method 'probless'"):
        evaluate("probless", acts, labels)
    with pytest.raises(InputError, match="seeds=\\(\\)"):
        evaluate("probeless", acts, labels, seeds=())
    with pytest.raises(InputError, match="rows have several labels"):
        evaluate("probeless", acts, [{"a"}, {"a", "b"}, set()] * 200)
    with pytest.raises(InputError, match="a ranking of 3 units for activations of 20"):
        evaluate(rank(np.eye(4)[:, :3], [0, 0, 1, 1]), acts, labels)
    with pytest.raises(InputError, match=r"evaluate\(\) got int"):
        evaluate(3, acts, labels)
