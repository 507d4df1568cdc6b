"""Every method finds what was planted, leaves noise alone, and treats its input with care."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

import cutaway
from cutaway.core.errors import InputError
from cutaway.neurons.labels.labels import encode
from cutaway.neurons.ranking.rank import METHODS, rank
from cutaway.store.activations.activations import Activations

N_ROWS, N_UNITS, DEAD = 1200, 24, 9
CLASSES = np.array(["adjective", "noun", "verb"])
OURS = [name for name in METHODS if name not in ("linear", "gaussian", "gradient", "random")]
OPTIONS: dict[str, dict[str, Any]] = {"iou": {"share": 0.1}}


def planted(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Unit 4 rises for nouns, unit 7 falls for verbs, unit 9 never moves; the rest is noise, on several scales."""
    rng = np.random.default_rng(seed)
    tags = CLASSES[rng.integers(0, 3, N_ROWS)]
    x = rng.normal(size=(N_ROWS, N_UNITS))
    x[:, 4] += 3 * (tags == "noun")
    x[:, 7] -= 3 * (tags == "verb")
    x *= rng.permutation(np.geomspace(0.1, 10, N_UNITS))
    x[:, DEAD] = 0.25
    return x.astype(np.float32), tags


X, TAGS = planted()


@pytest.mark.parametrize("method", OURS)
def test_planted_units_are_found_the_negative_one_with_its_sign(method: str) -> None:
    found = rank(X, TAGS, method, **OPTIONS.get(method, {}))
    assert set(found.top(2).tolist()) == {4, 7}
    noun, verb = found.per_label["noun"], found.per_label["verb"]
    assert verb.order[0] == 7
    assert verb.signs[7] == -1
    assert noun.order[0] == 4
    assert noun.signs[4] == 1
    rest = np.delete(found.scores, [4, 7, DEAD])
    assert min(found.scores[[4, 7]]) > 1.25 * rest.max()


@pytest.mark.parametrize("method", OURS)
def test_two_classes_rank_for_the_second(method: str) -> None:
    found = rank(X, TAGS == "verb", method, **OPTIONS.get(method, {}))
    assert found.order[0] == 7
    assert found.signs[7] == -1
    assert found.labels == (False, True)
    assert np.array_equal(found.scores, found.per_label[True].scores)
    assert found.about["concept"] is True


@pytest.mark.parametrize("method", OURS)
def test_several_labels_a_row_are_one_against_the_rest_each(method: str) -> None:
    tables = np.column_stack([TAGS == "noun", TAGS == "verb", X[:, 0] > 0])
    options = OPTIONS.get(method, {})
    found = rank(X, tables, method, **options)
    for column in range(3):
        alone = rank(X, tables[:, column], method, **options)
        assert np.allclose(found.per_label[column].scores, alone.scores, atol=1e-12)
        assert np.array_equal(found.per_label[column].order, alone.order)
    assert found.per_label[2].order[0] == 0


@pytest.mark.parametrize("method", [*OURS, "random"])
def test_units_that_never_move_are_listed_and_stand_last(method: str) -> None:
    found = rank(X, TAGS, method)
    assert found.dead.tolist() == [DEAD]
    assert found.order[-1] == DEAD
    assert all(each.order[-1] == DEAD for each in found.per_label.values())
    assert sorted(found.order.tolist()) == list(range(N_UNITS))


@pytest.mark.parametrize("method", [*OURS, "random"])
def test_arrays_tensors_and_activations_give_the_same_and_stay_as_they_are(method: str) -> None:
    x = X.copy()
    tensor = torch.from_numpy(X.copy())
    acts = Activations.of({"h.0": X[:, :10].copy(), "h.1": X[:, 10:].copy()})
    plain = rank(x, TAGS, method)
    for source in (tensor, acts):
        found = rank(source, TAGS.tolist(), method)
        assert np.array_equal(found.scores, plain.scores)
        assert np.array_equal(found.order, plain.order)
    assert np.array_equal(x, X)
    assert np.array_equal(tensor.numpy(), X)
    assert np.array_equal(acts.array(), X)
    assert rank(acts, TAGS, method).top(1) == [acts.names[plain.order[0]]]


@pytest.mark.parametrize("compat", ["", "neurox"])
def test_nothing_that_was_given_is_written_to(compat: Any) -> None:
    frozen, tags = X.copy(), TAGS.copy()
    frozen.flags.writeable = tags.flags.writeable = False
    for method in ("probeless", "average_precision", "iou"):
        rank(frozen, tags, method, compat=compat)


@pytest.mark.parametrize("method", [*OURS, "random"])
def test_activations_that_are_no_numbers_raise_and_name_rows(method: str) -> None:
    x = X.copy()
    x[[17, 33], 5] = np.nan
    with pytest.raises(InputError, match="in rows 17, 33, in unit 5"):
        rank(x, TAGS, method)


@pytest.mark.parametrize("method", OURS)
def test_a_chosen_set_of_units_is_ranked_as_it_is_among_all(method: str) -> None:
    units = [20, 4, 9, 7, 1]
    whole, part = rank(X, TAGS, method), rank(X, TAGS, method, units=units)
    assert part.order.tolist() == [unit for unit in whole.order.tolist() if unit in units]
    assert np.allclose(part.scores[units], whole.scores[units], rtol=1e-12)
    assert np.isnan(np.delete(part.scores, units)).all()
    assert part.dead.tolist() == [9]
    assert set(part.per_label["noun"].order.tolist()) == set(units)


def test_units_are_chosen_by_index_mask_or_name() -> None:
    acts = Activations.of({"h.0": X[:, :10], "h.1": X[:, 10:]})
    by_name = rank(acts, TAGS, units=["h.1#3", "h.0#4"])
    assert by_name.top(2) == ["h.0#4", "h.1#3"]
    mask = np.isin(np.arange(N_UNITS), [4, 13])
    assert rank(X, TAGS, units=mask).order.tolist() == by_name.order.tolist() == [4, 13]
    for units, message in [
        ([24], "no unit 24: there are 24 units"),
        ([-1], "no unit -1"),
        (["h.0#4"], "a plain array have indices"),
        ([True], "a mask of 1, but"),
        ([], "non-empty list"),
        ([0.5], "dtype float64"),
    ]:
        with pytest.raises(InputError, match=message):
            rank(X, TAGS, units=units)
    with pytest.raises(InputError, match=r"no unit 'h.7#1'\. Names look like 'h.0#0'"):
        rank(acts, TAGS, units=["h.7#1"])


def test_a_function_is_a_method() -> None:
    seen: list[Any] = []

    def spread(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        seen.append((x.shape, y.tolist()))
        return np.abs(x[y == "verb"].mean(axis=0) - x[y != "verb"].mean(axis=0)) / (x.std(axis=0) + 1e-9)

    acts = Activations.of({"h": X})
    found = rank(acts, TAGS, spread)
    assert found.method == "spread"
    assert found.top(1) == ["h#7"]
    assert found.dead.tolist() == [DEAD]
    assert seen[0] == (X.shape, TAGS.tolist())
    assert rank(X, TAGS, spread, units=[3, 7]).order.tolist() == [7, 3]
    assert rank(X, TAGS, lambda x, y: torch.arange(N_UNITS)).order[0] == N_UNITS - 1
    with pytest.raises(InputError, match=r"scores of shape \[2\] for 24 units"):
        rank(X, TAGS, lambda x, y: x[:2, 0])
    with pytest.raises(InputError, match=r"spread is your own function and does not read l1=: use options="):
        rank(X, TAGS, spread, l1=3)


def test_options_of_a_function_are_passed_on() -> None:
    def power(x: np.ndarray, y: np.ndarray, *, exponent: int = 1) -> np.ndarray:
        return np.abs(x[y == "verb"].mean(axis=0) - x[y != "verb"].mean(axis=0)) ** exponent

    assert np.allclose(rank(X, TAGS, power, options={"exponent": 2}).scores, rank(X, TAGS, power).scores ** 2)
    by_mapping = rank(X, TAGS, "probeless", options={"standardize": False})
    assert np.array_equal(by_mapping.scores, rank(X, TAGS, standardize=False).scores)


def test_scikit_learns_functions_are_methods_too() -> None:
    from sklearn.feature_selection import f_classif

    found = rank(X[:, :8], TAGS, lambda x, y: f_classif(x, y)[0])
    assert set(found.top(2).tolist()) == {4, 7}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ({"method": "probless"}, "no method 'probless'. Did you mean 'probeless'"),
        ({"method": "xyz"}, "Methods: average_precision, gaussian, gradient, iou"),
        ({"method": "liner"}, "no method 'liner'. Did you mean 'linear'"),
        ({"method": None}, "method=None: pass the name of a method"),
        ({"method": "probeless", "l1": 3}, "method='probeless' has no option 'l1'. Options: standardize"),
        ({"method": "probeless", "options": {"top": 3}}, "method='probeless' has no option 'top'"),
        ({"method": "random", "l1": 3}, "Options: none"),
        ({"method": "selectivity", "compat": "neurox"}, "It applies to average_precision"),
        ({"method": "probeless", "compat": "other"}, "compat='other'"),
        ({"method": "probeless", "compat": "neurox", "standardize": True}, "compat='neurox' sets standardize"),
        ({"method": "mean_select", "overall": "sum"}, "overall='sum'"),
    ],
)
def test_what_no_method_offers_is_refused_with_what_there_is(call: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        rank(X, TAGS, **call)


def test_labels_that_do_not_fit_the_rows_are_refused() -> None:
    with pytest.raises(InputError, match="1,199 labels for 1,200 rows"):
        rank(X, TAGS[:-1])


@pytest.mark.parametrize("method", ["probeless", "mean_select"])
def test_numbers_rank_by_correlation(method: str) -> None:
    rng = np.random.default_rng(3)
    rating = -2 * X[:, 6] / X[:, 6].std() + rng.normal(size=N_ROWS) + 100
    found = rank(X, rating, method)
    kept = np.delete(np.arange(N_UNITS), DEAD)
    r = np.array([np.corrcoef(X[:, unit].astype(float), rating)[0, 1] for unit in kept])
    expected = np.abs(r) if method == "mean_select" else np.abs(r) / np.sqrt(1 - r**2)
    assert np.allclose(found.scores[kept], expected, rtol=1e-9)
    assert np.array_equal(found.signs[kept], np.sign(r))
    assert found.order[0] == 6
    assert not found.per_label


@pytest.mark.parametrize("method", ["selectivity", "average_precision", "iou"])
def test_methods_that_need_classes_say_so(method: str) -> None:
    with pytest.raises(InputError, match=f"method='{method}' needs classes, but the labels are numbers"):
        rank(X, np.linspace(0, 1, N_ROWS), method)


def test_random_is_the_same_for_a_seed_and_different_for_another() -> None:
    one, same, other = (rank(X, TAGS, "random", seed=seed) for seed in (1, 1, 2))
    assert np.array_equal(one.order, same.order)
    assert not np.array_equal(one.order, other.order)
    assert not np.array_equal(one.order, one.per_label["noun"].order)


def test_the_whole_of_many_classes_is_the_mean_or_the_largest() -> None:
    for overall, join in (("mean", np.mean), ("max", np.max)):
        found = rank(X, TAGS, "mean_select", overall=overall)
        assert np.allclose(found.scores, join([each.scores for each in found.per_label.values()], axis=0))


def test_the_best_units_can_be_edited_in_the_model() -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    x = torch.randn(100, 4)
    hidden = model[:2](x)
    found = rank(Activations.of({"1": hidden}), hidden[:, 5] > hidden[:, 5].median())
    assert found.top(1) == ["1#5"]
    kept = torch.ones(8)
    kept[found.order[:3].copy()] = 0
    with cutaway.edit(model, at=found.top(3), to=0):
        edited = model(x)
    assert torch.equal(edited, model[2](hidden * kept))


def test_a_label_without_rows_is_refused() -> None:
    encoded = encode(TAGS)
    some = replace(encoded, codes=np.where(encoded.codes == 2, 1, encoded.codes))
    with pytest.raises(InputError, match="label 'verb' has 0 of 1,200 rows"):
        rank(X, some)


SCRIPT = """
import json, sys, numpy as np
from cutaway.neurons.ranking.rank import rank
rng = np.random.default_rng(0)
x = rng.normal(size=(300, 12)).astype(np.float32)
tags = np.array(["verb", "noun", "adjective"])[rng.integers(0, 3, 300)].tolist()
found = [rank(x, labels, m) for m in json.loads(sys.argv[1]) for labels in (tags, [{tag, tag[0]} for tag in tags])]
print(json.dumps([[r.order.tolist(), r.scores.tolist(), r.labels] for r in found]))
assert "torch" not in sys.modules and "sklearn" not in sys.modules
"""


def test_the_salt_of_hashes_changes_nothing() -> None:
    """Nor do these methods load torch or scikit-learn."""
    running = [
        subprocess.Popen(
            [sys.executable, "-c", SCRIPT, json.dumps([*OURS, "random"])],
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONHASHSEED": salt, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        for salt in ("0", "1", "4242")
    ]
    texts = {each.communicate()[0] for each in running}
    assert len(texts) == 1
    found = json.loads(texts.pop())
    assert found[0][2] == ["adjective", "noun", "verb"]
    assert found[1][2] == ["a", "adjective", "n", "noun", "v", "verb"]


def test_a_function_that_returns_no_number_for_some_units_is_an_error_that_names_them() -> None:
    x, labels = np.random.default_rng(0).normal(size=(20, 4)), np.arange(20) % 2
    with pytest.raises(InputError, match=r"returned NaN for 2 of 4 units \(1, 3\)"):
        rank(x, labels, lambda x, y: np.array([1.0, np.nan, 2.0, np.nan]))
    acts = Activations.of({"h.0": x})
    with pytest.raises(InputError, match=r"for 4 of 4 units \(h\.0#0, "):
        rank(acts, labels, lambda x, y: np.full(4, np.nan))
