"""What changed at a step: the planted image is found, and numbers are those of the store, computed again in NumPy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.server.spiking import BAD, BAD_PLACE, BATCH, SPIKES
from tests.server.spiking import spiking as spiking

import cutaway
from cutaway.core.statistics import PER_SAMPLE
from cutaway.store.runs.run import Run
from cutaway.views.run.filter_view import filter_view, passing_samples
from cutaway.views.run.rows import RunRows
from cutaway.views.run.spikes_view import CurveSource, spikes_view, verdict
from cutaway.views.run.table_outliers import strongest, table_outliers
from cutaway.views.run.what_changed import what_changed

LOSS = CurveSource("loss")
STEP = SPIKES[1]


def rows_of(path: Path) -> RunRows:
    run = cutaway.load(path)
    assert isinstance(run, Run)
    return RunRows(run)


@pytest.fixture(scope="module")
def rows(spiking: Path) -> RunRows:
    return rows_of(spiking / "reader")


@pytest.fixture(scope="module")
def bare(spiking: Path) -> RunRows:
    return rows_of(spiking / "bare")


def trained_before(rows: RunRows, step: int) -> list[int]:
    return [int(each) for each in rows.run.steps_of("train") if each < step]


def test_the_spikes_are_the_steps_with_the_bad_image(rows: RunRows, bare: RunRows) -> None:
    found = spikes_view(rows, LOSS)
    assert [(spike.step, spike.is_recorded) for spike in found.spikes] == [(step, True) for step in SPIKES]
    assert [spike.step for spike in spikes_view(bare, LOSS).spikes] == list(SPIKES)
    assert not any(spike.is_recorded for spike in spikes_view(bare, LOSS).spikes)
    number = rows.number("stem.0")
    assert [spike.step for spike in spikes_view(rows, CurveSource(row=number, statistic="std")).spikes] == list(SPIKES)


def test_the_verdict_names_value_reference_and_what_followed(rows: RunRows) -> None:
    losses = rows.run.scalars["loss"]
    values = dict(zip(losses.steps.tolist(), losses.values.tolist(), strict=True))
    before = trained_before(rows, STEP)
    median = float(np.median([values[step] for step in before]))
    pieces = verdict(rows, LOSS, STEP)
    assert "".join(pieces) == (
        f"Loss {values[STEP]:.0f}: {values[STEP] / median:.0f} times the median of the {len(before)} train steps "
        f"before ({median:.3g}), and {values[STEP + 1]:.3g} one step later."
    )
    assert pieces[1::2] == (f"{values[STEP]:.0f}", f"{median:.3g}", f"{values[STEP + 1]:.3g}")


def test_verdicts_on_other_steps_say_what_is_known(rows: RunRows) -> None:
    assert "too few steps before to tell whether that is usual (2 of at least 5)" in "".join(verdict(rows, LOSS, 2))
    assert ": usual, with a median of " in "".join(verdict(rows, LOSS, STEP + 3))
    assert "".join(verdict(rows, LOSS, 55)).endswith("; no later value yet.")
    assert verdict(rows, LOSS, 999) == ("Loss has no value at step 999.",)
    number = rows.number("stem.0", "grad")
    assert "".join(verdict(rows, CurveSource(row=number, statistic="std"), STEP)).startswith("std of stem.0, gradient ")


def test_the_most_unusual_tensors_come_first_with_their_ratios(rows: RunRows) -> None:
    view = what_changed(rows, LOSS, STEP)
    assert view.is_recorded
    assert view.about_tensors == ""
    assert view.n_tensors > view.n_unusual > 5
    first = {rows.row(tensor.row).base for tensor in view.tensors[:4]}
    assert {".@in.0", "stem.0"} <= first
    assert "$loss" not in {rows.row(tensor.row).base for tensor in view.tensors}
    z = [max(abs(tensor.z_past or 0), abs(tensor.z_peers or 0)) for tensor in view.tensors if tensor.is_unusual]
    assert z == sorted(z, reverse=True)
    for tensor in view.tensors[:4]:
        row = rows.row(tensor.row)
        past = [rows.run.at(step)[row.site].stats[tensor.statistic] for step in trained_before(rows, STEP)[-50:]]
        own = rows.run.at(STEP)[row.site].stats[tensor.statistic]
        assert tensor.n_past == len(past)
        assert tensor.value == pytest.approx(own)
        assert tensor.usual == pytest.approx(np.median(past), rel=1e-5)
        assert tensor.ratio == pytest.approx(own / np.median(past), rel=1e-4)
        assert tensor.z_past is not None
        assert tensor.z_past > 5


def test_the_bad_sample_comes_first_with_its_share_of_the_loss(rows: RunRows) -> None:
    view = what_changed(rows, LOSS, STEP, samples=rows.filter)
    losses = rows.run.at(STEP).samples.fields["loss"].astype(np.float64)
    first = view.samples[0]
    assert first.item is not None
    assert (first.number, first.position, first.item.id) == (BAD_PLACE, BAD_PLACE, BAD)
    assert first.loss == pytest.approx(losses[BAD_PLACE])
    assert first.share == pytest.approx(losses[BAD_PLACE] / losses.sum())
    assert first.z is not None
    assert (first.n_spikes, view.n_spikes) == (3, 3)
    assert [sample.loss for sample in view.samples] == pytest.approx(np.sort(losses)[::-1])
    assert sum(sample.share or 0 for sample in view.samples) == pytest.approx(1)
    assert all(sample.z is None for sample in view.samples[1:])
    assert (view.n_batch, view.n_kept, view.about_samples) == (BATCH, BATCH, "")
    strip = next(strip for strip in view.strips if rows.row(strip.row).base == ".@in.0")
    image = rows.run.at(STEP)[".@in.0"].value.reshape(BATCH, -1).astype(np.float64)
    column = {"mean": image.mean(1), "abs_mean": np.abs(image).mean(1), "std": image.std(1)}
    column["abs_max"] = np.abs(image).max(1)
    assert strip.statistic in PER_SAMPLE
    assert strip.values == pytest.approx(column[strip.statistic], rel=1e-4)


def test_what_was_not_recorded_is_named(rows: RunRows, bare: RunRows) -> None:
    view = what_changed(bare, LOSS, STEP)
    assert not view.is_recorded
    assert len(view.nearest) == 2
    assert f"step {STEP} was not recorded" in view.about_tensors
    recorded = int(bare.run.steps[-1])
    view = what_changed(bare, LOSS, recorded)
    assert "No samples were kept at this step. Record with samples=8" in view.about_samples
    assert "steps were recorded before this one" in view.about_tensors or view.n_tensors
    early = what_changed(rows, LOSS, 2)
    assert "Only 2 train steps were recorded before this one, and at least 5 are needed" in early.about_tensors
    calm = what_changed(rows, LOSS, SPIKES[2] + 6)
    assert calm.n_unusual == 0
    assert calm.tensors


def test_samples_pass_the_filters_or_not(rows: RunRows) -> None:
    texts = ["label = 2"]
    passing = passing_samples(rows.run, texts, rows.filter, STEP)
    assert passing is not None
    labels = rows.run.at(STEP).samples.fields["label"]
    assert list(passing) == np.flatnonzero(labels == 2).tolist()
    view = what_changed(rows, LOSS, STEP, passing=passing)
    assert {sample.number for sample in view.samples if sample.does_pass} == set(passing)
    assert passing_samples(rows.run, ["loss > 1"], rows.filter, STEP) is None
    assert passing_samples(rows.run, ["id = img-812"], rows.filter, STEP + 1) == ()


def test_the_view_of_filters_counts_what_is_left(rows: RunRows) -> None:
    view = filter_view(rows.run, [f"id = {BAD}", "nonsense", "loss > 2"], rows.filter)
    assert view.steps == SPIKES
    assert view.samples == ((BAD_PLACE,),) * 3
    assert (view.n_steps, view.n_samples, view.n_all_samples) == (len(rows.run), 3, BATCH * len(rows.run))
    assert [bool(term.error) for term in view.terms] == [False, True, False]
    assert {"loss", "kind", "label", "writer", "$target", "token"} <= set(view.names)


def test_outliers_of_a_table_are_those_far_from_the_median() -> None:
    table = np.random.default_rng(0).lognormal(0, 0.2, (200, 4)).astype(np.float32)
    assert np.isnan(table_outliers(table, PER_SAMPLE)).all()
    table[17, 3] *= 40
    table[90, 2] = 0
    found = table_outliers(table, PER_SAMPLE)
    assert np.argwhere(np.isfinite(found)).tolist() == [[17, 3], [90, 2]]
    decades = np.log10(table[:, 3].astype(np.float64))
    middle = np.median(decades)
    spread = 1.4826 * np.median(np.abs(decades - middle)) * (1 + 8 / 200)
    assert found[17, 3] == pytest.approx((decades[17] - middle) / spread, rel=1e-4)
    assert np.flatnonzero(strongest(found)).tolist() == [17, 90]


@pytest.mark.parametrize("is_chosen", [False, True])
def test_samples_that_were_not_kept_are_named(tmp_path: Path, is_chosen: bool) -> None:
    """Statistics of all eight samples, values of two: of the first two, or of those with the largest loss."""
    import torch

    torch.manual_seed(0)
    model = torch.nn.Linear(4, 2)
    with cutaway.record(tmp_path / "run", model, every=1, samples=2, statistics="full") as run:
        for number in range(8):
            x = torch.randn(8, 4)
            x[5] *= 1000 if number == 7 else 1
            with run.step(kind=None):
                losses = model(x).pow(2).sum(1)
                run.log(loss=losses.mean())
                run.samples(ids=[f"s{place}" for place in range(8)], loss=losses)
                run.keep("train", **({"samples": 2, "by": losses} if is_chosen else {}))
    view = what_changed(rows_of(tmp_path / "run"), LOSS, 7)
    first = view.samples[0] if is_chosen else next(sample for sample in view.samples if sample.number is None)
    assert (first.position, first.z is not None, view.n_batch, view.n_kept) == (5, True, 8, 2)
    assert all(len(strip.values) == 8 for strip in view.strips)
    if is_chosen:
        assert first.item is not None
        assert (first.number, first.item.id, view.about_samples) == (0, "s5", "")
    else:
        assert "One unusual sample was not kept: 2 samples of 8 were." in view.about_samples
