"""The spread over the batch agrees with NumPy in float64, whatever the layout, and says NaN where there is none."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.recording.statistics.test_summary import REAL, STRANGE, SUMMARIES, WHOLE, row
from torch import Tensor, nn

import cutaway
from cutaway.recording.statistics import device as device_module
from cutaway.recording.statistics.device_quantiles import batch_indices_on
from cutaway.recording.statistics.quantiles import BATCH_ELEMENTS, BATCH_SAMPLES, batch_indices
from cutaway.recording.statistics.summary import Summary


def oracle(values: np.ndarray, batch_dim: int) -> float:
    """Over all samples and all elements, in float64."""
    return float(values.astype(np.float64).std(axis=batch_dim).mean())


def chosen(values: np.ndarray, batch_dim: int) -> np.ndarray:
    """`[sample, element]`: the same choice by plain indexing, of an array that lies in memory as it is written."""
    each = np.moveaxis(values, batch_dim, 0).reshape(values.shape[batch_dim], -1)
    n_samples, n_elements = each.shape
    samples = [k * n_samples // min(n_samples, 64) for k in range(min(n_samples, 64))]
    elements = list(range(n_elements))
    if n_elements > 64:
        starts = [k * n_elements // 64 for k in range(65)]
        golden = [(k * 2654435769) % 2**32 for k in range(64)]
        elements = [starts[k] + golden[k] * (starts[k + 1] - starts[k]) // 2**32 for k in range(64)]
    return each[np.ix_(samples, elements)]


small = st.sampled_from([(2, 1), (2, 3), (64, 64), (7, 5, 9), (5, 3, 4), (30, 2, 2), (3, 40)])
LAYOUTS = {
    "contiguous": lambda x: x,
    "transposed": lambda x: x.transpose(0, -1).contiguous().transpose(0, -1),
    "a slice": lambda x: torch.cat([x, x], -1)[..., : x.shape[-1]],
    "every second": lambda x: x.repeat_interleave(2, 0)[::2],
    "expanded elements": lambda x: x[..., None].expand(*x.shape, 3),
}


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    shape=small,
    dim=st.integers(0, 2),
    dtype=st.sampled_from(REAL + WHOLE),
    layout=st.sampled_from(sorted(LAYOUTS)),
    shift=st.sampled_from([0.0, 1.0, -100.0]),
    seed=st.integers(0, 2**16),
)
def test_a_small_tensor_agrees_with_numpy_over_all_of_it(
    shape: tuple[int, ...], dim: int, dtype: torch.dtype, layout: str, shift: float, seed: int
) -> None:
    dim = min(dim, len(shape) - 1)
    made = np.random.default_rng(seed).normal(shift, 3, shape)
    tensor = LAYOUTS[layout](torch.from_numpy(np.abs(made) if not dtype.is_signed else made).to(dtype))
    n_samples, values = tensor.shape[dim], tensor.to(torch.float64).numpy()
    for make in SUMMARIES:
        for batch_dim in (dim, dim - tensor.dim()):
            found = row(tensor, make=make, batch_dim=batch_dim)["batch_std"]
            if n_samples < 2:
                assert np.isnan(found)
            elif n_samples <= BATCH_SAMPLES and values.size // n_samples <= BATCH_ELEMENTS:
                scale = np.abs(values).max()
                assert found == pytest.approx(oracle(values, dim), rel=1e-5, abs=1e-6 * scale)


@pytest.mark.parametrize("make", SUMMARIES)
@pytest.mark.parametrize(
    ("shape", "dim"), [((16, 100, 33), 0), ((100, 16, 33), 1), ((40, 9, 8, 16), 3), ((1000, 300), 0), ((65, 65), 0)]
)
def test_of_a_large_tensor_64_elements_and_64_samples_are_taken(
    make: type[Summary], shape: tuple[int, ...], dim: int
) -> None:
    rng = np.random.default_rng(0)
    made = (rng.normal(0, 1, shape) * rng.gamma(2, 1, shape[-1])).astype(np.float32)
    found = row(torch.from_numpy(made), make=make, batch_dim=dim)["batch_std"]
    assert found == pytest.approx(oracle(chosen(made, dim), 0), rel=1e-5)
    assert found == pytest.approx(oracle(made, dim), rel=0.3)
    assert batch_indices(made.size, shape[dim], 1).shape == (min(shape[dim], 64), min(made.size // shape[dim], 64))


@pytest.mark.parametrize("make", SUMMARIES)
def test_the_order_in_memory_does_not_matter_where_all_is_taken(make: type[Summary]) -> None:
    tensor = torch.randn(10, 4, 5)
    found = {row(layout(tensor), make=make, batch_dim=0)["batch_std"] for layout in list(LAYOUTS.values())[:4]}
    assert max(found) == pytest.approx(min(found), rel=1e-5)


@pytest.mark.parametrize("make", SUMMARIES)
def test_samples_that_are_all_the_same_have_no_spread_however_much_units_differ(make: type[Summary]) -> None:
    """Mode collapse: every sample gives the same output."""
    one = torch.randn(1, 300) * 10
    for tensor in (one.repeat(8, 1), one.expand(8, -1), one.repeat(8, 1).double()):
        found = row(tensor, make=make, batch_dim=0)
        assert found["batch_std"] == pytest.approx(0, abs=1e-6)
        assert found["std"] > 5


@pytest.mark.parametrize("make", SUMMARIES)
def test_a_small_spread_around_large_means_is_seen(make: type[Summary]) -> None:
    wide = np.random.default_rng(0).normal(0, 1e-2, (20, 50)) + np.linspace(-1e6, 1e6, 50)
    narrow = (np.random.default_rng(0).normal(0, 1, (20, 50)) + np.linspace(-1e5, 1e5, 50)).astype(np.float32)
    for made in (wide, narrow):
        expected = oracle(made, 0)
        assert row(torch.from_numpy(made), make=make, batch_dim=0)["batch_std"] == pytest.approx(expected, rel=1e-3)
    for factor in (1e-30, 1e25):
        values = (narrow * factor).astype(np.float32)
        if make is Summary:  # a device squares in float32
            assert row(torch.from_numpy(values), batch_dim=0)["batch_std"] == pytest.approx(oracle(values, 0), rel=1e-3)


@pytest.mark.parametrize("make", SUMMARIES)
@pytest.mark.parametrize("strange", STRANGE.values(), ids=STRANGE)
@pytest.mark.parametrize("width", [10, 4000])
def test_what_is_not_finite_makes_it_nan_wherever_it_is(make: type[Summary], strange: list[float], width: int) -> None:
    tensor = torch.randn(12, width)
    tensor.view(-1)[77 : 77 + len(strange)] = torch.tensor(strange)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isnan(row(tensor, make=make, batch_dim=0)["batch_std"])


@pytest.mark.parametrize("make", SUMMARIES)
@pytest.mark.parametrize("level", ["core", "full"])
def test_without_two_samples_there_is_none(make: type[Summary], level: str) -> None:
    cases: list[tuple[Tensor, int | None]] = [
        (torch.randn(8, 8), None),
        (torch.randn(1, 8), 0),
        (torch.randn(8, 8), 2),
        (torch.randn(8, 8), -3),
        (torch.tensor(1.0), 0),
        (torch.empty(0, 4), 0),
        (torch.empty(4, 0), 0),
        (torch.eye(4).to_sparse(), 0),
        (torch.empty(4, 4, device="meta"), 0),
    ]
    for tensor, dim in cases:
        assert np.isnan(row(tensor, level, make, batch_dim=dim)["batch_std"]), (tensor, dim)


def test_places_on_a_device_are_the_same() -> None:
    device_indices = batch_indices_on.__wrapped__
    for given_ in ((1000, 10, 1), (1000, 10, 5), (10**7, 200, 1000), (12, 3, 4)):
        meta = device_indices(torch.device("cpu"), *given_)
        assert meta.tolist() == batch_indices(*given_).tolist()
        assert len(np.unique(batch_indices(*given_))) == batch_indices(*given_).size


def test_a_run_has_it_of_what_has_samples(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(4, 6), nn.Tanh())
    x = torch.randn(5, 4)
    with cutaway.record(tmp_path / "run", model, every=1) as run, run.step():
        y = model(x)
        y.sum().backward()
    step = cutaway.load(tmp_path / "run").at(0)
    assert step["1"].stats["batch_std"] == pytest.approx(oracle(y.detach().numpy(), 0), rel=1e-5)
    assert np.isnan(step["0.weight"].stats["batch_std"])


@pytest.mark.cuda
@pytest.mark.parametrize("uses_triton", [True, False])
def test_a_gpu_gives_what_numpy_gives(uses_triton: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if uses_triton:
        pytest.importorskip("triton")
    monkeypatch.setattr(device_module, "_FAILED", set() if uses_triton else {"triton"})
    shapes = [((16, 100, 33), 0), ((100, 16, 33), 1), ((40, 9, 8, 16), 3), ((1000, 300), 0), ((2, 1), 0), ((5, 7), 1)]
    summary, expected = Summary(), []
    for shape, dim in shapes:
        for dtype in (torch.float32, torch.bfloat16, torch.float64, torch.int64):
            tensor = (torch.randn(shape) * 9 + 3).to(dtype)
            summary.add(tensor.cuda(), batch_dim=dim)
            expected.append(oracle(chosen(tensor.double().numpy(), dim), 0))
    summary.add(torch.ones(9, 1000).cuda())
    summary.add(torch.ones(1, 1000).cuda().expand(9, -1), batch_dim=0)
    assert (set() if uses_triton else {"triton"}) == device_module._FAILED
    found = summary.matrix()[:, summary.names.index("batch_std")]
    np.testing.assert_allclose(found, [*expected, np.nan, 0], rtol=1e-4, atol=1e-6)
