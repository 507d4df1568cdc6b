"""One number for one tensor, whatever the schemas of a run are."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.views.recordings import trained, written

import cutaway
from cutaway.core.errors import InputError, NotFoundError
from cutaway.store.format.records import Row
from cutaway.store.format.segments import Limits
from cutaway.store.runs.run import Run
from cutaway.store.writing.writer import Options, Writer
from cutaway.views.run.rows import RunRows


@pytest.fixture
def run() -> Run:
    return trained()


def test_a_matrix_holds_what_each_moment_says(run: Run) -> None:
    rows = RunRows(run)
    for number in run.steps.tolist():
        matrix, step = rows.matrix(number), run.at(number)
        assert matrix.shape == (len(rows), len(rows.statistics))
        for at, row in enumerate(rows.rows):
            moment = step[row.site].other(row.of, iteration=row.iteration)
            assert moment is not None
            np.testing.assert_array_equal(matrix[at], np.float32([moment.stats[name] for name in rows.statistics]))


def test_rows_are_tensors_and_neither_samples_nor_tables(run: Run) -> None:
    ofs = {row.of for row in RunRows(run).rows}
    assert ofs == {"value", "grad", "grad/guess", "update"}
    assert {row.of.split("/")[0] for row in run.rows} > {"unit", "samples", "sample"}


def test_a_curve_is_a_column_of_all_matrices(run: Run) -> None:
    rows = RunRows(run)
    number, column = rows.number("h.1.mlp.0", "grad"), rows.statistics.index("std")
    assert number is not None
    for kind in (None, *run.kinds):
        curve = rows.curve(number, "std", kind=kind)
        steps = run.steps if kind is None else run.steps_of(kind)
        assert curve.steps.tolist() == steps.tolist()
        assert curve.values.tolist() == [rows.matrix(step)[number, column] for step in steps.tolist()]


def test_what_is_not_there_is_said(run: Run) -> None:
    rows = RunRows(run)
    assert rows.number("h.1.mlp.9") is None
    with pytest.raises(NotFoundError, match=r"no row 9999: it has \d+, from 0"):
        rows.curve(9999, "std")
    with pytest.raises(InputError, match="no statistic 'sdt'"):
        rows.curve(0, "sdt")
    with pytest.raises(NotFoundError, match="step 77"):
        rows.matrix(77)


cells = st.integers(0, 3).map(lambda number: ("a", "b", "c", "d<b>\n")[number])
schemas = st.lists(
    st.tuples(st.lists(cells, min_size=1, max_size=4, unique=True), st.permutations(["mean", "std", "max"])),
    min_size=1, max_size=4,
)  # fmt: skip


@settings(max_examples=25, deadline=None)
@given(schemas, st.lists(st.integers(0, 3), min_size=1, max_size=8), st.integers(0, 8))
def test_numbers_stay_while_schemas_come_and_go(
    shapes: list[tuple[list[str], list[str]]], order: list[int], n_first: int
) -> None:
    rng = np.random.default_rng(0)
    said: dict[int, dict[tuple[str, str], float]] = {}
    with TemporaryDirectory() as folder:
        path = Path(folder) / "run"
        writer = Writer(path, kind="run")
        known: dict[str, int] = {}
        rows: RunRows | None = None
        for step, which in enumerate(order):
            sites, statistics = shapes[which % len(shapes)]
            matrix = rng.normal(size=(len(sites), len(statistics))).astype(np.float32)
            schema = writer.schema([Row(site) for site in sites], statistics)
            writer.step(step, schema=schema, matrix=matrix)
            said[step] = {
                (site, name): matrix[i, j] for i, site in enumerate(sites) for j, name in enumerate(statistics)
            }
            if step >= n_first:
                writer.flush()
                if rows is None:
                    rows = RunRows(cutaway.load(path))
                else:
                    rows.refresh()
                now = {row.site: number for number, row in enumerate(rows.rows)}
                assert known.items() <= now.items()
                known = now
        writer.close()
        rows = rows or RunRows(cutaway.load(path))
        rows.refresh()
        assert [row.site for row in RunRows(cutaway.load(path)).rows] == [row.site for row in rows.rows]
        for step, cells_of in said.items():
            matrix = rows.matrix(step)
            for i, row in enumerate(rows.rows):
                for j, name in enumerate(rows.statistics):
                    np.testing.assert_equal(matrix[i, j], np.float32(cells_of.get((row.site, name), np.nan)))


def test_a_resumed_session_keeps_the_numbers_of_what_it_takes_the_place_of(tmp_path: Path) -> None:
    first = [Row("old"), Row("both")]
    written(tmp_path / "run", [np.full((2, 3), step) for step in range(4)], rows=first)
    rows = RunRows(cutaway.load(tmp_path / "run"))
    digest = rows.digest
    with Writer(tmp_path / "run", kind="run", resume=True) as writer:
        schema = writer.schema([Row("new"), Row("both")], ["std"])
        writer.step(0, schema=schema, matrix=np.array([[7.0], [8.0]]))
    assert rows.refresh()
    assert rows.digest != digest
    assert [row.site for row in rows.rows] == ["old", "both", "new"]
    assert [row.site for row in RunRows(cutaway.load(tmp_path / "run")).rows] == ["old", "both", "new"]
    np.testing.assert_array_equal(rows.matrix(0)[:, 2], [np.nan, 8, 7])
    assert len(rows.curve(0, "std")) == 0  # none of its steps counts any more
    assert rows.curve(1, "std").values.tolist() == [8.0]


@pytest.mark.parametrize("steps_a_segment", [3, 1000])
@pytest.mark.parametrize("is_closed", [True, False])
def test_history_is_the_last_steps_of_the_kind(tmp_path: Path, steps_a_segment: int, is_closed: bool) -> None:
    rng = np.random.default_rng(1)
    matrices = rng.normal(size=(40, 2, 3)).astype(np.float32)
    kinds = ["long" if step % 3 == 0 else "short" for step in range(40)]
    writer = Writer(tmp_path / "run", kind="run", options=Options(limits=Limits(steps=steps_a_segment)))
    schema = writer.schema([Row("a"), Row("b")], ["mean", "std", "max"])
    for step, matrix in enumerate(matrices):
        writer.step(step, schema=schema, kind=kinds[step], matrix=matrix)
    writer.flush()
    if is_closed:
        writer.close()
    rows = RunRows(cutaway.load(tmp_path / "run"))
    for before, most in ((39, 200), (39, 5), (38, 5), (0, 5)):
        wanted = [step for step in range(before) if kinds[step] == kinds[before]][-most:]
        np.testing.assert_array_equal(rows.history(1, before, most=most), matrices[wanted, 1])
    writer.close()


def test_history_goes_around_what_is_damaged(tmp_path: Path) -> None:
    matrices = [np.full((2, 3), 1000 + step, np.float32) for step in range(20)]
    path = tmp_path / "run"
    writer = Writer(path, kind="run")
    schema = writer.schema([Row("a"), Row("b")], ["mean", "std", "max"])
    for step, matrix in enumerate(matrices):
        writer.step(step, schema=schema, matrix=matrix)
    writer.flush()
    (file,) = path.glob("rank-0/*s0001.part")
    data = bytearray(file.read_bytes())
    data[data.index(matrices[7].tobytes())] ^= 0xFF
    file.write_bytes(bytes(data))
    found = RunRows(cutaway.load(path)).history(1, 19)
    assert np.flatnonzero(np.isnan(found).all(axis=1)).tolist() == [7]
    np.testing.assert_array_equal(np.delete(found, 7, axis=0), np.delete(np.array(matrices)[:19, 1], 7, axis=0))
    with pytest.warns(RuntimeWarning, match="wrong checksum"):
        writer.close()


def test_a_pass_has_one_number_whether_or_not_the_step_had_others(tmp_path: Path) -> None:
    with Writer(tmp_path / "run", kind="run") as writer:
        for step in range(4):
            rows = [Row("cell:1"), Row("cell:2")] if step % 2 else [Row("cell")]
            schema = writer.schema(rows, ["count", "mean"])
            writer.step(step, schema=schema, matrix=np.array([[1, step], [3, 10 + step]])[: len(rows)])
    run = cutaway.load(tmp_path / "run")
    assert isinstance(run, Run)
    rows = RunRows(run)
    first, second = rows.number("cell"), rows.number("cell:2")
    assert (first, second, rows.number("cell:1"), rows.number("cell:3"), len(rows)) == (0, 1, 0, None, 2)
    assert first is not None
    assert second is not None
    assert [rows.matrix(step)[first, 1] for step in range(4)] == [0, 1, 2, 3]
    assert rows.curve(first, "mean").values.tolist() == [0, 1, 2, 3]
    assert rows.curve(second, "mean").steps.tolist() == [1, 3]
    for number in (first, second):
        assert rows.band(number, "mean").values.tolist() == [0, (1 + 3 * 11) / 4, 2, (3 + 3 * 13) / 4]
    assert rows.band(first, "mean", pass_=2).values.tolist() == [11, 13]
    assert [rows.node_name(row) for row in rows.rows] == ["cell:1", "cell:2"]
