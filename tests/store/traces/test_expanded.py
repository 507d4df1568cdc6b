"""Values that `expand` repeats are stored once, and traces of older versions stay readable."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import cutaway
from cutaway.core.arrays import Raw
from cutaway.core.errors import DamagedError, VersionError
from cutaway.store.reading.archive import Archive
from cutaway.store.traces import decode
from cutaway.store.traces.trace_file import decode_trace

GOLDEN = Path(__file__).parents[1] / "golden" / "v1" / "trace"


class Expands(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        whole = x[:1, :1].expand(3000, 4000)
        rows = x[:, :1, None].expand(-1, 5, 7)
        both = x.expand(6, *x.shape)
        return whole, rows, both, x[0, 0].expand(2, 2), whole[:2], torch.view_as_complex(x[:, :2].contiguous()).conj()


@pytest.fixture(scope="module")
def x() -> Tensor:
    torch.manual_seed(0)
    return torch.randn(3, 4)


def size_of(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def test_one_number_takes_the_space_of_one_number(x: Tensor, tmp_path: Path) -> None:
    trace = cutaway.trace(Expands(), x)
    trace.save(tmp_path / "trace")
    assert size_of(tmp_path) < 100_000  # dense, it would be 48 MB
    loaded = cutaway.load(tmp_path / "trace")
    for op, again in zip(trace.ops, loaded.ops, strict=True):
        np.testing.assert_array_equal(again.value, op.value.resolve_conj().numpy())
        assert again.value.shape == tuple(op.value.shape)
        assert not again.value.flags.writeable
    loaded.save(tmp_path / "again")
    assert size_of(tmp_path / "again") < 100_000
    np.testing.assert_array_equal(cutaway.load(tmp_path / "again").ops[-1].value, loaded.ops[-1].value)


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn", "int16", "bool", "complex64"])
def test_every_dtype_is_expanded(dtype: str, tmp_path: Path) -> None:
    x = torch.arange(3).to(getattr(torch, dtype))
    with cutaway.watch() as trace:
        expanded = x[:, None].expand(3, 5)
    trace.save(tmp_path / "trace")
    value = cutaway.load(tmp_path / "trace")["expand_1"].value
    kind = torch.complex64 if dtype == "complex64" else torch.float32
    np.testing.assert_array_equal(value.astype(np.complex64), expanded.to(kind).numpy())


def test_gradients_that_backward_expands(tmp_path: Path) -> None:
    """The gradient of a sum is one number, repeated."""
    x = torch.ones(2000, 500, requires_grad=True)
    with cutaway.watch() as trace:
        (x * 2).sum().backward()
    trace.save(tmp_path / "trace")
    np.testing.assert_array_equal(cutaway.load(tmp_path / "trace")["mul_1"].grad, np.ones((2000, 500), np.float32))
    assert size_of(tmp_path) < 2000 * 500 * 4 * 3.5  # without that of the product


def test_an_older_version_refuses_it_and_reads_all_others(
    x: Tensor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cutaway.trace(Expands(), x).save(tmp_path / "expanded")
    cutaway.trace(nn.Linear(4, 2), x).save(tmp_path / "plain")
    monkeypatch.setattr(decode, "VERSION", 1)
    with pytest.raises(VersionError, match="the trace has version 2"):
        cutaway.load(tmp_path / "expanded")
    assert cutaway.load(tmp_path / "plain")["linear_1"].shape == (3, 2)


@pytest.mark.parametrize("shape", [[5, 4, 4], [5], [2**20, 2**20, 2**20], [2**62] * 40, [1] * 65])
def test_a_shape_that_cannot_be_is_damage(shape: list[int], x: Tensor, tmp_path: Path) -> None:
    cutaway.trace(Expands(), x).save(tmp_path / "trace")
    archive = Archive(tmp_path / "trace")
    block = archive.blocks["structure"]
    arrays: dict[str, Any] = {name: block.raw(name) for name in block.names}
    offsets = arrays["arrays/expanded.offsets"].array().astype(np.int64)
    flat = arrays["arrays/expanded"].array().astype(np.int64)
    number = int(np.flatnonzero(np.diff(offsets))[0])
    flat = np.concatenate([flat[: offsets[number]], np.array(shape), flat[offsets[number + 1] :]])
    offsets[number + 1 :] += len(shape) - (offsets[number + 1] - offsets[number])
    changed = {**arrays, "arrays/expanded": Raw.of(flat), "arrays/expanded.offsets": Raw.of(offsets)}
    with pytest.raises(DamagedError):
        _ = [op.value for op in decode_trace(archive.document("trace"), changed, archive.blocks, "here").ops]


def test_without_its_column_it_is_damaged(x: Tensor, tmp_path: Path) -> None:
    cutaway.trace(Expands(), x).save(tmp_path / "trace")
    archive = Archive(tmp_path / "trace")
    block = archive.blocks["structure"]
    arrays = {name: block.raw(name) for name in block.names if not name.startswith("arrays/expanded")}
    with pytest.raises(DamagedError, match="expanded"):
        decode_trace(archive.document("trace"), arrays, archive.blocks, "here")


def test_a_trace_that_an_older_version_saved_is_read() -> None:
    trace = cutaway.load(GOLDEN)
    assert [op.label for op in trace.ops] == ["linear_1_1", "expand_1_2", "log_1_3"]
    expected = np.array([[1.0, -1.0], [3.0, -3.0]], np.float32)
    np.testing.assert_array_equal(trace["linear_1"].value, expected)
    np.testing.assert_array_equal(trace["expand_1"].value, np.broadcast_to(expected, (2, 2, 2)))
    first = trace.first_nonfinite
    assert (first.op.label, first.n_nan, first.n_inf, first.index) == ("log_1_3", 4, 0, (0, 0, 1))
    assert "NONFINITE" not in repr(trace)  # printing reads no values from disk
