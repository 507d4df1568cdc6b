"""What stands out at a step of a run with planted faults: the same for the graph, the overview and the inspector."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.server.faulty import BROKEN, LATE, SPIKE
from tests.server.faulty import faulty as faulty
from tests.views.recordings import written

import cutaway
from cutaway.core.unusual import Contents, contents_of
from cutaway.store.format.records import Row
from cutaway.views.run.color_limits import color_limits
from cutaway.views.run.outliers import LEFT_OUT, contents_codes, step_marks
from cutaway.views.run.rows import RunRows
from cutaway.views.run.run_graph import run_graph
from cutaway.views.run.run_view import run_view
from cutaway.views.run.tensor_view import tensor_view


@pytest.fixture(scope="module")
def rows(faulty: Path) -> RunRows:
    return RunRows(cutaway.load(faulty / "faulty"))


def training(rows: RunRows, step: int) -> dict[str, tuple[str, int]]:
    return {rows.row(mark.row).base: (mark.state, mark.since) for mark in step_marks(rows, step).training}


def test_a_spike_is_marked_with_of_what_and_since_when(rows: RunRows) -> None:
    marks = step_marks(rows, SPIKE)
    named = {(rows.row(one.row).base, rows.row(one.row).of, one.statistic): one for one in marks.unusual}
    head = named["head", "value", "abs_mean"]
    past = [rows.run.at(step)["head"].stats["abs_mean"] for step in range(SPIKE)]
    ratio = rows.run.at(SPIKE)["head"].stats["abs_mean"] / np.median(past)
    assert head.ratio == pytest.approx(ratio, rel=1e-5)
    assert head.is_above
    assert head.text == f"×{float(f'{ratio:.2g}'):,.0f} of usual"
    assert f"the median of the {SPIKE} train steps before (0 to {SPIKE - 1})" in head.about
    strengths = [max(abs(one.z_past or 0), abs(one.z_peers or 0)) for one in marks.unusual]
    assert strengths == sorted(strengths, reverse=True)
    before = [rows.row(one.row) for one in step_marks(rows, SPIKE - 1).unusual]
    assert not any(row.base == "head" for row in before)


def test_the_inspector_says_the_same_as_the_step(rows: RunRows) -> None:
    for step in (10, SPIKE):
        marks = step_marks(rows, step)
        by_row: dict[int, dict[str, object]] = {}
        for one in marks.unusual:
            by_row.setdefault(one.row, {})[one.statistic] = one
        states = {mark.row: mark for mark in marks.training}
        for number, row in enumerate(rows.rows):
            view = tensor_view(rows, number, step=step)
            shown = {each.name: each.unusual for each in view.statistics if each.unusual is not None}
            assert shown == by_row.get(number, {}), row
            if row.of == "value":
                assert view.training == states.get(number)


def test_buffers_whole_numbers_and_masks_are_never_unusual_and_have_no_color(rows: RunRows) -> None:
    out = {"norm.num_batches_tracked", "norm.running_mean", "norm.running_var", ".@in.0", ".@in.src_mask"}
    for step in range(0, BROKEN, 6):
        codes = contents_codes(rows, rows.matrix(step))
        assert {rows.row(number).base for number in np.flatnonzero(codes & LEFT_OUT)} == out
        assert not {rows.row(one.row).base for one in step_marks(rows, step).unusual} & out
    mask = rows.number(".@in.src_mask")
    assert contents_of(rows.matrix(3), rows.statistics)[mask] == Contents.MASK
    assert "out" not in str(tensor_view(rows, mask or 0, step=3).statistics[0].unusual)


def test_zeros_and_inf_are_told_from_numbers_and_nan(rows: RunRows) -> None:
    codes = contents_of(rows.matrix(BROKEN), rows.statistics)
    held = {row.base: Contents(codes[number]).name for number, row in enumerate(rows.rows) if row.of == "value"}
    assert (held["zero"], held["emb"], held[".@in.gain"]) == ("ZEROS", "NUMBERS", "INF")
    assert held["$loss"] == "NAN"
    assert held["head"] in ("INF", "NAN")


def test_what_training_does_not_reach_is_told_with_since_when(rows: RunRows) -> None:
    early, late = training(rows, 20), training(rows, LATE + 3)
    for states in (early, late):
        assert {states[name] for name in ("side", "side.weight", "side.bias")} == {("no gradient", 0)}
        assert states["frozen.weight"] == states["frozen.bias"] == ("frozen", 0)
        assert states["emb.weight"] == ("not updated", 0)
        assert not {"head", "head.weight", "frozen", "emb", "zero"} & states.keys()
    assert not {"late", "late.weight"} & early.keys()
    assert late["late"] == late["late.weight"] == ("no gradient", LATE)
    texts = {rows.row(mark.row).base: mark.text for mark in step_marks(rows, LATE + 3).training}
    assert texts["late"] == f"no gradient since step {LATE}"
    assert texts["emb.weight"] == "never updated"


def test_limits_of_colors_ignore_explosions_counters_and_other_runs(rows: RunRows) -> None:
    limits = color_limits(rows, "abs_mean", of="value", kind="train")
    assert limits is not None
    steps = [rows.run.at(step) for step in range(BROKEN)]
    counted = [row for row in steps[0].rows if row.of == "value" and row.role in ("value", "parameter", "loss")]
    usual = [[step[row.base].stats["abs_mean"] for row in counted] for step in steps if step.step != SPIKE]
    assert limits.high <= np.max(usual)  # not the 10,000 times larger numbers of one step
    inside = [limits.low <= size <= limits.high for each in usual for size in each if size]
    assert np.mean(inside) > 0.85
    assert color_limits(rows, "abs_mean", of="value", kind="train") == limits
    signed = color_limits(rows, "mean", of="grad", kind="train")
    assert signed is not None
    assert (signed.scale, signed.low) == ("symlog", -signed.high)
    assert color_limits(rows, "abs_mean", of="none", kind="train") is None


def test_a_run_that_exploded_for_good_keeps_the_steps_before_apart(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    matrices = [10.0 ** rng.uniform(-2, 1, (12, 1)) * (1e12 if step >= 10 else 1) for step in range(60)]
    run = written(
        tmp_path / "run", matrices, rows=[Row(f"t{i}", role="value") for i in range(12)], statistics=("norm",)
    )
    limits = color_limits(RunRows(run), "norm", of="value")
    assert limits is not None
    assert 0.005 < limits.low < limits.high < 20
    assert (limits.n_steps, limits.n_left_out) == (60, 50)


def test_inputs_are_named_after_the_parameters_of_forward(rows: RunRows) -> None:
    view = run_view(rows)
    titles = {row.site: row.title for row in view.rows if row.role == "input"}
    assert titles == {".@in.0": "ids", ".@in.src_mask": "src_mask", ".@in.gain": "gain"}
    assert all(not row.title for row in view.rows if row.role != "input")
    graph = run_graph(rows).view
    labels = dict(zip(graph.nodes.site, graph.nodes.label, strict=True))
    assert (labels[".@in.0"], labels[".@in.gain"], labels["layers.2.0"]) == ("ids", "gain", "layers.2.0")
