"""Factors are scikit-learn's, find what was planted, and mean the same on new text."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import nnls
from sklearn.cluster import KMeans
from sklearn.decomposition import NMF, PCA

from cutaway.core.errors import InputError, MissingExtraError
from cutaway.lm.factorization.factorize import factorize
from cutaway.results.lm.factors import Factors, non_negative
from cutaway.store.activations.activations import Activations

Floats = NDArray[np.float64]
RNG = np.random.default_rng(0)
WHEN = np.zeros((3, 30))
WHEN[0, ::3], WHEN[1, 1::3], WHEN[2, 2::3] = 1.0, 2.0, 0.5
WHICH = np.zeros((3, 40))
WHICH[0, :10], WHICH[1, 8:25], WHICH[2, 30:] = 3.0, 1.0, 2.0
PLANTED = WHEN.T @ WHICH
NOISY = np.abs(PLANTED + 0.1 * RNG.normal(size=PLANTED.shape))
LAYERS = {"h.0": NOISY[:, :15], "h.1": NOISY[:, 15:25], "h.10": NOISY[:, 25:]}

LAYERS_32 = {name: values.astype(np.float32) for name, values in LAYERS.items()}


def cosine(a: Floats, b: Floats) -> Floats:
    return (a / np.linalg.norm(a, axis=1, keepdims=True)) @ (b / np.linalg.norm(b, axis=1, keepdims=True)).T


@pytest.mark.parametrize(("start", "init"), [("svd", "nndsvda"), ("random", "random")])
def test_nmf_is_scikit_learns_largest_factor_first(start: str, init: str) -> None:
    theirs = NMF(3, init=init, random_state=0, max_iter=500)
    weights = theirs.fit_transform(NOISY)
    found = factorize(NOISY, 3, start=start)
    assert found.error == pytest.approx(theirs.reconstruction_err_ / np.linalg.norm(NOISY), rel=1e-6)
    order = np.argsort(-weights.sum(axis=0) * theirs.components_.sum(axis=1))
    assert np.allclose(found.weights, weights.T[order])
    assert np.allclose(found.units, theirs.components_[order])
    assert (np.diff(found.strengths) <= 0).all()
    assert found.strengths.sum() == pytest.approx(1)
    assert np.array_equal(found.weights, factorize(NOISY, 3, start=start).weights)


def test_values_below_zero_count_as_zero_and_are_told() -> None:
    signed = NOISY - 1.0
    found = factorize(signed, 3)
    assert np.allclose(found.weights, factorize(np.maximum(signed, 0), 3).weights)
    assert any("Negative values counted as 0" in note for note in found.notes)
    with pytest.raises(InputError, match="no activation is positive"):
        factorize(-NOISY, 3)


def test_planted_factors_are_found_with_their_units_and_positions() -> None:
    found = factorize(PLANTED, 3, tolerance=1e-12, max_iter=5000)
    assert found.error < 1e-5
    likeness = cosine(found.units, WHICH)
    match = likeness.argmax(axis=1)
    assert sorted(match.tolist()) == [0, 1, 2]
    assert np.allclose(likeness.max(axis=1), 1, atol=1e-4)
    assert np.allclose(cosine(found.weights, WHEN).max(axis=1), 1, atol=1e-4)
    assert match[found.strongest].tolist() == [0, 1, 2] * 10
    assert np.allclose(found.approximation(), PLANTED, atol=1e-3)
    missed = factorize(PLANTED, 3, start="random")  # as Ecco begins
    assert missed.error > 0.2
    assert factorize(PLANTED, 3, start="random", seed=1).error < 1e-3


def test_pca_is_scikit_learns_up_to_signs() -> None:
    theirs = PCA(4).fit(NOISY)
    found = factorize(NOISY, 4, "pca")
    signs = np.sign(np.einsum("ij,ij->i", found.units, theirs.components_))
    assert np.allclose(found.units, theirs.components_ * signs[:, None], atol=1e-8)
    assert np.allclose(found.weights, (theirs.transform(NOISY) * signs).T, atol=1e-8)
    assert found.error == pytest.approx(np.sqrt(1 - theirs.explained_variance_ratio_.sum()), abs=1e-9)
    assert (found.units[np.arange(4), np.abs(found.units).argmax(axis=1)] > 0).all()
    assert np.allclose(found.approximation(), theirs.inverse_transform(theirs.transform(NOISY)), atol=1e-8)


def test_kmeans_clusters_units_that_fire_alike() -> None:
    found = factorize(NOISY, 4, "kmeans")
    theirs = KMeans(4, n_init=4, random_state=0).fit(NOISY.T)
    ours = found.units.argmax(axis=0)
    assert np.array_equal(ours[:, None] == ours, theirs.labels_[:, None] == theirs.labels_)
    assert (found.units.sum(axis=0) == 1).all()
    for cluster in range(4):
        assert np.allclose(found.weights[cluster], NOISY[:, ours == cluster].mean(axis=1))
    assert found.counts.sum() == 40
    assert (found.overlap == np.diag(found.counts)).all()


@pytest.mark.parametrize("method", ["nmf", "pca", "kmeans"])
def test_the_same_text_transformed_has_the_weights_it_had(method: Any) -> None:
    found = factorize(
        PLANTED + 0.01, 3, method, **({"tolerance": 1e-12, "max_iter": 20_000} if method == "nmf" else {})
    )
    again = found.transform(PLANTED + 0.01)
    assert again.shape == (3, 30)
    assert np.allclose(again, found.weights, atol=1e-3 * np.abs(found.weights).max())
    assert np.allclose(found.transform(torch.tensor(PLANTED[:2] + 0.01)), again[:, :2])


def test_new_text_gets_the_best_non_negative_weights() -> None:
    found = factorize(NOISY, 3)
    new = np.abs(RNG.normal(size=(12, 40))) + 2 * NOISY[:12]
    expected = np.stack([nnls(found.units.T, row)[0] for row in new], axis=1)
    assert np.allclose(found.transform(new), expected, atol=1e-8)
    ours = np.linalg.norm(new - found.transform(new).T @ found.units)
    theirs = NMF(3, init="nndsvda", random_state=0, max_iter=500).fit(NOISY)
    assert ours <= np.linalg.norm(new - theirs.transform(new) @ theirs.components_) + 1e-9


@given(seed=st.integers(0, 10_000), n=st.integers(1, 6))
@settings(max_examples=25, deadline=None)
def test_non_negative_weights_are_those_of_an_active_set(seed: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    h, x = np.abs(rng.normal(size=(n, 9))), rng.normal(size=(4, 9))
    found = non_negative(h @ h.T, h @ x.T)
    assert (found >= 0).all()
    for p in range(4):
        expected, residual = nnls(h.T, x[p])
        assert np.linalg.norm(x[p] - found[:, p] @ h) <= residual * (1 + 1e-7) + 1e-9
        assert np.allclose(found[:, p], expected, atol=1e-4)


# what factors are made of


def test_counts_shares_and_overlaps_are_those_of_the_entries() -> None:
    found = factorize(LAYERS, 3)
    assert found.layer_names == ("h.0", "h.1", "h.10")
    for f in range(3):
        assert found.counts[f] == sum(value > 0 for value in found.units[f])
        assert found.layer_counts[f].sum() == found.counts[f]
        shares = [
            found.units[f, part].sum() / found.units[f].sum() for part in (slice(15), slice(15, 25), slice(25, 40))
        ]
        assert np.allclose(found.layer_shares[f], shares)
        for g in range(3):
            both = set(np.flatnonzero(found.units[f] > 0)) & set(np.flatnonzero(found.units[g] > 0))
            assert found.overlap[f, g] == len(both)


def test_units_are_named_by_layer_and_number_there() -> None:
    found = factorize(LAYERS, 3)
    for f in range(3):
        best = int(found.units[f].argmax())
        name, value = found.top_units(f, 1)[0]
        assert value == found.units[f].max()
        layer, _, index = name.partition("#")
        assert LAYERS[layer][:, int(index)] is not None
        assert np.array_equal(LAYERS[layer][:, int(index)], NOISY[:, best])
    assert factorize(NOISY, 2).top_units(0, 1)[0][0].startswith("#")
    acts = Activations.of(LAYERS)
    assert np.array_equal(factorize(acts, 3, "pca").layers, found.layers)
    assert factorize(acts, 3).top_units(0) == factorize(LAYERS_32, 3).top_units(0)
    with pytest.raises(InputError, match="there is no factor 3: there are 3"):
        found.top_units(3)


def test_given_tokens_show_responses_and_written_ones_causes() -> None:
    x = np.array([[1.0, 0], [0, 1], [2, 0], [0, 3]])
    found = factorize(x, 2, "kmeans", pieces=["a", " b", " c", " d", " e"], n_prompt=2)
    one = found.weights[0]
    assert np.array_equal(found.responses[0], [*one, np.nan], equal_nan=True)
    assert np.array_equal(found.causes[0], [np.nan, *one], equal_nan=True)
    assert found.shown[0].tolist() == [one[0], one[1], one[1], one[2], one[3]]
    assert found.top_positions(0, 1)[0][1] in (" c", " d")
    alone = factorize(x, 2, "kmeans", pieces="abcd")
    assert alone.shown.shape == (2, 4)
    with pytest.raises(InputError, match="6 token texts were given for 4 positions"):
        factorize(x, 2, pieces="abcdef")


def test_a_result_is_its_own_and_says_what_it_is() -> None:
    given = NOISY.astype(np.float32)
    before = given.copy()
    found = factorize({"h.0": given}, 3, pieces=[f" {p}" for p in range(30)])
    assert isinstance(found, Factors)
    assert np.array_equal(given, before)
    assert not found.weights.flags.writeable
    assert "Factors by NMF: 3 of 40 units in 1 layer over 30 positions" in repr(found)
    assert "strongest at ' " in repr(found)
    table = found.table()
    assert list(table["units"]) == found.counts.tolist()
    assert np.allclose(table["share.h.0"], 1)


def test_there_are_no_more_factors_than_positions() -> None:
    assert len(factorize(NOISY[:4], 10)) == 4
    assert "there are only 4 positions" in factorize(NOISY[:4], 10).notes[0]
    assert len(factorize(NOISY[:4], 10, "pca")) == 3
    assert len(factorize(np.repeat(NOISY[:, :2], 3, axis=1), 5, "kmeans")) == 2


def test_rounds_that_were_too_few_are_told() -> None:
    assert any("did not converge in 2 iterations" in note for note in factorize(NOISY, 3, max_iter=2).notes)


@pytest.mark.parametrize(
    ("values", "options", "why"),
    [
        (NOISY, {"n": 0}, "or more"),
        (NOISY, {"start": "zeros"}, "'svd' or 'random'"),
        (NOISY, {"method": "ica"}, "'nmf', 'pca', 'kmeans'"),
        (NOISY, {"method": "pca", "max_iter": 3}, "method='pca' does not use max_iter=: for method='nmf' only"),
        (np.full((3, 4), np.nan), {}, "NaN or infinite"),
        ({"h.0": NOISY, "h.1": NOISY[:3]}, {}, "h.0 has 30, h.1 has 3"),
        ({}, {}, "at least one layer"),
        (np.zeros((2, 3, 4)), {}, r"For \[layer, position, unit\], give a mapping"),
        (NOISY[:0], {}, "at least one"),
        (NOISY[:1], {"method": "pca"}, "at least two"),
    ],
)
def test_what_cannot_be_factored_says_why(values: Any, options: dict[str, Any], why: str) -> None:
    with pytest.raises(InputError, match=why):
        factorize(values, **{"n": 2, **options})


def test_other_units_cannot_be_transformed() -> None:
    with pytest.raises(InputError, match=r"39 units, but the factors have 40: .* h.0, h.1, h.10"):
        factorize(LAYERS, 2).transform(NOISY[:, 1:])


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.decomposition", None)
    with pytest.raises(MissingExtraError, match="pip install 'cutaway\\[neurons\\]'"):
        factorize(NOISY, 2)
