"""The likeliest mistakes with neurons: each message says what was asked, what was found and what to do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import cutaway
from cutaway import neurons, studies
from cutaway.core.errors import InputError, InputTypeError

X = np.random.default_rng(0).normal(size=(60, 20))
Y = ["a", "b"] * 30
NAN = np.where(np.arange(20) == 4, np.nan, X[:4])
RANKING = neurons.rank(X, Y)
OTHER = neurons.rank(X, Y, "mean_select")


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: neurons.rank(X, Y[:-1]), InputError, "got 59 labels for 60 rows: pass one label per row"),
        (lambda: neurons.rank(X, ["a"] * 60), InputError, "all 60 labels are 'a': pass at least two classes"),
        (lambda: neurons.rank(X, [1.5] * 60), InputError, "all 60 labels are 1.5: pass at least two different"),
        (lambda: neurons.rank(X, Y, "liner"), InputError, "no method 'liner'. Did you mean 'linear'"),
        (lambda: neurons.rank(Y, X), InputError, "activations and labels are swapped"),
        (lambda: neurons.rank(np.arange(60) % 2, torch.as_tensor(X)), InputError, "activations and labels are swapped"),
        (lambda: neurons.evaluate("probeless", Y, X), InputError, "activations and labels are swapped"),
        (lambda: neurons.report(Y, X), InputError, "activations and labels are swapped"),
        (lambda: neurons.stability(Y, X), InputError, "activations and labels are swapped"),
        (
            lambda: neurons.evaluate(X, Y, "probeless"),
            InputTypeError,
            r"got ndarray first.*evaluate\('probeless'",
        ),
        (lambda: neurons.rank(NAN, Y[:4]), InputError, "NaN or infinite values: in rows 0, 1, 2, 3, in unit 4"),
        (lambda: neurons.evaluate("probeless", X, Y, folds="5"), InputError, "folds='5': must be a whole number"),
        (lambda: neurons.layers(X, Y), InputTypeError, r"layers\(\) needs activations with sites, got ndarray"),
        (lambda: neurons.clusters(X, "0.5"), InputError, "threshold='0.5': must be a distance"),
        (lambda: neurons.colored(X, 1), InputTypeError, "got a ndarray, which has no sentences"),
        (
            lambda: neurons.average_overlap({"a": OTHER}, [RANKING]),
            InputTypeError,
            "ranking is a dict: pass",
        ),
        (
            lambda: neurons.average_overlap({"a": RANKING, "b": OTHER}),  # type: ignore[call-arg]
            InputTypeError,
            r"average_overlap\(\) is missing baselines; it got a dict. Pass one ranking and.*neurons.compare\(rank",
        ),
        (
            lambda: neurons.neuron_vote(baselines=[OTHER]),  # type: ignore[call-arg]
            InputTypeError,
            r"neuron_vote\(\) is missing ranking; it got a list",
        ),
        (lambda: neurons.average_overlap(RANKING, OTHER), InputTypeError, "got a single Ranking.*pass a list"),
        (lambda: neurons.average_overlap(RANKING, []), InputError, "got no ranking to compare with"),
        (lambda: neurons.vote(RANKING), InputTypeError, "got a single Ranking"),
        (lambda: neurons.compare([RANKING]), InputError, "got 1 ranking: pass at least two"),
        (lambda: neurons.compare(["probeless", "linear"]), InputTypeError, "ranking 0 is 'probeless': pass the result"),
        (lambda: neurons.compare(3), InputTypeError, "got int instead of rankings"),
        (lambda: RANKING.top("5"), InputTypeError, "n='5': must be a whole number"),
        (lambda: neurons.report(X, Y, model=nn.Linear(2, 2)), InputError, r"got model= without metric=.*is score="),
        (lambda: neurons.report(X, Y, metric="accuracy"), InputError, r"got metric= without model=.*is score="),
        (lambda: neurons.report(X, Y, options={"liner": {}}), InputError, "names 'liner'.*Did you mean 'linear'"),
        (lambda: cutaway.probes.Linear(l1=-1).fit(X, Y), InputError, "l1=-1: must be 0 or more"),
    ],
)
def test_the_message_says_what_to_do(call: Callable[[], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()


def test_more_units_than_there_are_come_with_a_warning() -> None:
    with pytest.warns(UserWarning, match=r"top\(100\) returns 20 units: probeless ranked 20\."):
        assert len(RANKING.top(100)) == 20
    with pytest.warns(UserWarning, match=r"bottom\(9\) returns 2 units: probeless ranked 2 of 20"):
        neurons.rank(X, Y, units=[3, 7]).bottom(9)
    with pytest.warns(UserWarning, match="the top 50 are all 20 units, so every overlap is 1"):
        neurons.compare([RANKING, OTHER])
    with pytest.warns(UserWarning, match="the top 50 are all 20 units"):
        neurons.stability(X, Y, seeds=2)


def test_rankings_by_name_are_rankings_too() -> None:
    assert neurons.average_overlap(RANKING, {"other": OTHER}, 5) == neurons.average_overlap(RANKING, [OTHER], 5)
    assert neurons.vote({"a": RANKING, "b": OTHER}).order.tolist() == neurons.vote([RANKING, OTHER]).order.tolist()


def test_results_are_arrays_where_it_is_obvious() -> None:
    assert np.array_equal(np.asarray(RANKING), RANKING.scores)
    evaluation = neurons.evaluate("probeless", X, Y, n=[1, 2], n_permutations=0, n_resamples=20)
    assert np.asarray(evaluation.kept).tolist() == [each.value for each in evaluation.kept]
    assert np.asarray(neurons.clusters(X)).tolist() == neurons.clusters(X).labels.tolist()
    comparison = neurons.compare([RANKING, OTHER], 5)
    assert np.array_equal(np.asarray(comparison, np.float32), comparison.overlap.astype(np.float32))


def test_studies_say_what_to_do() -> None:
    model = nn.Sequential(nn.Linear(4, 3), nn.ReLU())
    data = torch.ones(2, 4)

    def run_only() -> None:
        model(data)

    with pytest.raises(InputError, match="the metric returned None without a lesion: return a number"):
        studies.lesion(model, run_only, at="1")
    with pytest.raises(InputTypeError, match="metric is a Tensor: pass a function that runs the model"):
        studies.lesion(model, model(data), at="1")  # type: ignore[arg-type]
    with pytest.raises(InputTypeError, match=r"got a function as model: pass a torch\.nn\.Module first"):
        studies.lesion(run_only, model, at="1")  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"each='units': pass 'site', 'unit', 'head'\. Did you mean 'unit'"):
        studies.lesion(model, lambda: model(data), at="1", each="units")  # type: ignore[arg-type]
    with pytest.raises(InputTypeError, match="clean is a Tensor: pass a function, such as clean=lambda: model"):
        studies.patch(model, lambda out: out, clean=data, corrupted=run_only, at="1")  # type: ignore[arg-type]
