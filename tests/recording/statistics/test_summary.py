"""Statistics agree with NumPy in float64, on any tensor, and leave no trace."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests import warm_python
from torch import Tensor

from cutaway.core.statistics import STATISTICS, names_in_tiers
from cutaway.recording.statistics import device as device_module
from cutaway.recording.statistics.device_quantiles import sample_indices_on
from cutaway.recording.statistics.per_unit import MOST_UNITS
from cutaway.recording.statistics.quantiles import N_SAMPLES, QUANTILES, sample_indices
from cutaway.recording.statistics.scratch import CHUNK
from cutaway.recording.statistics.summary import Summary

CORE = names_in_tiers("core")
FULL = names_in_tiers("core", "full")

SUMS = 3e-5
"""How far a sum may be off, as a share of the sum of magnitudes; std likewise of its own size."""


class OnDevice(Summary):
    """Treats main memory like a device: what runs there is what a GPU without Triton runs."""

    on_host = frozenset()


SUMMARIES = [Summary, OnDevice]


def row(tensor: Tensor, level: str = "core", make: type[Summary] = Summary, **options: int | None) -> dict[str, float]:
    summary = make(level)
    assert summary.add(tensor, **options) == 0
    return dict(zip(summary.names, summary.matrix()[0].tolist(), strict=True))


def column(summary: Summary, name: str) -> np.ndarray:
    """One statistic of all rows."""
    return summary.matrix()[:, summary.names.index(name)]


def numbers(tensor: Tensor) -> np.ndarray:
    """The values as float64, by a way of its own."""
    tensor = tensor.detach()
    return (tensor.to(torch.complex128).abs() if tensor.is_complex() else tensor.to(torch.float64)).numpy().ravel()


def check(found: dict[str, float], values: np.ndarray) -> None:
    """The exact statistics against NumPy's."""
    abs_mean = float(np.abs(values).mean())
    tiny = float(np.finfo(np.float32).tiny)
    assert found["count"] == np.float32(values.size)
    assert found["mean"] == pytest.approx(values.mean(), rel=1e-6, abs=SUMS * abs_mean + tiny)
    assert found["abs_mean"] == pytest.approx(abs_mean, rel=SUMS, abs=tiny)
    assert found["norm"] == pytest.approx(np.sqrt((values**2).sum()), rel=SUMS, abs=tiny)
    assert found["std"] == pytest.approx(values.std(), rel=1e-4, abs=1e-15 * abs_mean + tiny)
    assert found["min"] == np.float32(values.min())
    assert found["max"] == np.float32(values.max())
    assert found["nonfinite"] == 0


def check_spread(found: dict[str, float], values: np.ndarray) -> None:
    """Quantiles and histogram against NumPy's, of the values that were taken."""
    taken = values.astype(np.float32)[sample_indices(values.size)]
    taken = taken[np.isfinite(taken)].astype(np.float64)
    assert [found[name] for name in QUANTILES] == pytest.approx(np.quantile(taken, list(QUANTILES.values())), rel=1e-6)
    assert (found["low"], found["high"]) == (taken.min(), taken.max())
    if taken.min() < taken.max():
        shares = np.histogram(taken, bins=16)[0] / taken.size
        assert [found[f"h{number}"] for number in range(16)] == pytest.approx(shares, abs=1e-6)
    else:
        assert found["h0"] == 1


# values

REAL = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2]
WHOLE = [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool, torch.uint16]
LAYOUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "contiguous": lambda x: x,
    "transposed": lambda x: x.transpose(0, -1),
    "permuted": lambda x: x.movedim(0, -1),
    "a slice": lambda x: x[..., : max(1, x.shape[-1] // 2)],
    "every third": lambda x: x[::3],
    "expanded": lambda x: x[:, None].expand(x.shape[0], 3, *x.shape[1:]),
    "a slice, expanded": lambda x: x[..., 1:, None].expand(*x[..., 1:].shape, 2) if x.shape[-1] > 1 else x,
}
shapes = st.sampled_from([(1,), (7,), (1024,), (1025,), (3, 5), (32, 65), (8, 9, 50), (2, 3, 4, 100), (4, 50_000)])


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    shape=shapes,
    dtype=st.sampled_from(REAL + WHOLE),
    layout=st.sampled_from(sorted(LAYOUTS)),
    scale=st.integers(-3, 3),
    shift=st.sampled_from([0.0, 0.0, 1.0, -100.0]),
    seed=st.integers(0, 2**16),
)
def test_any_dtype_and_layout_agrees_with_numpy(
    shape: tuple[int, ...], dtype: torch.dtype, layout: str, scale: int, shift: float, seed: int
) -> None:
    made = np.random.default_rng(seed).normal(shift, 10.0**scale, shape)
    tensor = torch.from_numpy(np.abs(made) if not dtype.is_signed else made).to(dtype)
    tensor = LAYOUTS[layout](tensor)
    for make in SUMMARIES:
        found = row(tensor, make=make)
        check(found, numbers(tensor))
        if tensor.is_contiguous():
            check_spread(found, numbers(tensor))


@settings(max_examples=40, deadline=None)
@given(
    size=st.sampled_from([100, 5000, CHUNK + 77, 3 * CHUNK]),
    exponent=st.integers(-28, 28),
    ratio=st.sampled_from([0.0, 1.0, -1e3, 1e6]),
    seed=st.integers(0, 2**16),
)
def test_no_size_of_float32_overflows_vanishes_or_cancels(size: int, exponent: int, ratio: float, seed: int) -> None:
    made = (np.random.default_rng(seed).normal(ratio, 1, size) * 10.0**exponent).astype(np.float32)
    check(row(torch.from_numpy(made)), made.astype(np.float64))


@pytest.mark.parametrize("make", SUMMARIES)
def test_the_magnitudes_of_very_many_values_are_added_up_without_drift(make: type[Summary]) -> None:
    values = torch.full((3_000_000,), 1.0001)
    values[::2] = -1.0003
    found = row(values, make=make)
    assert found["abs_mean"] == pytest.approx(1.0002, rel=1e-6)
    assert found["norm"] == pytest.approx(values.double().norm().item(), rel=1e-6)
    assert found["std"] == pytest.approx(values.double().std(correction=0).item(), rel=1e-6)


@pytest.mark.parametrize("make", SUMMARIES)
@pytest.mark.parametrize("size", [1000, 1 << 16, 300_001])
def test_a_small_spread_around_a_large_mean_is_seen(make: type[Summary], size: int) -> None:
    made = np.random.default_rng(0).normal(1e6, 1e-2, size)
    assert row(torch.from_numpy(made), make=make)["std"] == pytest.approx(made.std(), rel=1e-5)
    narrow = np.random.default_rng(0).normal(1e6, 1.0, size).astype(np.float32)
    expected = narrow.astype(np.float64).std()
    assert row(torch.from_numpy(narrow), make=make)["std"] == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("make", SUMMARIES)
@pytest.mark.parametrize("value", [0.1, -1 / 3, 0.0, 1e6 + 0.1])
def test_a_constant_has_no_spread_and_its_own_mean(make: type[Summary], value: float) -> None:
    found = row(torch.full((500, 1000), value), make=make)
    exact = float(np.float32(value))
    assert found["mean"] == pytest.approx(exact, rel=1e-6)
    assert found["std"] == pytest.approx(0, abs=1e-6 * abs(exact))
    assert found["norm"] == pytest.approx(abs(exact) * 500_000**0.5, rel=SUMS)
    assert (found["p1"], found["p99"], found["h0"], found["h15"]) == (*[np.float32(value)] * 2, 1, 0)


def test_outliers_do_not_drown() -> None:
    made = np.random.default_rng(1).normal(size=200_000).astype(np.float32)
    made[::5000] *= 1e5
    check(row(torch.from_numpy(made)), made.astype(np.float64))


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128, torch.complex32])
def test_of_complex_numbers_the_magnitudes_are_taken(dtype: torch.dtype) -> None:
    made = torch.view_as_complex(torch.from_numpy(np.random.default_rng(0).normal(size=(40, 50, 2)))).to(dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for tensor in (made, made.conj(), made.T):
            check(row(tensor), numbers(tensor))


def test_signs_that_are_yet_to_be_flipped_are_flipped() -> None:
    made = torch.view_as_complex(torch.arange(4000.0).view(-1, 2)).conj().imag
    assert made.is_neg()
    assert row(made)["max"] == -1.0
    assert row(torch._neg_view(torch.arange(1.0, 9.0)))["max"] == -1.0


# what is not finite

STRANGE = {"nan": [np.nan], "inf": [np.inf], "-inf": [-np.inf], "both": [np.inf, -np.inf], "all": [np.nan, np.inf]}


@pytest.mark.parametrize("make", SUMMARIES)
@pytest.mark.parametrize("size", [50, 5000, 300_000])
@pytest.mark.parametrize("strange", STRANGE.values(), ids=STRANGE)
@pytest.mark.parametrize("at", [0, 20])
def test_what_is_not_finite_is_flagged_counted_and_left_out_of_quantiles(
    make: type[Summary], size: int, strange: list[float], at: int
) -> None:
    made = np.random.default_rng(0).normal(size=size).astype(np.float32)
    made[at : at + len(strange)] = strange
    made[30:33] = 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # neither NumPy nor torch says anything
        found = row(torch.from_numpy(made), "full", make, unit_dim=None)
    assert found["nonfinite"] == 1
    assert (found["zeros"], found["nans"], found["infs"]) == (3, np.isnan(made).sum(), np.isinf(made).sum())
    wide = made.astype(np.float64)
    with np.errstate(all="ignore"):
        for name, value in {
            "mean": wide.mean(),
            "abs_mean": np.abs(wide).mean(),
            "std": wide.std(),
            "norm": np.sqrt((wide**2).sum()),
            "min": wide.min(),
            "max": wide.max(),
        }.items():
            assert found[name] == pytest.approx(value, rel=1e-4, nan_ok=True), name
    check_spread(found, wide)


def test_nothing_finite_has_no_quantiles() -> None:
    found = row(torch.full((5,), torch.nan))
    assert found["nonfinite"] == 1
    assert np.isnan([found["p50"], found["low"], found["high"], found["h0"]]).all()


@pytest.mark.parametrize("level", ["core", "full"])
def test_an_empty_tensor_has_a_count_and_nothing_else(level: str) -> None:
    for tensor in (torch.empty(0), torch.empty(3, 0, 2), torch.empty(0, dtype=torch.int64)):
        found = row(tensor, level, batch_dim=0)
        assert found.pop("count") == 0
        assert np.isnan(list(found.values())).all()


# the sample


def test_the_sample_is_spread_over_units_that_a_stride_would_miss() -> None:
    tensor = torch.arange(128.0).expand(1024, 128).contiguous()
    found = row(tensor)
    for name, share in QUANTILES.items():
        assert found[name] == pytest.approx(127 * share, abs=3), name


@pytest.mark.parametrize("n", [1, 5, 1023, 1024, 1025, 2047, 131_072, 10**7 + 1, 3 * 2**31])
def test_places_are_in_order_distinct_and_evenly_spread(n: int) -> None:
    found = sample_indices(n)
    assert len(found) == min(n, N_SAMPLES)
    assert (np.diff(found) > 0).all()
    assert found[0] >= 0
    assert found[-1] < n
    assert np.abs(found - np.arange(len(found)) * (n / len(found))).max() <= n / len(found)


def test_places_on_a_device_are_the_same() -> None:
    for n in (1025, 99_999, 3 * 2**31):
        assert sample_indices_on(torch.device("cpu"), n).tolist() == sample_indices(n).tolist()


# full


@pytest.mark.parametrize("make", SUMMARIES)
@pytest.mark.parametrize(
    ("shape", "unit_dim", "batch_dim"),
    [
        ((6, 5), -1, 0),
        ((6, 5), 1, 1),
        ((9,), -1, 0),
        ((4, 3, 5, 6), 1, 0),
        ((40, 70, 100), 2, 0),
        ((40, 70, 100), 0, 1),
        ((3, 200_000), 1, 0),
        ((300, 3, 500), 1, 2),
        ((2, 3, 100_000), 1, 0),
    ],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64])
def test_units_and_samples_agree_with_numpy(
    make: type[Summary], shape: tuple[int, ...], unit_dim: int, batch_dim: int, dtype: torch.dtype
) -> None:
    made = np.random.default_rng(0).normal(3, 5, shape)
    made[np.abs(made) < 1] = 0
    tensor = torch.from_numpy(made).to(dtype)
    values = tensor.to(torch.float64).numpy()
    summary = make("full")
    number = summary.add(tensor, batch_dim=batch_dim, unit_dim=unit_dim)
    arrays = summary.arrays(number)

    def along(dim: int) -> np.ndarray:
        return np.moveaxis(values, dim, 0).reshape(shape[dim], -1)

    if shape[unit_dim] <= MOST_UNITS and shape[unit_dim] < tensor.numel():
        each = along(unit_dim)
        expected = np.stack([each.mean(1), each.std(1), each.min(1), each.max(1), (each == 0).mean(1)])
        np.testing.assert_allclose(arrays["unit"], expected, rtol=1e-5, atol=1e-5)
        assert arrays["unit"].dtype == np.float32
    else:
        assert "unit" not in arrays
    each = along(batch_dim)
    expected = np.stack([each.mean(1), np.abs(each).mean(1), each.std(1), np.abs(each).max(1)])
    np.testing.assert_allclose(arrays["samples"], expected, rtol=1e-5, atol=1e-5)
    assert dict(zip(summary.names, summary.matrix()[number], strict=True))["zeros"] == (values == 0).sum()


def test_units_around_large_means_keep_their_spread() -> None:
    made = np.random.default_rng(0).normal(size=(3000, 64)) + np.linspace(-1e4, 1e4, 64)
    summary = Summary("full")
    summary.add(torch.from_numpy(made).float(), unit_dim=-1)
    expected = torch.from_numpy(made).float().double().numpy().std(0)
    np.testing.assert_allclose(summary.arrays(0)["unit"][1], expected, rtol=1e-4)


def test_a_tensor_without_such_dimensions_has_no_arrays() -> None:
    summary = Summary("full")
    summary.add(torch.tensor(3.0), batch_dim=0)
    summary.add(torch.ones(3, 4), batch_dim=None, unit_dim=None)
    assert (summary.arrays(0), summary.arrays(1)) == ({}, {})
    core = Summary()
    core.add(torch.ones(3, 4), batch_dim=0)
    assert core.arrays(0) == {}


def test_the_columns_are_these() -> None:
    assert CORE[:8] == ("mean", "abs_mean", "std", "batch_std", "norm", "min", "max", "nonfinite")
    assert CORE[8:18] == ("p1", "p5", "p25", "p50", "p75", "p95", "p99", "count", "low", "high")
    assert CORE[18:] == tuple(f"h{number}" for number in range(16))
    assert {"zeros", "nans", "infs"} == set(FULL) - set(CORE)
    assert set(Summary("full", spectral_norm=True).names) - set(FULL) == {"spectral_norm"}
    assert Summary().matrix().shape == (0, len(CORE))


# the spectral norm


def spectral(tensor: Tensor, make: type[Summary] = Summary) -> float:
    summary = make(spectral_norm=True)
    summary.add(tensor)
    return float(column(summary, "spectral_norm")[0])


def hilbert(n: int) -> np.ndarray:
    number = np.arange(n)
    return 1 / (number[:, None] + number + 1)


MATRICES = {
    "square": np.random.default_rng(0).normal(size=(300, 300)),
    "tall": np.random.default_rng(1).normal(size=(700, 64)),
    "wide": np.random.default_rng(2).normal(size=(64, 900)),
    "of a convolution": np.random.default_rng(3).normal(size=(32, 16, 3, 3)),
    "one column": np.random.default_rng(4).normal(size=(50, 1)),
    "identity": np.eye(400),
    "of ones": np.ones((80, 90)),
    "of rank one": np.outer(np.arange(90.0), np.random.default_rng(5).normal(size=70)),
    "Hilbert's": hilbert(200),
    "small": np.random.default_rng(6).normal(size=(60, 60)) * 1e-25,
    "large": np.random.default_rng(7).normal(size=(60, 60)) * 1e25,
    "two close": np.diag(np.r_[1.0, 0.9999, np.linspace(0.99, 0.1, 298)]),
    "zero": np.zeros((8, 9)),
    "in blocks": np.kron(np.eye(2), np.random.default_rng(8).normal(size=(90, 90))),
}


@pytest.mark.parametrize("make", SUMMARIES)
@pytest.mark.parametrize("name", MATRICES)
def test_the_largest_singular_value_is_right_to_a_thousandth(make: type[Summary], name: str) -> None:
    matrix = MATRICES[name]
    expected = np.linalg.svd(matrix.reshape(len(matrix), -1), compute_uv=False)[0]
    assert spectral(torch.from_numpy(matrix).float(), make) == pytest.approx(expected, rel=1e-3)


def test_what_is_no_matrix_has_no_singular_value() -> None:
    assert np.isnan(spectral(torch.ones(5)))
    assert np.isnan(spectral(torch.ones(5, 0)))
    assert np.isnan(spectral(torch.full((5, 5), torch.inf)))


# many tensors


def test_rows_are_in_the_order_of_adding_whatever_they_are() -> None:
    summary = Summary()
    tensors = [torch.full((size,), float(number)) for number, size in enumerate([3, 2000, 1, 5000, 0, 9, 131_073] * 9)]
    assert [summary.add(tensor) for tensor in tensors] == list(range(63))
    matrix = summary.matrix()
    assert matrix.dtype == np.float32
    for number, tensor in enumerate(tensors):
        assert matrix[number, CORE.index("count")] == tensor.numel()
        assert matrix[number, CORE.index("mean")] == number or not tensor.numel()
        assert matrix[number, CORE.index("p50")] == number or not tensor.numel()


def test_very_many_tensors_of_a_device_are_gathered() -> None:
    summary = OnDevice("full")
    for number in range(500):
        summary.add(torch.full((2, 3), float(number)), batch_dim=0)
    assert column(summary, "mean").tolist() == list(range(500))
    assert summary.arrays(300)["samples"][0].tolist() == [300, 300]


def test_several_threads_may_add_at_once() -> None:
    summary = Summary()
    tensors = [torch.full((200_000,), float(number)) for number in range(8)]
    rows: dict[int, list[int]] = {}

    def add(number: int) -> None:
        rows[number] = [summary.add(tensors[number]) for _ in range(10)]

    threads = [threading.Thread(target=add, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    mean = column(summary, "mean")
    assert all(mean[mine].tolist() == [number] * 10 for number, mine in rows.items())


@pytest.mark.parametrize("make", SUMMARIES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int64])
@pytest.mark.parametrize("size", [10, 5000])
@pytest.mark.parametrize("step", [1, 2])
def test_a_tensor_that_is_written_to_later_keeps_its_statistics(
    make: type[Summary], dtype: torch.dtype, size: int, step: int
) -> None:
    summary = make("full")
    tensor = torch.ones(size, 1, dtype=dtype)
    summary.add(tensor[::step], unit_dim=-1)
    summary.add(tensor[::step].expand(-1, 2), unit_dim=-1)
    tensor.zero_()
    assert column(summary, "mean").tolist() == [1, 1]
    assert column(summary, "p50").tolist() == [1, 1]
    assert summary.arrays(0)["unit"][0].tolist() == [1]


# nothing is changed


def forms() -> dict[str, Tensor]:
    weight = torch.nn.Parameter(torch.randn(40, 50))
    return {
        "parameter": weight,
        "result": weight * 2,
        "view": weight.T,
        "slice": weight[:, 3:17],
        "bfloat16": weight.bfloat16(),
        "small": torch.ones(3, requires_grad=True),
        "integers": torch.arange(3000),
        "complex": torch.randn(30, 40, dtype=torch.complex64),
    }


@pytest.mark.parametrize("make", SUMMARIES)
@pytest.mark.parametrize("name", forms())
@pytest.mark.parametrize("grad", [True, False])
def test_taking_statistics_changes_nothing(make: type[Summary], name: str, grad: bool) -> None:
    tensor = forms()[name]
    before = tensor.detach().clone()
    version, requires_grad, function = tensor._version, tensor.requires_grad, tensor.grad_fn
    states = torch.get_rng_state(), np.random.get_state()[1].copy()
    with torch.set_grad_enabled(grad), torch.autocast("cpu", dtype=torch.bfloat16):
        summary = make("full", spectral_norm=True)
        summary.add(tensor, batch_dim=0)
        summary.matrix()
        assert torch.is_grad_enabled() is grad
        assert torch.is_autocast_enabled("cpu")
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == torch.bfloat16
    assert (tensor._version, tensor.requires_grad, tensor.grad_fn) == (version, requires_grad, function)
    assert torch.equal(tensor.detach(), before)
    assert torch.equal(torch.get_rng_state(), states[0])
    assert (np.random.get_state()[1] == states[1]).all()


@pytest.mark.parametrize("make", SUMMARIES)
def test_gradients_flow_through_what_was_looked_at(make: type[Summary]) -> None:
    def gradient(look: bool) -> Tensor:
        weight = torch.arange(4000.0, requires_grad=True)
        result = weight * weight
        if look:
            summary = make("full")
            summary.add(result)
            result.register_hook(lambda grad: summary.add(grad) and None)
        result.sum().backward()
        if look:
            assert [column(summary, name)[1] for name in ("count", "mean")] == [
                4000,
                1,
            ]
        assert weight.grad is not None
        return weight.grad

    assert torch.equal(gradient(True), gradient(False))


@pytest.mark.parametrize("make", SUMMARIES)
def test_inside_and_outside_of_inference_mode(make: type[Summary]) -> None:
    summary = make("full", spectral_norm=True)
    with torch.inference_mode():
        inside = torch.randn(50, 60)
        summary.add(inside, batch_dim=0)
        summary.add(inside.bfloat16(), batch_dim=0)
    summary.add(inside, batch_dim=0)
    summary.add(torch.randn(50, 60).bfloat16(), batch_dim=0)
    matrix = summary.matrix()
    np.testing.assert_array_equal(matrix[0], matrix[2])
    assert np.isfinite(matrix).all()


# wrapped tensors


def test_meta_and_fake_tensors_have_only_a_count() -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    found = [torch.empty(3, 4, device="meta"), torch.empty(3, 4, device="meta", dtype=torch.complex64)]
    with FakeTensorMode():
        found.append(torch.empty(3, 4))
        found.append(torch.nn.Parameter(torch.empty(3, 4)))
        rows = [row(tensor, "full", batch_dim=0) for tensor in found]
    rows += [row(tensor) for tensor in found]
    for values in rows:
        assert values.pop("count") == 12
        assert np.isnan(list(values.values())).all()


@pytest.mark.parametrize("kind", [Summary, OnDevice])
def test_sparse_tensors_count_as_full_ones(kind: type[Summary]) -> None:
    """The oracle is the dense tensor, in float64, with NumPy."""
    generator = torch.Generator().manual_seed(0)
    small = torch.tensor([[0.0, 3.0], [-4.0, 0.0]])
    large = torch.randn(300, 40, generator=generator) * (torch.rand(300, 40, generator=generator) < 0.1) + 0.0
    broken = small.clone()
    broken[0, 1] = torch.nan
    twice = torch.sparse_coo_tensor(torch.tensor([[0, 0], [1, 1]]), torch.tensor([1.0, 2.0]), (2, 2))
    rows = torch.sparse_coo_tensor(torch.tensor([[1, 3]]), torch.randn(2, 3, generator=generator), (50, 3))
    nothing = torch.sparse_coo_tensor(torch.empty(2, 0, dtype=torch.int64), torch.empty(0), (3, 5))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tensors = [small.to_sparse(), small.to_sparse_csr(), small.to_sparse_csc(), large.to_sparse()]
        tensors += [
            large.to_sparse_bsr((10, 10)),
            -large.abs().to_sparse_csr(),
            broken.to_sparse(),
            twice,
            rows,
            nothing,
        ]
        dense = [tensor.to_dense().double().numpy() for tensor in tensors]
    summary = kind("full", spectral_norm=True)
    for tensor in tensors:
        summary.add(tensor, batch_dim=0, unit_dim=1)
    assert not twice.is_coalesced()
    matrix = summary.matrix()
    for number, whole in enumerate(dense):
        found = dict(zip(summary.names, matrix[number].tolist(), strict=True))
        truth = {
            "count": whole.size, "mean": whole.mean(), "abs_mean": np.abs(whole).mean(), "std": whole.std(),
            "norm": np.sqrt((whole**2).sum()), "min": whole.min(), "max": whole.max(), "zeros": (whole == 0).sum(),
            "nans": np.isnan(whole).sum(), "infs": 0, "nonfinite": np.isnan(whole).any(),
        }  # fmt: skip
        for name, value in truth.items():
            assert found[name] == pytest.approx(float(value), rel=1e-5, abs=1e-7, nan_ok=True), (number, name)
        assert np.isnan(found["batch_std"])
        assert summary.arrays(number) == {}
        if whole.size <= 1024 and not np.isnan(whole).any():
            assert found["p50"] == pytest.approx(np.median(whole), rel=1e-5)


def test_of_quantized_tensors_what_they_stand_for() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tensor = torch.quantize_per_tensor(torch.tensor([1.0, 2.0, 3.0]), 0.5, 0, torch.qint8)
        assert row(tensor)["mean"] == 2


def test_of_nested_tensors_all_values() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tensor = torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(4, 3) * 4], layout=torch.jagged)
        assert (row(tensor, "full")["count"], row(tensor)["mean"]) == (18, 3)


def test_subclasses_are_read_without_their_own_functions() -> None:
    class Loud(Tensor):
        @classmethod
        def __torch_function__(cls, *args: object, **kwargs: object) -> object:
            raise AssertionError("called")

    made = torch.arange(3000.0)
    loud = made.as_subclass(Loud)
    assert row(loud)["mean"] == row(made)["mean"]
    assert row(loud, "full")["norm"] == row(made)["norm"]


def test_no_function_mode_of_the_user_sees_the_work() -> None:
    seen: list[object] = []

    class Watch(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
            seen.append(function)
            return function(*args, **(kwargs or {}))

    tensor, summary = torch.randn(40, 50), Summary("full", spectral_norm=True)
    with Watch():
        summary.add(tensor, batch_dim=0)
        summary.matrix()
    assert seen == []


def test_inside_of_function_transforms() -> None:
    summary = Summary()

    def loss(x: Tensor) -> Tensor:
        summary.add(x)
        return (x * x).sum()

    x = torch.arange(6.0).view(2, 3)
    torch.func.grad(loss)(x)
    torch.func.vmap(loss)(x)
    assert column(summary, "mean").tolist() == [2.5, 2.5]


def test_of_a_distributed_tensor_the_local_part() -> None:
    code = """
import os, torch, torch.distributed as dist
from torch.distributed.tensor import DeviceMesh, Shard, distribute_tensor
from cutaway.recording.statistics.summary import Summary
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
made = distribute_tensor(torch.arange(2000.0), DeviceMesh("cpu", [0]), [Shard(0)])
summary = Summary("full")
summary.add(made); summary.add(made.requires_grad_())
columns = [summary.names.index(name) for name in ("count", "mean")]
assert summary.matrix()[:, columns].tolist() == [[2000, 999.5]] * 2, summary.matrix()
dist.destroy_process_group()
"""
    done = warm_python.run(["-c", code], imports=("torch.distributed.tensor",), skips_teardown=True)
    assert done.returncode == 0, done.stderr


# on a GPU


def gpu_cases() -> dict[str, Tensor]:
    made = torch.from_numpy(np.random.default_rng(0).normal(0.3, 2, (70, 3001)))
    cases = {str(dtype): made.abs().to(dtype) if not dtype.is_signed else made.to(dtype) for dtype in REAL + WHOLE}
    cases |= {f"{n} values": made.view(-1)[:n].float().contiguous() for n in (1, 1023, 1025, 8191, 8193)}
    cases |= {name: change(made.float()) for name, change in LAYOUTS.items()}
    cases |= {"off by one": made.float().view(-1)[1:], "complex": made.to(torch.complex64), "few": made[:3, :5].float()}
    cases |= {"shifted": (made + 1e6).float(), "shifted double": made * 1e-2 + 1e6, "large": torch.randn(5_000_001)}
    for name, strange in STRANGE.items():
        cases[name] = made.float().view(-1).clone()
        cases[name][77 : 77 + len(strange)] = torch.tensor(strange)
    cases["inf first"] = torch.cat([torch.tensor([torch.inf]), made.float().view(-1)])
    return cases


@pytest.mark.cuda
@pytest.mark.parametrize("uses_triton", [True, False])
def test_a_gpu_gives_what_the_cpu_gives(uses_triton: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if uses_triton:
        pytest.importorskip("triton")
    monkeypatch.setattr(device_module, "_FAILED", set() if uses_triton else {"triton"})
    cases = gpu_cases()
    here, there = Summary("full", spectral_norm=True), Summary("full", spectral_norm=True)
    for tensor in cases.values():
        here.add(tensor, batch_dim=0)
        there.add(tensor.cuda() if tensor.is_contiguous() else _like_it(tensor), batch_dim=0)
    assert (set() if uses_triton else {"triton"}) == device_module._FAILED
    expected, found = here.matrix(), there.matrix()
    for number, (name, tensor) in enumerate(cases.items()):
        left, right = (dict(zip(here.names, part[number].tolist(), strict=True)) for part in (expected, found))
        for each in here.names:
            if STATISTICS[each].part != "number" and not tensor.is_contiguous():
                continue  # taken in the order of memory, which a copy to the GPU may change
            slack = SUMS * left["abs_mean"] if each == "mean" else 0
            rel = 1e-3 if each == "spectral_norm" else 1e-4
            wanted = pytest.approx(left[each], rel=rel, abs=slack + 1e-6, nan_ok=True)
            assert right[each] == wanted, f"{each} of {name}"
        for key, array in here.arrays(number).items():
            np.testing.assert_allclose(there.arrays(number)[key], array, rtol=1e-4, atol=1e-4, err_msg=f"{key} {name}")


def _like_it(tensor: Tensor) -> Tensor:
    """The same numbers on the GPU under the same strides."""
    storage = torch.empty(0, dtype=tensor.dtype).set_(tensor.untyped_storage()).cuda()
    return storage.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())


@pytest.mark.cuda
@pytest.mark.parametrize("uses_triton", [True, False])
def test_adding_never_waits_for_the_gpu(uses_triton: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_module, "_FAILED", set() if uses_triton else {"triton"})
    tensors = [torch.randn(300, 400, device="cuda") for _ in range(300)]
    tensors += [tensors[0].bfloat16(), tensors[0].T, tensors[0][:, ::2], tensors[0] > 0]
    Summary("full").add(tensors[0])
    torch.cuda.set_sync_debug_mode("error")
    try:
        summary = Summary("full", spectral_norm=True)
        for tensor in tensors:
            summary.add(tensor, batch_dim=0)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    expected = torch.stack([tensor.float().mean() for tensor in tensors]).cpu().numpy()
    np.testing.assert_allclose(column(summary, "mean"), expected, atol=1e-5)


@pytest.mark.cuda
def test_streams_and_devices_mix() -> None:
    summary, side = Summary(), torch.cuda.Stream()
    summary.add(torch.ones(5000))
    with torch.cuda.stream(side):
        busy = torch.randn(4000, 4000, device="cuda")
        for _ in range(20):
            busy = busy @ busy / 4000
        summary.add(busy * 0 + 3)
    summary.add(torch.full((5000,), 2.0, device="cuda"))
    assert column(summary, "mean").tolist() == [1, 3, 2]


@pytest.mark.cuda
def test_a_gpu_is_left_as_it_was() -> None:
    tensor = torch.randn(300, 400, device="cuda", requires_grad=True)
    state, version = torch.cuda.get_rng_state(), tensor._version
    plain, cast = Summary("full", spectral_norm=True), Summary("full", spectral_norm=True)
    plain.add(tensor, batch_dim=0)
    with torch.autocast("cuda", dtype=torch.bfloat16):  # which would multiply matrices in bfloat16
        cast.add(tensor, batch_dim=0)
        np.testing.assert_array_equal(cast.matrix(), plain.matrix())
        assert torch.is_autocast_enabled("cuda")
    assert torch.equal(torch.cuda.get_rng_state(), state)
    assert (tensor._version, tensor.requires_grad) == (version, True)


@pytest.mark.cuda
def test_while_a_cuda_graph_is_made_only_counts_are_taken() -> None:
    tensor, graph, summary = torch.randn(5000, device="cuda"), torch.cuda.CUDAGraph(), Summary()
    with torch.cuda.graph(graph):
        summary.add(tensor)
    graph.replay()
    found = dict(zip(summary.names, summary.matrix()[0].tolist(), strict=True))
    assert found.pop("count") == 5000
    assert np.isnan(list(found.values())).all()
