"""Pictures of values, held against NumPy and torch."""

from __future__ import annotations

import base64
import json
import math
import warnings
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from cutaway.layout.graph_view import plain
from cutaway.views.values.image import Image, Layout
from cutaway.views.values.value_view import ValuePicture, printable, value_picture

DTYPES = sorted({str(dtype) for dtype in vars(torch).values() if isinstance(dtype, torch.dtype)})


def checked(picture: ValuePicture) -> ValuePicture:
    """Whatever comes out can be written, and fits itself."""
    json.dumps(plain(picture), allow_nan=False).encode()
    assert picture.text.isprintable()
    shown = picture.image
    if shown is not None:
        assert len(levels(shown)) == shown.rows
        assert shown.rows % shown.tile_rows == shown.columns % shown.tile_columns == 0
        tiles = (shown.rows // shown.tile_rows) * (shown.columns // shown.tile_columns)
        assert 0 < shown.n_tiles <= tiles < shown.n_tiles + shown.columns // shown.tile_columns
        assert (shown.kind == "tiles") == (shown.n_tiles > 1)
    if picture.histogram is not None:
        assert picture.histogram.low < picture.histogram.high
        assert 0 < len(picture.histogram.counts) <= 48
    return picture


def levels(image: Image) -> np.ndarray[Any, Any]:
    data = np.frombuffer(base64.b64decode(image.data), np.uint8)
    return data.reshape(image.rows, image.columns)


def image_of(value: Any, **options: Any) -> Image:
    found = checked(value_picture(value, **options)).image
    assert found is not None
    return found


def statistics(value: Any, **options: Any) -> dict[str, float | None]:
    return dict(checked(value_picture(value, **options)).statistics)


# statistics

floats = hnp.arrays(
    st.sampled_from([np.float32, np.float64, np.float16]),
    hnp.array_shapes(min_dims=0, max_dims=5, max_side=6),
    elements={"allow_nan": True, "allow_infinity": True},
)


@settings(max_examples=150, deadline=None)
@given(floats)
def test_statistics_are_those_of_the_finite_elements(array: np.ndarray[Any, Any]) -> None:
    found = statistics(array)
    finite = array[np.isfinite(array)].astype(np.longdouble)
    assert found["NaN"] == np.isnan(array).sum()
    assert found["Inf"] == np.isinf(array).sum()
    assert found["zeros"] == pytest.approx(float((finite == 0).sum() / array.size))
    if not finite.size:
        assert [found[name] for name in ("mean", "std", "min", "max", "norm")] == [None] * 5
        return
    size = float(abs(finite).max())
    near = {"rel": 1e-6, "abs": size * 1e-6}
    assert (found["min"], found["max"]) == (float(finite.min()), float(finite.max()))
    assert found["mean"] == pytest.approx(float(finite.mean()), **near)
    assert found["std"] == pytest.approx(float(finite.std()), **near)
    expected = float(np.sqrt((finite * finite).sum()))
    assert found["norm"] == (pytest.approx(expected, **near) if math.isfinite(expected) else None)


@settings(max_examples=60, deadline=None)
@given(floats)
def test_a_tensor_and_its_array_give_one_picture(array: np.ndarray[Any, Any]) -> None:
    assert value_picture(torch.from_numpy(array.copy())) == value_picture(array.copy())


@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("shape", [(), (0,), (5,), (2, 3), (2, 3, 4), (2, 3, 4, 4)])
def test_every_dtype_gives_a_picture_or_a_reason(name: str, shape: tuple[int, ...]) -> None:
    dtype = getattr(torch, name.removeprefix("torch."))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            value = torch.arange(math.prod(shape)).reshape(shape).to(dtype)
    except (RuntimeError, NotImplementedError, TypeError):
        value = torch.empty(shape, dtype=dtype) if not name.startswith("torch.q") else torch.empty(0)
    found = checked(value_picture(value))
    assert found.dtype == str(value.dtype).removeprefix("torch.")
    assert found.shape == tuple(value.shape)
    assert found.statistics or found.text
    if value.dtype.is_floating_point and value.numel() and "float4" not in name:
        expected = value.float().mean().item() if "e8m0" not in name else dict(found.statistics)["mean"]
        assert dict(found.statistics)["mean"] == pytest.approx(expected, rel=1e-5)


def test_peculiar_tensors_give_a_picture_or_a_reason() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        eye = torch.eye(3)
        nested = torch.nested.nested_tensor([torch.ones(2, 3), torch.zeros(4, 3)])
        jagged = torch.nested.nested_tensor([torch.ones(2, 3), torch.zeros(4, 3)], layout=torch.jagged)
        quantized = torch.quantize_per_tensor(torch.tensor([0.5, 1.0, -1.0]), 0.5, 0, torch.qint8)
        for value in (eye.to_sparse(), eye.to_sparse_csr(), eye.to_sparse_csc(), eye.to_mkldnn()):
            assert statistics(value)["zeros"] == pytest.approx(2 / 3)
        large = torch.sparse_coo_tensor([[0, 9_999], [5, 9_999]], [1.0, 3.0], (10_000, 10_000))
        assert statistics(large)["mean"] == 2
        for value in (nested, jagged):
            assert statistics(value)["mean"] == pytest.approx(1 / 3)
            assert "2 parts (2×3, 4×3)" in value_picture(value).text
        assert statistics(quantized)["min"] == -1
    assert "meta device" in checked(value_picture(torch.empty(3, device="meta"))).text
    assert "uninitialized" in checked(value_picture(torch.nn.parameter.UninitializedParameter())).text
    freed = torch.ones(1000)
    freed.untyped_storage().resize_(0)
    text = checked(value_picture(freed)).text  # first: pytest would print the freed tensor, and crash
    assert "freed" in text
    conjugate = torch.tensor([3 + 4j, 0j]).conj()
    assert statistics(conjugate)["max"] == 5
    assert "3-4j" in value_picture(conjugate).text
    negative = torch.tensor([3 + 4j]).conj().imag
    assert negative.is_neg()
    assert value_picture(negative).text == "[-4]"
    assert statistics(torch.ones(3, requires_grad=True))["mean"] == 1
    assert statistics(torch.ones(1).expand(1000, 10))["norm"] == pytest.approx(100)
    with torch.inference_mode():
        assert statistics(torch.ones(3))["mean"] == 1


class Stubborn:
    """Refuses to be looked at."""

    dtype, layout = "float32", "strided"

    def detach(self) -> None:
        raise ValueError("not\nme")

    def __repr__(self) -> str:
        raise ValueError


@pytest.mark.parametrize(
    "value",
    [
        *(
            1,
            2.5,
            True,
            1j,
            10**400,
            float("nan"),
            "text\x00\ud800",
            None,
            b"bytes",
            [],
            [1, [2]],
            [[1, 2], [3, 4]],
            {},
        ),
        *(
            np.array(["a"]),
            np.array([object()]),
            np.array(3),
            np.float32(2),
            np.zeros(3, "M8[s]"),
            object(),
            Stubborn(),
        ),
        *(np.zeros((0, 3)), [10**400], {"a": [1]}, np.ma.masked_array([1.0, 2.0], [True, False]), np.zeros((1,) * 40)),
    ],
)
def test_whatever_a_trace_may_hold_gives_something(value: Any) -> None:
    found = checked(value_picture(value))
    assert found.text or found.statistics


def test_small_values_are_printed_whole() -> None:
    assert value_picture(torch.tensor([[1.5, -2], [0.25, torch.inf]])).text == "[[1.5, -2], [0.25, inf]]"
    assert value_picture(torch.tensor([True, False])).text == "[True, False]"
    assert value_picture(torch.arange(16)).text.endswith("14, 15]")
    assert value_picture(torch.arange(17)).text == ""
    assert value_picture(3).text == "3"


@pytest.mark.parametrize("order", ["contiguous", "transposed", "part"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_large_values_are_sampled_but_for_their_extremes(order: str, dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(0)
    value = torch.randn(64, 512, 9, generator=generator).to(dtype)
    if order == "transposed":
        value = value.transpose(0, 2)
    if order == "part":
        value = value[:, ::2]
    value[3, 5, 1], value[1, 2, 3] = 50, -40
    found = checked(value_picture(value, most_elements=20_000))
    assert "one element in" in found.text
    named = dict(found.statistics)
    assert (named["min"], named["max"]) == (-40, 50)
    assert named["std"] == pytest.approx(value.float().std().item(), rel=0.1)
    assert named["norm"] == pytest.approx(value.float().norm().item(), rel=0.1)
    assert found.histogram is not None
    assert 5_000 < sum(found.histogram.counts) <= 20_000
    value[5, 7, 2], value[6, 7, 2] = torch.nan, torch.inf
    named = dict(checked(value_picture(value, most_elements=20_000)).statistics)
    assert (named["NaN"], named["Inf"]) == (1, 1)


# histograms


@settings(max_examples=100, deadline=None)
@given(floats)
def test_a_histogram_counts_every_finite_element(array: np.ndarray[Any, Any]) -> None:
    found = checked(value_picture(array)).histogram
    n = int(np.isfinite(array).sum())
    assert sum(found.counts) == n if found is not None else n == 0 or array.size == 1


def test_a_histogram_is_that_of_numpy() -> None:
    array = np.random.default_rng(0).normal(size=5000)
    found = value_picture(array).histogram
    assert found is not None
    counts, edges = np.histogram(array, bins=len(found.counts))
    assert (found.low, found.high) == (edges[0], edges[-1])
    assert list(found.counts) == counts.tolist()


def test_outliers_do_not_stretch_a_histogram() -> None:
    array = np.concatenate([np.random.default_rng(0).normal(size=9_999), [1e6]])
    found = value_picture(array).histogram
    assert found is not None
    assert -5 < found.low < found.high < 5
    assert sum(found.counts) == 10_000


@pytest.mark.parametrize("constant", [0.0, 1.0, -3e38, 1e-310, 5e-324, 1.7e308])
def test_constants_have_a_histogram(constant: float) -> None:
    found = checked(value_picture(np.full(300, constant))).histogram
    assert found is not None
    assert max(found.counts) == 300
    assert found.low <= constant <= found.high


def test_the_largest_floats_do_not_overflow() -> None:
    largest = np.finfo(np.float64).max
    found = checked(value_picture(np.array([[-largest, largest], [0.0, largest]])))
    assert found.histogram is not None
    assert found.histogram.counts[-1] == 2
    assert found.image is not None
    assert levels(found.image).tolist() == [[0, 254], [127, 254]]


# images


def test_a_matrix_is_shown_as_it_is() -> None:
    found = image_of(torch.tensor([[0.0, 1.0, 2.0], [3.0, torch.nan, 4.0]]))
    assert (found.kind, found.low, found.high) == ("matrix", 0, 4)
    assert levels(found).tolist() == [[0, 64, 127], [190, 255, 254]]
    assert found.caption == "2 rows × 3 columns"


def test_blocks_are_averaged() -> None:
    array = np.random.default_rng(0).normal(size=(128, 128))
    found = image_of(array, most_pixels=1024)
    means = array.reshape(32, 4, 32, 4).mean((1, 3))
    expected = np.rint((means - means.min()) / (means.max() - means.min()) * 254)
    assert np.abs(levels(found).astype(int) - expected).max() <= 1
    assert "means of 4 × 4" in found.caption


def test_a_nan_is_seen_in_the_smallest_picture() -> None:
    array = np.zeros((1000, 1000))
    array[777, 333] = np.nan
    assert (levels(image_of(array)) == 255).sum() == 1


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.sampled_from([1, 2, 3, 7, 16, 33, 100, 300]), min_size=1, max_size=6).filter(
        lambda shape: 1 < math.prod(shape) < 3e5
    ),
    st.integers(1, 5000),
    st.integers(0, 5),
    st.booleans(),
)
def test_any_shape_fits_into_the_pixels(shape: list[int], most: int, unit: int, is_batched: bool) -> None:
    value = np.arange(math.prod(shape), dtype=np.float32).reshape(shape)
    found = image_of(value, most_pixels=most, layout=Layout(unit, is_batched))
    assert found.n_tiles * found.tile_rows * found.tile_columns <= most
    assert 255 not in levels(found)[: found.tile_rows, : found.tile_columns]
    assert found.low >= 0
    assert found.high < value.size


@pytest.mark.parametrize(
    ("shape", "unit", "kind", "caption"),
    [
        ((100,), None, "line", "100 elements"),
        ((8, 10), None, "matrix", "8 rows × 10 columns"),
        ((8, 12, 20), 2, "matrix", "sample 1 of 8 · 12 rows × 20 columns"),
        ((8, 5, 20), 1, "matrix", "sample 1 of 8 · 5 rows × 20 columns"),
        ((3, 8, 8), 0, "tiles", "channels 1–3 of 3 · 8 rows × 8 columns"),
        ((8, 64, 16, 16), 1, "tiles", "sample 1 of 8 · channels 1–16 of 64 · 16 rows × 16 columns"),
        ((2, 3, 224, 224), 1, "tiles", "sample 1 of 2 · channels 1–3 of 3 · 224 rows × 224 columns · means of 7 × 7"),
        ((2, 12, 16, 16), 3, "tiles", "sample 1 of 2 · heads 1–12 of 12 · 16 rows × 16 columns"),
        ((2, 8, 8, 5), 3, "tiles", "sample 1 of 2 · channels 1–5 of 5 · 8 rows × 8 columns"),
        ((2, 4, 6, 8, 8), 1, "tiles", "sample 1 of 2 · slice 4 of 6 · channels 1–4 of 4 · 8 rows × 8 columns"),
        ((1, 1, 8, 8), 1, "matrix", "8 rows × 8 columns"),
    ],
)
def test_each_shape_has_its_picture(shape: tuple[int, ...], unit: int | None, kind: str, caption: str) -> None:
    found = image_of(torch.rand(shape), layout=Layout(unit))
    assert (found.kind, found.caption) == (kind, caption)


def test_channels_are_tiles_of_the_first_sample() -> None:
    value = torch.arange(2 * 3 * 4 * 4.0).reshape(2, 3, 4, 4)
    found = image_of(value, layout=Layout(1))
    assert (found.tile_rows, found.tile_columns, found.n_tiles) == (4, 4, 3)
    shown = levels(found)
    expected = np.rint(value[0].numpy() / 47 * 254)
    across = found.columns // 4
    for i in range(3):
        down, right = divmod(i, across)
        assert np.array_equal(shown[down * 4 : down * 4 + 4, right * 4 : right * 4 + 4], expected[i])


def test_a_picture_of_a_huge_value_is_quick_and_small() -> None:
    value = torch.zeros(1).expand(50_000, 5_000)
    found = checked(value_picture(value))
    assert found.image is not None
    assert found.image.rows * found.image.columns <= 4096
    assert "every 7th row and column" in found.image.caption


def test_printable_keeps_what_can_be_shown() -> None:
    assert printable("größe → 3 × 4") == "größe → 3 × 4"
    assert printable("a\nb\ud800\u202e").isprintable()
