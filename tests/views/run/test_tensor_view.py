"""The inspector's facts of one tensor at one step, held against the run itself."""

from __future__ import annotations

import base64
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests import ROOT
from tests.core.test_unusual import oracle
from tests.views.recordings import KEPT, train, trained, written
from torch import nn

import cutaway
from cutaway.core.errors import InputError, NotSavedError
from cutaway.core.statistics import PER_SAMPLE, PER_UNIT
from cutaway.layout.graph_view import plain
from cutaway.store.format.records import Row
from cutaway.store.runs.run import Run
from cutaway.store.writing.writer import Writer
from cutaway.views.run.rows import RunRows
from cutaway.views.run.tensor_view import TensorView, sample_values, tensor_values, tensor_view, unit_values


@pytest.fixture
def rows() -> RunRows:
    return RunRows(trained())


def number(rows: RunRows, site: str, of: str = "value") -> int:
    found = rows.number(site, of)
    assert found is not None
    return found


def stat(view: TensorView, name: str) -> Any:
    return next(one for one in view.statistics if one.name == name)


@pytest.mark.parametrize("of", ["value", "grad", "grad/guess"])
def test_statistics_and_values_are_those_of_the_run(rows: RunRows, of: str) -> None:
    at = number(rows, "h.1.mlp.0", of)
    view = tensor_view(rows, at, step=4)
    moment = rows.run.at(4)["h.1.mlp.0"].other(of)
    assert moment is not None
    for one in view.statistics:
        assert one.value == moment.stats[one.name]
    assert {one.name for one in view.statistics} < set(moment.stats)
    assert (view.dtype, view.shape, view.n_samples) == (moment.dtype, moment.shape, KEPT)
    np.testing.assert_array_equal(tensor_values(rows, at, step=4), moment.value)
    assert view.picture is not None
    assert dict(view.picture.statistics)["mean"] == pytest.approx(moment.value.astype(float).mean())
    assert view.why_missing == ""


def test_every_row_at_every_step_can_be_looked_at_and_is_json(rows: RunRows) -> None:
    for at in range(len(rows)):
        view = tensor_view(rows, at, step=5, sample=1)
        json.dumps(plain(view), allow_nan=False)
        assert bool(view.why_missing) == (view.picture is None)


def test_the_histogram_is_that_of_the_values(tmp_path: Path) -> None:
    run = train(tmp_path / "run", n_steps=1, samples=4)
    rows = RunRows(run)
    view = tensor_view(rows, number(rows, "h.0.mlp.0"), step=0)
    values = run.at(0)["h.0.mlp.0"].value
    assert view.histogram is not None
    low, high = view.histogram.low, view.histogram.high
    assert (low, high) == (values.min(), values.max())
    assert sum(view.histogram.counts) == values.size <= 1024
    counts, edges = np.histogram(values.astype(float), bins=16, range=(low, high))
    assert abs(values.astype(float).reshape(-1, 1) - edges[1:-1]).min() > 1e-7  # or rounding decides
    assert view.histogram.counts == tuple(counts)


def test_one_sample_is_its_part_of_the_values_with_its_content(rows: RunRows) -> None:
    at = number(rows, "h.2")
    view = tensor_view(rows, at, step=3, sample=2)
    whole, samples = rows.run.at(3)["h.2"].value, rows.run.at(3).samples
    np.testing.assert_array_equal(tensor_values(rows, at, step=3, sample=2), whole[2])
    assert view.picture is not None
    assert view.picture.shape == whole.shape[1:]
    assert dict(view.picture.statistics)["max"] == pytest.approx(whole[2].max())
    assert view.sample is not None
    assert samples.text is not None
    assert (view.sample.text, view.sample.id, view.sample.label) == (samples.text[2], "3/2", str(samples.label[2]))
    assert [name for name, _ in view.sample.others] == ["weight"]
    with pytest.raises(InputError, match="sample 7 was not kept: 3 were"):
        tensor_values(rows, at, step=3, sample=7)
    assert "0 to 2" in tensor_view(rows, at, step=3, sample=7).why_missing


def test_tables_of_units_and_samples_are_the_recorded_ones(rows: RunRows) -> None:
    for of in ("value", "grad"):
        at = number(rows, "h.1.mlp.0", of)
        view, moment = tensor_view(rows, at, step=2), rows.run.at(2)["h.1.mlp.0"]
        units = moment.other("unit" if of == "value" else "unit/grad")
        samples = moment.other("samples" if of == "value" else "samples/grad")
        assert units is not None
        assert samples is not None
        np.testing.assert_array_equal(unit_values(rows, at, step=2), units.value.T)
        np.testing.assert_array_equal(sample_values(rows, at, step=2), samples.value.T)
        assert view.units is not None
        assert view.samples is not None
        assert (view.units.n_rows, view.units.source, view.units.columns) == (16, "batch", PER_UNIT)
        assert (view.samples.n_rows, view.samples.source, view.samples.columns) == (4, "batch", PER_SAMPLE)


def test_without_full_statistics_the_tables_are_of_what_was_kept(tmp_path: Path) -> None:
    rows = RunRows(train(tmp_path / "run", n_steps=1, statistics="core"))
    at = number(rows, "h.1.mlp.0")
    view, value = tensor_view(rows, at, step=0), rows.run.at(0)["h.1.mlp.0"].value.astype(float)
    assert view.units is not None
    assert view.samples is not None
    assert (view.units.source, view.units.n_rows, view.samples.n_rows) == ("kept", 16, KEPT)
    units, samples = unit_values(rows, at, step=0), sample_values(rows, at, step=0)
    by_unit = value.reshape(-1, 16)
    expected = [by_unit.mean(0), by_unit.std(0), by_unit.min(0), by_unit.max(0), (by_unit == 0).mean(0)]
    np.testing.assert_allclose(units.T, expected, rtol=1e-5)
    flat = value.reshape(KEPT, -1)
    by_sample = [flat.mean(1), abs(flat).mean(1), flat.std(1), abs(flat).max(1)]
    np.testing.assert_allclose(samples.T, by_sample, rtol=1e-5)


def test_normalized_values_are_deviations_of_each_unit(rows: RunRows, tmp_path: Path) -> None:
    at = number(rows, "h.1.mlp.0")
    value, moment = rows.run.at(2)["h.1.mlp.0"].value, rows.run.at(2)["h.1.mlp.0"].other("unit")
    assert moment is not None
    mean, std = moment.value[0], moment.value[1]
    found = tensor_values(rows, at, step=2, is_normalized=True)
    np.testing.assert_allclose(found, (value - mean) / std, rtol=1e-4, atol=1e-5)
    picture = tensor_view(rows, at, step=2, is_normalized=True).picture
    assert picture is not None
    assert dict(picture.statistics)["max"] == pytest.approx(found.max(), rel=1e-6)
    core = RunRows(train(tmp_path / "core", n_steps=1, statistics="core"))
    stats, value = core.run.at(0)["h.1"].stats, core.run.at(0)["h.1"].value
    found = tensor_values(core, number(core, "h.1"), step=0, is_normalized=True)
    np.testing.assert_allclose(found, (value - stats["mean"]) / stats["std"], rtol=1e-4, atol=1e-5)


def test_channels_are_the_units_of_images(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Conv2d(3, 6, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(6 * 8 * 8, 2))
    with cutaway.record(tmp_path / "run", model, every=1, samples=2) as run, run.step():
        model(torch.randn(4, 3, 8, 8))
    rows = RunRows(cutaway.load(tmp_path / "run"))
    for site in ("0", "1"):
        value = rows.run.at(0)[site].value
        np.testing.assert_allclose(
            unit_values(rows, number(rows, site), step=0)[:, 0], value.mean((0, 2, 3)), rtol=1e-4, atol=1e-6
        )
        picture = tensor_view(rows, number(rows, site), step=0).picture
        assert picture is not None
        assert picture.image is not None
        assert (picture.image.kind, picture.image.n_tiles) == ("tiles", 6)
        assert "channels 1–6 of 6" in picture.image.caption
    assert unit_values(rows, number(rows, "3"), step=0).shape == (2, 5)


def test_images_and_texts_of_samples_come_along(rows: RunRows) -> None:
    item = tensor_view(rows, number(rows, "h.2"), step=3, sample=0).sample
    assert item is not None
    image, given = item.image, rows.run.at(3).samples.image
    assert image is not None
    assert given is not None
    assert (image.rows, image.columns, image.n_channels, image.low, image.high) == (6, 4, 3, 0.0, 1.0)
    pixels = np.frombuffer(base64.b64decode(image.data), np.uint8).reshape(6, 4, 3)
    np.testing.assert_array_equal(pixels, np.rint(given[0].transpose(1, 2, 0) * 255))


def test_where_only_statistics_were_kept_that_is_said(rows: RunRows) -> None:
    at = number(rows, "h.0.norm.weight")
    view = tensor_view(rows, at, step=2)
    assert view.picture is None
    assert view.why_missing.startswith("step 2 recorded only statistics of 'h.0.norm.weight'.")
    assert stat(view, "mean").value == rows.run.at(2)["h.0.norm.weight"].stats["mean"]
    with pytest.raises(NotSavedError):
        tensor_values(rows, at, step=2)


def test_a_row_that_a_step_has_not_is_missing_and_no_error(tmp_path: Path) -> None:
    with Writer(tmp_path / "run", kind="run") as writer:
        for step, site in enumerate(("a", "b")):
            writer.step(step, schema=writer.schema([Row(site)], ["mean"]), matrix=np.ones((1, 1)))
    rows = RunRows(cutaway.load(tmp_path / "run"))
    view = tensor_view(rows, number(rows, "b"), step=0)
    assert view.statistics == ()
    assert view.picture is view.units is view.histogram is None
    assert view.why_missing == "'value' of 'b' was not recorded at step 0."


def test_what_is_damaged_is_said_and_the_rest_is_there(tmp_path: Path) -> None:
    values = np.arange(20, dtype=np.float32).reshape(4, 5) + 1000
    written(tmp_path / "run", [np.ones((1, 3))], values=[{0: values}])
    (file,) = (tmp_path / "run").glob("rank-0/*-v0001.safetensors")
    data = bytearray(file.read_bytes())
    data[data.index(values.tobytes())] ^= 0xFF
    file.write_bytes(bytes(data))
    rows = RunRows(cutaway.load(tmp_path / "run"))
    view = tensor_view(rows, 0, step=0)
    assert "have a wrong checksum" in view.why_missing
    assert view.picture is view.units is None
    assert stat(view, "mean").value == 1.0
    (file,) = (tmp_path / "run").glob("rank-0/*-s0001.safetensors")
    file.write_bytes(file.read_bytes()[:-4])
    view = tensor_view(RunRows(cutaway.load(tmp_path / "run")), 0, step=0)
    assert view.statistics == ()
    assert "safetensors" in view.why_missing


def spiked(tmp_path: Path, *, at: int = 30) -> Run:
    """Ten tensors of one role over 31 steps of two kinds; the third explodes at one step."""
    rng = np.random.default_rng(0)
    matrices = 1 + 0.5 * rng.random((31, 11, 3))
    matrices[1::2] *= 50  # the other kind is of another scale
    matrices[at, 2] *= 1e4
    matrices[:, 10] *= 1e9  # of another role
    rows = [*(Row(f"t{i}", role="value") for i in range(10)), Row("w", role="parameter")]
    kinds = ["even" if step % 2 == 0 else "odd" for step in range(31)]
    return written(tmp_path / "run", list(matrices), rows=rows, statistics=("mean", "std", "count"), kinds=kinds)


def test_a_tensor_that_explodes_is_marked_against_its_past_and_its_likes(tmp_path: Path) -> None:
    rows = RunRows(spiked(tmp_path))
    for at in range(10):
        view = tensor_view(rows, at, step=30)
        std = stat(view, "std")
        assert (std.n_past, std.n_peers) == (15, 9)
        if at == 2:
            assert std.z_past > 30
            assert std.z_peers > 30
            assert std.unusual.text.startswith("×")
            assert "the median of the 15 even steps before (0 to 28)" in std.unusual.about
        else:
            assert abs(std.z_past) < 5
            assert abs(std.z_peers) < 5
            assert std.unusual is None
        assert stat(view, "count").z_past is None
    alone = tensor_view(rows, 10, step=30)
    assert stat(alone, "std").z_peers is None  # there is nothing like it
    assert abs(stat(alone, "std").z_past) < 5


def test_marks_are_what_numpy_makes_of_the_recorded_numbers(tmp_path: Path) -> None:
    run = spiked(tmp_path, at=12)
    view = tensor_view(RunRows(run), 2, step=30)
    past = [step["t2"].stats["std"] for step in run if step.kind == "even" and step.step < 30]
    value = run.at(30)["t2"].stats["std"]
    likes = np.log10([run.at(30)[f"t{i}"].stats["std"] for i in range(10)])
    one = stat(view, "std")
    assert one.z_past == pytest.approx(oracle(value, past), rel=1e-4)
    assert one.usual == pytest.approx(np.median(past))
    spread = 1.4826 * np.median(abs(likes - np.median(likes))) * (1 + 8 / len(likes))
    assert one.z_peers == pytest.approx((np.log10(value) - np.median(likes)) / spread, rel=1e-4)
    assert stat(view, "mean").z_peers is None  # which says nothing beside that of another layer


@pytest.mark.parametrize(("nonfinite", "word"), [(0, ""), (1, "nan")])
def test_what_a_tensor_cannot_have_is_no_fault(tmp_path: Path, nonfinite: int, word: str) -> None:
    """A parameter has no samples: NaN says nothing about its elements, unless one of them is not finite."""
    matrix = np.array([[np.nan, nonfinite, np.nan]], np.float32)
    names = ("batch_std", "nonfinite", "mean")
    rows = RunRows(written(tmp_path / "run", [matrix], rows=[Row("w", role="parameter")], statistics=names))
    view = tensor_view(rows, 0, step=0)
    assert (stat(view, "batch_std").value, stat(view, "batch_std").non_finite) == (None, word)
    assert stat(view, "mean").non_finite == "nan"


def test_numbers_that_are_none_have_their_word(tmp_path: Path) -> None:
    matrix = np.array([[np.nan, np.inf, -np.inf], [1, 2, 3]], np.float32)
    view = tensor_view(RunRows(written(tmp_path / "run", [matrix])), 0, step=0)
    assert [(one.value, one.non_finite) for one in view.statistics] == [(None, "nan"), (None, "inf"), (None, "-inf")]
    assert all(one.z_past is None and one.z_peers is None for one in view.statistics)


@pytest.mark.parametrize(
    "value",
    [
        np.float32(3.0).reshape(()),
        np.zeros((0, 4), np.float32),
        np.array([True, False]),
        np.array([1 + 2j, 3j]),
        np.arange(24).reshape(2, 3, 2, 2),
        np.full((3, 3), np.nan),
        np.arange(3, dtype=np.uint64) + 2**63,
    ],
    ids=lambda value: f"{value.dtype}{value.shape}",
)
def test_any_dtype_and_shape_can_be_looked_at(tmp_path: Path, value: np.ndarray[Any, Any]) -> None:
    rows = RunRows(written(tmp_path / "run", [np.ones((1, 3))], values=[{0: value}]))
    view = tensor_view(rows, 0, step=0)
    json.dumps(plain(view), allow_nan=False)
    assert view.shape == value.shape
    assert view.picture is not None
    assert not view.why_missing
    np.testing.assert_array_equal(tensor_values(rows, 0, step=0), value)
    if view.units is not None:
        assert unit_values(rows, 0, step=0).shape == (view.units.n_rows, len(view.units.columns))


def test_a_step_without_statistics_or_values_is_empty(tmp_path: Path) -> None:
    with Writer(tmp_path / "run", kind="run") as writer:
        writer.step(0, schema=writer.schema([Row("a")], ["mean"]))
    rows = RunRows(cutaway.load(tmp_path / "run"))
    assert np.isnan(rows.matrix(0)).all()
    view = tensor_view(rows, 0, step=0)
    assert stat(view, "mean") == replace(stat(view, "mean"), value=None, non_finite="nan", n_past=0)
    assert not math.isnan(view.step)
    assert view.picture is None


def test_a_tensor_far_from_its_siblings_names_the_middle_one(tmp_path: Path) -> None:
    sites = ("h.0.mlp", "h.1.mlp", "h.2.mlp", "h.3.mlp", "h.3.norm", "other")
    sizes = np.float32([2, 1, 3, 3e-4, 50, 0])
    matrix = np.stack([np.full(6, 10, np.float32), sizes], 1)
    run = written(tmp_path / "run", [matrix], rows=[Row(site) for site in sites], statistics=("count", "abs_mean"))
    rows = RunRows(run)
    found = tensor_view(rows, 3, step=0).sibling
    assert found is not None
    assert (found.site, found.row, found.n) == ("h.0.mlp", 0, 3)
    assert found.ratio == pytest.approx(1.5e-4)
    assert [tensor_view(rows, at, step=0).sibling for at in (0, 1, 4, 5)] == [None] * 4


def test_units_that_are_zero_for_the_whole_batch_are_counted(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(3, 6), nn.ReLU())
    with torch.no_grad():
        model[0].weight.zero_()
        model[0].bias.copy_(torch.tensor([1.0, -1, 1, -1, -1, 1]))
    for statistics, n_dead in (("full", 3), ("core", None)):
        with cutaway.record(tmp_path / statistics, model, every=1, statistics=statistics) as run, run.step():
            model(torch.randn(4, 3))
        rows = RunRows(cutaway.load(tmp_path / statistics))
        assert tensor_view(rows, number(rows, "1"), step=0).dead_units == n_dead


def test_one_channel_is_shown_alone_and_each_by_its_own_range(tmp_path: Path) -> None:
    model = nn.Conv2d(3, 5, 3, padding=1)
    with cutaway.record(tmp_path / "run", model, every=1, samples=2) as run, run.step():
        model(torch.randn(4, 3, 8, 8))
    rows = RunRows(cutaway.load(tmp_path / "run"))
    at = number(rows, ".")
    value = rows.run.at(0)["."].value
    for tile in (None, 3, 99):
        picture = tensor_view(rows, at, step=0, sample=1, tile=tile, is_each=True).picture
        assert picture is not None
        assert picture.image is not None
        image = picture.image
        assert (image.tile_word, image.n_tiles_total, image.axes) == ("channel", 5, (1, 2, 3))
        if tile == 3:
            assert (image.kind, image.first, image.ranges) == ("matrix", (0, 3, 0, 0), ())
            assert (image.low, image.high) == (value[1, 3].min(), value[1, 3].max())
            assert "channel 4 of 5" in image.caption
        else:
            assert (image.n_tiles, image.first) == (5, (0, 0, 0, 0))
            assert image.ranges == tuple((channel.min(), channel.max()) for channel in value[1])


# units


class _Sequence(nn.Module):
    """Sequence-first, and ending in a choice by the data."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.top = nn.LSTM(6, 10), nn.Linear(10, 3)
        self.choice = nn.Identity()

    def forward(self, x: torch.Tensor) -> Any:
        return self.choice(self.top(self.lstm(x)[0]).topk(2).values)


def test_samples_and_units_are_those_of_the_graph(tmp_path: Path) -> None:
    model, x = _Sequence(), torch.randn(7, 4, 6)
    with cutaway.record(tmp_path / "run", model, every=1, samples=3) as run:
        with run.step():
            model(x).sum().backward()
    rows = RunRows(cutaway.load(tmp_path / "run"))
    at = number(rows, "lstm@out.0")
    view = tensor_view(rows, at, step=0, sample=2)
    hidden = model.lstm(x)[0].detach().numpy()
    assert (view.shape, view.n_samples, view.about_units) == (
        (3, 7, 10),
        3,
        "",
    )  # samples first, whatever the model has
    np.testing.assert_array_equal(tensor_values(rows, at, step=0, sample=2), hidden[:, 2])
    assert view.units is not None
    assert view.units.n_rows == 10
    np.testing.assert_allclose(unit_values(rows, at, step=0)[:, 0], hidden[:, :3].mean((0, 1)), rtol=1e-5, atol=1e-7)
    refused = tensor_view(rows, number(rows, "choice"), step=0)
    assert refused.units is None
    assert "is unknown: it was selected or sorted by the data" in refused.about_units


def test_a_run_of_an_older_version_says_that_units_were_guessed() -> None:
    rows = RunRows(cutaway.load(ROOT / "tests" / "store" / "golden" / "v1" / "run"))
    row = next(i for i, row in enumerate(rows.rows) if row.of == "value" and row.role not in ("loss", "parameter"))
    step = next(int(s) for s in rows.run.steps if rows.has(rows.run.at(int(s)), row))
    assert "older version, which guessed" in tensor_view(rows, row, step=step).about_units
