"""Exporting: what other programs read is, bit for bit, what was recorded, and nothing is ever overwritten."""

from __future__ import annotations

import csv
import json
import struct
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pandas
import pyarrow.parquet
import pytest
import safetensors.numpy
import torch
from safetensors.torch import load_file
from tests.store.recorded import (
    ROWS,
    STATISTICS,
    STEPS,
    kind_of,
    loss_of,
    matrix_of,
    record,
    values_of,
)

import cutaway
from cutaway.core.arrays import Raw
from cutaway.core.errors import ExistsError, InputError, MissingExtraError, NotFoundError, SiteError
from cutaway.store.exports.export import export
from cutaway.store.format.records import Row
from cutaway.store.writing.writer import Writer


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("exported") / "base"
    record(path)
    return path


def same(found: np.ndarray, expected: np.ndarray) -> bool:
    return found.dtype == expected.dtype and found.shape == expected.shape and found.tobytes() == expected.tobytes()


# values


def test_values_as_npy_are_bit_equal_and_listed(base: Path, tmp_path: Path) -> None:
    result = export(base, tmp_path / "out", format="npy", steps=slice(10, 50))
    steps = [step for step in STEPS if 10 <= step < 50]
    for step in steps:
        for row in (0, 3):
            found = np.load(tmp_path / "out" / str(step) / "value" / f"{ROWS[row].site}.npy", allow_pickle=False)
            assert same(found, values_of(step)[row].array())
        half = np.load(tmp_path / "out" / str(step) / "value" / "half.npy")
        expected = torch.frombuffer(bytearray(memoryview(values_of(step)[4].data)), dtype=torch.bfloat16)
        assert half.tobytes() == expected.to(torch.float32).numpy().tobytes()
    listed = pandas.read_csv(tmp_path / "out" / "index.csv")
    assert result.n_items == len(listed) == 3 * len(steps)
    assert set(listed.file) | {"index.csv"} == set(result.files)
    assert set(listed[listed.site == "half"].dtype) == {"bfloat16"}


def test_values_as_safetensors_are_read_by_torch_with_their_own_dtype(base: Path, tmp_path: Path) -> None:
    export(base, tmp_path / "out", format="safetensors")
    found = load_file(tmp_path / "out" / "values.safetensors")
    assert len(found) == 3 * len(STEPS)
    for step in STEPS:
        for row, name in ((0, "encoder.0"), (3, "tokens"), (4, "half")):
            tensor = found[f"{step}/value/{name}"]
            raw = values_of(step)[row]
            assert str(tensor.dtype) == f"torch.{raw.dtype}"
            assert tensor.view(torch.uint8).numpy().tobytes() == bytes(memoryview(raw.data))


def test_gradients_alone_can_be_exported(base: Path, tmp_path: Path) -> None:
    export(base, tmp_path / "out", format="safetensors", of="grad", at="encoder.*", steps=40)
    found = safetensors.numpy.load_file(tmp_path / "out" / "values.safetensors")
    assert list(found) == ["40/grad/encoder.0"]
    assert same(found["40/grad/encoder.0"], values_of(40)[2].array())


def test_values_as_csv_give_every_number_back(base: Path, tmp_path: Path) -> None:
    result = export(base, tmp_path / "out", format="csv", at="encoder.0")
    found = pandas.read_csv(tmp_path / "out" / "values.csv", dtype={"value": np.float32})
    assert result.n_items == len(found) == 6 * len(STEPS)
    for step in STEPS:
        numbers = found[found.step == step].sort_values("index").value.to_numpy(np.float32)
        expected = values_of(step)[0].array().reshape(-1)
        np.testing.assert_array_equal(numbers, expected)
        assert np.array_equal(np.signbit(numbers[~np.isnan(numbers)]), np.signbit(expected[~np.isnan(expected)]))


def test_values_as_parquet_have_a_file_for_each_dtype_and_lose_nothing(base: Path, tmp_path: Path) -> None:
    result = export(base, tmp_path / "out", format="parquet")
    assert result.files == ("values-float32.parquet", "values-int64.parquet")
    whole = pyarrow.parquet.read_table(tmp_path / "out" / "values-int64.parquet").to_pandas()
    floats = pyarrow.parquet.read_table(tmp_path / "out" / "values-float32.parquet").to_pandas()
    for step in STEPS:
        assert same(whole[whole.step == step].value.to_numpy(), values_of(step)[3].array().reshape(-1))
        chosen = floats[(floats.step == step) & (floats.site == "encoder.0")]
        assert same(chosen.value.to_numpy(), values_of(step)[0].array().reshape(-1))
        assert set(chosen.kind) == {kind_of(step)}


def test_values_of_a_trace_are_exported_by_label(tmp_path: Path) -> None:
    trace = cutaway.trace(torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.ReLU()), torch.ones(1, 3))
    trace.save(tmp_path / "net")
    export(tmp_path / "net", tmp_path / "out", format="safetensors")
    found = safetensors.numpy.load_file(tmp_path / "out" / "values.safetensors")
    for op in trace:
        assert same(found[op.label], op.value.detach().numpy())


# statistics


def expected_statistics(row: int, steps: list[int]) -> np.ndarray:
    return np.stack([matrix_of(step)[row] for step in steps], axis=-1)  # [statistic, step]


@pytest.mark.parametrize("format", ["npy", "safetensors"])
def test_statistics_as_arrays_are_bit_equal(base: Path, tmp_path: Path, format: str) -> None:
    out = tmp_path / "out"
    export(base, out, format=format, what="statistics", at="encoder.*", steps=slice(10, None))  # type: ignore[arg-type]
    steps = [step for step in STEPS if step >= 10]
    if format == "npy":
        found, at = np.load(out / "statistics.npy"), np.load(out / "steps.npy")
        about = json.loads((out / "statistics.json").read_text())
    else:
        arrays = safetensors.numpy.load_file(out / "statistics.safetensors")
        found, at = arrays["statistics"], arrays["steps"]
        with safetensors.safe_open(out / "statistics.safetensors", "numpy") as file:
            about = {key: json.loads(file.metadata()[key]) for key in ("tensors", "statistics", "axes")}
    assert at.tolist() == steps
    assert about["statistics"] == list(STATISTICS)
    assert [one["site"] for one in about["tensors"]] == ["encoder.0", "encoder.1"]
    assert same(found, np.stack([expected_statistics(row, steps) for row in (0, 1)]))


@pytest.mark.parametrize("format", ["csv", "parquet"])
def test_statistics_as_tables_are_bit_equal(base: Path, tmp_path: Path, format: str) -> None:
    out = tmp_path / "out"
    export(base, out, format=format, what="statistics", of="grad")  # type: ignore[arg-type]
    if format == "csv":
        found = pandas.read_csv(out / "statistics.csv", dtype=dict.fromkeys(STATISTICS, np.float32))
    else:
        found = pyarrow.parquet.read_table(out / "statistics.parquet").to_pandas()
    assert found.step.tolist() == list(STEPS)
    assert found.kind.tolist() == [kind_of(step) for step in STEPS]
    for number, name in enumerate(STATISTICS):
        assert same(found[name].to_numpy(), expected_statistics(2, list(STEPS))[number])


# beside


def test_scalars_come_out_in_every_format(base: Path, tmp_path: Path) -> None:
    expected = np.array([loss_of(step) for step in STEPS])
    for format in ("npy", "safetensors", "csv", "parquet"):
        export(base, tmp_path / format, format=format, what="scalars", at="lo*")  # type: ignore[arg-type]
    assert same(np.load(tmp_path / "npy" / "loss.values.npy"), expected)
    assert np.load(tmp_path / "npy" / "loss.steps.npy").tolist() == list(STEPS)
    assert same(safetensors.numpy.load_file(tmp_path / "safetensors" / "scalars.safetensors")["loss/values"], expected)
    assert same(pandas.read_csv(tmp_path / "csv" / "scalars.csv").value.to_numpy(), expected)
    assert same(pyarrow.parquet.read_table(tmp_path / "parquet" / "scalars.parquet")["value"].to_numpy(), expected)


def test_notes_come_out_with_all_they_say(base: Path, tmp_path: Path) -> None:
    export(base, tmp_path / "csv", format="csv", what="notes")
    with (tmp_path / "csv" / "notes.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["text"] for row in rows] == ["the loss rose", "done"]
    assert (rows[0]["step"], rows[0]["level"], json.loads(rows[0]["about"])) == ("10", "warning", {"by": 2})
    assert rows[1]["step"] == ""
    export(base, tmp_path / "parquet", format="parquet", what="notes", steps=10)
    assert pyarrow.parquet.read_table(tmp_path / "parquet" / "notes.parquet")["text"].to_pylist() == ["the loss rose"]


def test_samples_come_out_with_their_texts_and_labels(base: Path, tmp_path: Path) -> None:
    export(base, tmp_path / "out", format="csv", what="samples")
    found = pandas.read_csv(tmp_path / "out" / "samples.csv")
    assert found.text.tolist() == ["a cat", "a dog"] * len([step for step in STEPS if step % 20 == 0])
    assert found.label.tolist()[:2] == [0, 1]
    assert "image" not in found
    export(base, tmp_path / "images", format="npy", of="sample/array", at="image", steps=20)
    assert np.load(tmp_path / "images" / "20" / "sample%2Farray" / "image.npy").shape == (2, 4, 4)


# manners


def test_nothing_that_is_there_is_overwritten(base: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "a").write_text("mine")
    (tmp_path / "empty").mkdir()
    for name in ("file", "full"):
        with pytest.raises(ExistsError, match="is not overwritten"):
            export(base, tmp_path / name, format="csv", what="scalars")
    export(base, tmp_path / "empty", format="csv", what="scalars")
    assert (tmp_path / "file").read_text() == (tmp_path / "full" / "a").read_text() == "mine"


def test_a_failure_leaves_nothing_behind(base: Path, tmp_path: Path) -> None:
    with pytest.raises(SiteError, match="no site matches 'decoder'"):
        export(base, tmp_path / "a", format="npy", at="decoder")
    with pytest.raises(NotFoundError, match="no values to export"):
        export(base, tmp_path / "b", format="npy", steps=7)
    with pytest.raises(InputError, match="notes are text"):
        export(base, tmp_path / "c", format="npy", what="notes")
    with pytest.raises(InputError, match="unknown format 'xls'"):
        export(base, tmp_path / "d", format="xls")  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


def test_parquet_without_pyarrow_says_what_to_install(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match="pip install pyarrow"):
        export(base, tmp_path / "out", format="parquet", what="scalars")


def test_damaged_values_are_left_out_and_said(tmp_path: Path) -> None:
    record(tmp_path / "base")
    wanted = bytes(memoryview(values_of(40)[0].data))
    file = next(file for file in tmp_path.rglob("*.safetensors") if wanted in file.read_bytes())
    data = bytearray(file.read_bytes())
    data[data.find(wanted)] ^= 1
    file.write_bytes(data)
    for format in ("npy", "safetensors", "csv"):
        result = export(tmp_path / "base", tmp_path / format, format=format)  # type: ignore[arg-type]
        assert any("40/value/encoder.0" in problem for problem in result.damage)
    with (tmp_path / "safetensors" / "values.safetensors").open("rb") as raw:
        (length,) = struct.unpack("<Q", raw.read(8))
        names = json.loads(raw.read(length))
    assert "40/value/encoder.0" not in names
    assert "40/value/tokens" in names


def test_hostile_names_become_harmless_files(tmp_path: Path) -> None:
    sites = ["../../escape", "a/b", "..", "A", "a", "x" * 500, "nul\0", "\x1b[31m", "\ud800"]
    with Writer(tmp_path / "base", kind="run") as writer:
        schema = writer.schema([Row(site) for site in sites])
        values = {number: Raw.of(np.array([number])) for number in range(len(sites))}
        writer.step(0, schema=schema, values=values)
    result = export(tmp_path / "base", tmp_path / "out", format="npy")
    assert result.n_items == len(sites)
    assert {path.name for path in tmp_path.iterdir()} == {"base", "out"}
    with (tmp_path / "out" / "index.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [np.load(tmp_path / "out" / row["file"]).item() for row in rows] == list(range(len(sites)))
    export(tmp_path / "base", tmp_path / "st", format="safetensors")
    assert len(safetensors.numpy.load_file(tmp_path / "st" / "values.safetensors")) == len(sites)


@pytest.mark.parametrize("format", ["npy", "safetensors"])
def test_more_values_than_memory_are_streamed(tmp_path: Path, format: str) -> None:
    size, n_steps = 1 << 20, 24
    with Writer(tmp_path / "base", kind="run") as writer:
        schema = writer.schema([Row("x")])
        for step in range(n_steps):
            writer.step(step, schema=schema, values={0: Raw.of(np.full(size // 4, step, np.float32))})
    tracemalloc.start()
    export(tmp_path / "base", tmp_path / "out", format=format)  # type: ignore[arg-type]
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 10 * size
