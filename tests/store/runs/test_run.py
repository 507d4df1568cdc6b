"""A run, asked what it knows: against what was handed in, kept in plain dicts and pandas."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import numpy as np
import pandas as pd
import pytest

import cutaway
from cutaway import Run
from cutaway.core.arrays import Raw
from cutaway.core.errors import (
    AmbiguousSiteError,
    DamagedError,
    InputError,
    NotFoundError,
    NotSavedError,
    SiteError,
)
from cutaway.store.format.records import Row
from cutaway.store.format.segments import Limits
from cutaway.store.writing.writer import Options, Writer

STATISTICS = ["mean", "std"]
ROWS = [
    Row("embed.weight", role="parameter", names=("head.weight",)),
    Row("encoder.0", role="output"),
    Row("encoder.0", "grad"),
    Row("encoder.0", "grad/aux"),
    Row("encoder.1"),
    Row("encoder.1", "update"),
    Row("loop", iteration=1),
    Row("loop", iteration=2),
    Row("loop", "grad", iteration=2),
]
STEPS = range(0, 100, 5)
OPTIONS = Options(limits=Limits(steps=6))


def kind_of(step: int) -> str:
    return "long" if step % 20 == 0 else "short"


def matrix_of(step: int) -> np.ndarray:
    return np.random.default_rng(step).normal(size=(len(ROWS), len(STATISTICS))).astype(np.float32)


def fill(writer: Writer, steps: range = STEPS) -> None:
    schema = writer.schema(ROWS, STATISTICS)
    for step in steps:
        values = {1: Raw.of(np.full((2, 3), step)), 2: Raw.of(np.array(-step))} if step % 10 == 0 else {}
        writer.step(step, schema=schema, kind=kind_of(step), matrix=matrix_of(step), values=values)
        writer.scalars(step, {"loss": 1 / (step + 1)})


@pytest.fixture(params=["sealed", "growing"])
def run(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Run]:
    with Writer(tmp_path / "base", kind="run", options=OPTIONS) as writer:
        writer.document("config", {"lr": 0.1})
        writer.document("environment", {"python": "3.11"})
        fill(writer)
        writer.note("half", step=50, level="warning", about={"why": 1})
        writer.flush()
        if request.param == "growing":
            yield opened(tmp_path / "base")
    if request.param == "sealed":
        yield opened(tmp_path / "base")


def opened(path: str | Path) -> Run:
    found = cutaway.load(path)
    assert isinstance(found, Run)
    return found


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    """All statistics in one plain table."""
    rows = [
        {"step": step, "kind": kind_of(step), "site": row.site, "of": row.of, "iteration": row.iteration,
         "pass": 1, **dict(zip(STATISTICS, numbers.tolist(), strict=True))}
        for step in STEPS for row, numbers in zip(ROWS, matrix_of(step), strict=True)
    ]  # fmt: skip
    return pd.DataFrame(rows)


def test_every_curve_is_what_was_written(run: Run, frame: pd.DataFrame) -> None:
    for row in ROWS:
        series = run[row.site].other(row.of, iteration=row.iteration)
        mine = frame[(frame.site == row.site) & (frame.of == row.of) & (frame.iteration == row.iteration)]
        for kind in (None, "long", "short"):
            wanted = mine if kind is None else mine[mine.kind == kind]
            for statistic in STATISTICS:
                curve = series.curve(statistic, kind=kind)
                assert curve.steps.tolist() == wanted.step.tolist()
                assert curve.values.tolist() == wanted[statistic].tolist()
                assert series.where(kind=kind).stats(statistic).tolist() == wanted[statistic].tolist()
                assert len(curve) == len(wanted) == len(curve.elapsed)
                assert (np.diff(curve.elapsed) >= 0).all()


def test_every_step_is_what_was_written(run: Run) -> None:
    for step in run:
        assert step.kind == kind_of(step.step)
        assert step.matrix.tolist() == matrix_of(step.step).tolist()
        assert (step.rows, step.statistics) == (tuple(ROWS), tuple(STATISTICS))
        moment = step["encoder.0"]
        assert moment.stats == dict(zip(STATISTICS, matrix_of(step.step)[1].tolist(), strict=True))
        assert moment.has_value == (step.step % 10 == 0)
        if moment.has_value:
            assert moment.value.tolist() == np.full((2, 3), step.step).tolist()
            assert (moment.dtype, moment.shape) == ("int64", (2, 3))
            assert moment.grad is not None
            assert moment.grad.value == -step.step
        else:
            assert (moment.dtype, moment.shape) == (None, None)
            with pytest.raises(NotSavedError, match="recorded only statistics"):
                _ = moment.value


def test_steps_kinds_and_lengths(run: Run) -> None:
    assert run.steps.tolist() == list(STEPS)
    assert run.kinds == ("long", "short")
    assert run.steps_of("long").tolist() == [0, 20, 40, 60, 80]
    assert len(run) == 20
    with pytest.raises(NotFoundError, match=r"no steps of kind 'lnog'. Did you mean 'long'\? It has: 'long', 'short'"):
        run.steps_of("lnog")
    with pytest.raises(NotFoundError, match="no steps of kind 'x'"):
        run["encoder.0"].where(kind="x")
    with pytest.raises(ValueError, match="read-only"):
        run.steps[0] = 5


def test_a_step_is_found_by_number_and_from_the_end(run: Run) -> None:
    assert (run.at(50).step, run.at(-1).step, run.at(-20).step, run.at(np.int64(5)).step) == (50, 95, 0, 5)
    for asked, nearest in ((51, "45, 50, 55"), (10**30, "85, 90, 95")):
        with pytest.raises(
            NotFoundError, match=rf"did not record step {asked}. Nearest: {nearest}\. run\.steps lists all 20\."
        ):
            run.at(asked)
    for asked in (-21, -(10**30)):
        with pytest.raises(NotFoundError, match=r"has 20 recorded steps: run\.at\(-1\) to run\.at\(-20\)"):
            run.at(asked)
    for asked_ in (1.5, "5", None):
        with pytest.raises(InputError, match="a step must be an integer"):
            run.at(asked_)  # type: ignore[arg-type]


def test_a_tensor_is_found_by_name_further_name_and_pattern(run: Run) -> None:
    assert run.sites == ("embed.weight", "encoder.0", "encoder.1", "loop")
    assert run["head.weight"].site == "embed.weight"
    assert run["head.weight"].names == ("head.weight",)
    assert run["embed.weight"].role == "parameter"
    assert [series.site for series in run.match("encoder.*")] == ["encoder.0", "encoder.1"]
    assert [series.site for series in run.match("**")] == list(run.sites)
    assert [series.site for series in run.match("*.weight")] == ["embed.weight"], "once, though two names fit"
    assert "encoder.*" in run
    assert "encoder.7" not in run
    assert 7 not in run
    assert run.match("nothing") == ()
    with pytest.raises(
        SiteError, match=r"no site matches 'encoder.01' in run 'base'. Nearest: 'encoder.1', 'encoder.0'"
    ):
        run["encoder.01"]
    with pytest.raises(
        AmbiguousSiteError, match=r"'encoder.\*' matches 2 tensors of run 'base': 'encoder.0', 'encoder.1'"
    ):
        run["encoder.*"]
    for odd in ("", "a:0", ":" + "9" * 5000):
        with pytest.raises(SiteError):
            run[odd]


def test_gradients_updates_and_iterations(run: Run) -> None:
    series = run["encoder.0"]
    assert series.has == ("value", "grad", "grad/aux")
    assert series.grad.of == "grad"
    assert series.other("grad/aux").stats("mean").tolist() == [float(matrix_of(step)[3, 0]) for step in STEPS]
    with pytest.raises(SiteError, match=r"'encoder.0' of run 'base' has no 'update'. It has: value, grad"):
        _ = series.update
    assert run["encoder.1"].update.stats("std").tolist() == [float(matrix_of(step)[5, 1]) for step in STEPS]
    loop = run["loop"]
    assert (loop.iteration, loop.iterations, loop.where(iteration=1).of_("grad")) == (None, (1, 2), None)
    assert loop.other("value", iteration=2).grad.stats("mean").tolist() == [float(matrix_of(s)[8, 0]) for s in STEPS]
    moment = run.at(0)["loop"]
    assert (moment.iteration, moment.pass_, moment.n_passes, moment.update) == (None, 1, 2, None)
    assert (moment.passes[0].iteration, moment.passes[0].grad) == (1, None)
    second = moment.other("value", iteration=2)
    assert second is not None
    assert second.stats["mean"] == matrix_of(0)[7, 0]
    assert second.grad is not None


def test_a_moment_that_was_not_recorded_names_those_that_were(run: Run) -> None:
    step = run.at(0)
    assert [moment.site for moment in step] == list(run.sites)
    assert ("encoder.0" in step, "head.weight" in step, "encoder" in step, 3 in step) == (True, True, False, False)
    with pytest.raises(SiteError, match=r"step 0 did not record 'encoder.9'. Nearest: 'encoder.1', 'encoder.0'"):
        step["encoder.9"]
    assert repr(step["head.weight"]) == "<Moment embed.weight at step 0: statistics only>"
    assert repr(step["encoder.0"]) == "<Moment encoder.0 at step 0: int64 [2, 3]>"
    assert repr(step) == "<Step 0 (long): 4 tensors, 1 of them with values>"


def test_statistics_that_are_not_there_say_which_are(run: Run) -> None:
    with pytest.raises(KeyError, match=r"there is no statistic 'mena'.* 'mean'"):
        run.at(0)[ROWS[0].site].stats["mena"]
    with pytest.raises(InputError, match=r"run 'base' has no statistic 'stdd'. Nearest: 'std'"):
        run["encoder.0"].stats("stdd")
    with pytest.raises(InputError, match=r"no statistic 'zebra'. It has: mean, std"):
        run.table("zebra")


def test_tables_are_what_was_written(run: Run, frame: pd.DataFrame) -> None:
    found = run.table()
    wanted = frame[frame.of == "value"].drop(columns=["of"])
    order = ["step", "site", "iteration"]
    pd.testing.assert_frame_equal(
        found.sort_values(order).reset_index(drop=True), wanted.sort_values(order).reset_index(drop=True)
    )
    assert found.step.is_monotonic_increasing
    assert run.table("std", at="encoder.*").columns.tolist() == [*("step", "kind", "site", "iteration", "pass", "std")]
    assert set(run.table(of="grad").site) == {"encoder.0", "loop"}
    assert set(run.table(at="loop", of="grad").iteration) == {2}, "the first iteration has no gradient"
    with pytest.raises(SiteError, match=r"has no 'grad' of 'encoder.1'"):
        run.table(at="encoder.1", of="grad")
    mine = run["encoder.1"].where(kind="long").table()
    assert mine.to_dict("list") == {
        "step": [0, 20, 40, 60, 80], "kind": ["long"] * 5, "iteration": [0] * 5, "pass": [1] * 5,
        "mean": frame[(frame.site == "encoder.1") & (frame.of == "value") & (frame.kind == "long")]["mean"].tolist(),
        "std": frame[(frame.site == "encoder.1") & (frame.of == "value") & (frame.kind == "long")]["std"].tolist(),
    }  # fmt: skip
    step = run.at(5).table()
    assert step.site.tolist() == [row.site for row in ROWS]
    assert step["mean"].tolist() == matrix_of(5)[:, 0].tolist()


def test_datasets_are_what_was_written(run: Run) -> None:
    found = run.to_xarray("mean", at="encoder.*")
    assert found["mean"].dims == ("step", "site")
    assert found["mean"].sel(site="encoder.1").values.tolist() == [float(matrix_of(step)[4, 0]) for step in STEPS]
    mine = run["encoder.0"].where(kind="long").to_xarray()
    assert mine.kind.values.tolist() == ["long"] * 5
    assert mine["std"].sel(step=40) == matrix_of(40)[1, 1]


def test_scalars_notes_and_documents(run: Run) -> None:
    assert list(run.scalars) == ["loss"]
    assert run.scalars["loss"].values.tolist() == [1 / (step + 1) for step in STEPS]
    assert run.scalars.table().columns.tolist() == ["step", "name", "value"]
    with pytest.raises(NotFoundError, match=r"no scalar 'lss' was logged. Nearest: 'loss'"):
        run.scalars["lss"]
    assert run.scalars.get("lss") is None
    note = run.notes[0]
    assert (note.text, note.step, note.level, note.about) == ("half", 50, "warning", {"why": 1})
    assert (run.config, run.environment) == ({"lr": 0.1}, {"python": "3.11"})
    assert (run.damage, run.losses) == ((), ())


def test_it_shows_itself(run: Run) -> None:
    live = ", live" if run.is_live else ""
    assert repr(run) == f"<Run base: 20 recorded steps 0–95, kinds 'long', 'short', 4 tensors, 1 scalar{live}>"
    assert repr(run["encoder.0"].grad.where(kind="long")) == "<Series encoder.0 grad: 5 steps of kind 'long'>"


# sessions, ranks, refreshing


def test_a_resumed_session_takes_the_place_of_what_it_ran_again(tmp_path: Path) -> None:
    path = tmp_path / "run"
    with Writer(path, kind="run", options=OPTIONS) as writer:
        fill(writer)
    run = opened(path)
    before, old = run["encoder.0"], run.session(1)
    with Writer(path, kind="run", resume=True, options=OPTIONS) as writer:
        schema = writer.schema([Row("encoder.0"), Row("new")], ["std", "max"], dtype="float64")
        for step in range(42, 60, 6):
            writer.step(step, schema=schema, kind="again", matrix=np.full((2, 2), 1e-9 + step))
            writer.scalars(step, {"loss": float(step)})
    assert run.steps.tolist() == list(STEPS), "a run is as it was when it was opened"
    assert run.refresh() is True
    assert run.refresh() is False
    kept = [step for step in STEPS if step < 42]
    assert run.steps.tolist() == [*kept, 42, 48, 54]
    assert [run.at(step).session for step in (40, 42)] == [1, 2]
    for series in (before, run["encoder.0"]):
        assert series.steps.tolist() == [*kept, 42, 48, 54], "also one that was at hand before"
        assert series.stats("std").tolist() == [float(matrix_of(s)[1, 1]) for s in kept] + [
            42 + 1e-9,
            48 + 1e-9,
            54 + 1e-9,
        ]
        assert np.isnan(series.stats("mean")[-3:]).all()
        assert series.stats("max", kind="again").tolist() == [42 + 1e-9, 48 + 1e-9, 54 + 1e-9]
    assert run["new"].steps.tolist() == [42, 48, 54]
    assert run.scalars["loss"].steps.tolist() == [*kept, 42, 48, 54]
    assert (run.kinds, run.statistics) == (("long", "short", "again"), ("mean", "std", "max"))
    assert old.steps.tolist() == run.session(1).steps.tolist() == list(STEPS)
    assert old.scalars["loss"].steps.tolist() == list(STEPS)
    assert run.session(2).sites == ("encoder.0", "new")
    dataset = run.to_xarray("max")
    assert dataset["max"].dtype == np.float64
    assert dataset["max"].sel(site="new", step=42)[0] == 42 + 1e-9
    with pytest.raises(NotFoundError, match=r"no session 3. It has: 1, 2"):
        run.session(3)


def test_two_views_of_a_run_each_see_what_is_new(tmp_path: Path) -> None:
    with Writer(tmp_path / "run", kind="run") as writer:
        fill(writer, range(0, 10, 5))
        writer.flush()
        run = opened(tmp_path / "run")
        first = run.session(1)
        assert len(first) == 2
        fill(writer, range(10, 20, 5))
        writer.flush()
        assert run.refresh()
        assert first.refresh(), "though the files were read already"
        assert len(run) == len(first) == 4


def test_ranks_stand_apart(tmp_path: Path) -> None:
    for rank in (0, 1):
        with Writer(tmp_path / "run", kind="run", rank=rank, world_size=2, resume=True) as writer:
            writer.step(rank, schema=writer.schema([Row(f"on.{rank}")], ["mean"]), matrix=np.array([[float(rank)]]))
    run = opened(tmp_path / "run")
    assert (run.ranks, run.sites, run.rank(1).sites, run.rank(1).steps.tolist()) == ((0, 1), ("on.0",), ("on.1",), [1])
    assert run.rank(1)["on.1"].stats("mean").tolist() == [1.0]
    with pytest.raises(NotFoundError, match=r"no rank 2. It has: 0, 1"):
        run.rank(2)


def test_following_gives_each_new_step_once_until_the_end(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "run", kind="run", options=OPTIONS)
    fill(writer, range(0, 20, 5))
    writer.flush()
    run = opened(tmp_path / "run")

    def go_on() -> None:
        fill(writer, range(20, 60, 5))
        writer.close()

    thread = Thread(target=go_on)
    thread.start()
    found = []
    for step in run.follow(every=0.01, timeout=30):
        found.append((step.step, step["encoder.0"].stats["mean"]))
        run.refresh()  # whoever follows may look by himself, too
    thread.join()
    assert found == [(step, matrix_of(step)[1, 0]) for step in range(20, 60, 5)]


def test_following_sees_a_resumed_session_run_steps_again(tmp_path: Path) -> None:
    with Writer(tmp_path / "run", kind="run") as writer:
        fill(writer, range(0, 50, 5))
    run = opened(tmp_path / "run")
    with Writer(tmp_path / "run", kind="run", resume=True) as writer:
        fill(writer, range(20, 40, 5))
        writer.flush()
        found = [step.step for step in run.follow(every=0.01, timeout=0)]
    assert found == [20, 25, 30, 35]


def test_an_empty_run_says_so(tmp_path: Path) -> None:
    with Writer(tmp_path / "run", kind="run"):
        pass
    run = opened(tmp_path / "run")
    assert (len(run), run.sites, run.kinds, run.notes, repr(run)) == (0, (), (), (), "<Run run: no recorded steps>")
    with pytest.raises(NotFoundError, match="no recorded steps yet"):
        run.at(-1)
    assert list(run) == list(run.follow(timeout=0)) == []


def test_names_that_are_no_whole_text_come_into_tables_all_the_same(tmp_path: Path) -> None:
    with Writer(tmp_path / "run", kind="run") as writer:
        writer.step(1, schema=writer.schema([Row("a\ud800")], ["\udc00"]), kind="\ud801", matrix=np.ones((1, 1)))
        writer.scalars(1, {"\ud802": 1.0})
    run = opened(tmp_path / "run")
    assert run["a\ud800"].stats("\udc00").tolist() == [1]
    for table in (run.table(), run["a\ud800"].table(), run.at(1).table(), run.scalars.table()):
        assert len(table) == 1
    assert run.to_xarray().sel(site=r"a\ud800")[r"\udc00"].values.tolist() == [1]
    assert run["a\ud800"].to_xarray()[r"\udc00"].values.tolist() == [1]


# damage


def test_damaged_statistics_are_missing_and_the_rest_is_there(tmp_path: Path) -> None:
    with Writer(tmp_path / "run", kind="run", options=OPTIONS) as writer:
        fill(writer)
    sealed = sorted((tmp_path / "run" / "rank-0").glob("*-s*.safetensors"))
    assert len(sealed) == 4
    data = bytearray(sealed[1].read_bytes())
    data[-1] ^= 1  # the last number of the last row: "loop" grad, step 55
    sealed[1].write_bytes(bytes(data))
    sealed[2].unlink()
    run = opened(tmp_path / "run")
    curve = run["encoder.0"].stats("mean")
    assert np.isnan(curve).tolist() == [12 <= number < 18 for number in range(20)]
    assert len(run.damage) == 1
    assert "0001-s0003.safetensors is missing" in run.damage[0]
    hit = run["loop"].other("grad", iteration=2).stats("std")
    assert np.isnan(hit).tolist() == [6 <= number < 18 for number in range(20)]
    assert "row 8 of statistics/1/0 has a wrong checksum" in run.damage[1]
    assert run.at(50).matrix.tolist() == matrix_of(50).tolist()
    with pytest.raises(DamagedError, match="statistics of step 55 have a wrong checksum"):
        _ = run.at(55).matrix
    for path in sealed:
        path.unlink(missing_ok=True)
    with pytest.raises(DamagedError, match="is missing"):
        opened(tmp_path / "run")["encoder.0"].stats("mean")


def test_a_changed_value_is_noticed(run: Run) -> None:
    for path in (Path(run.path) / "rank-0").glob("*-v*"):
        data = bytearray(path.read_bytes())
        data[-1] ^= 1
        path.write_bytes(bytes(data))
    with pytest.raises(DamagedError, match="bytes of values have a wrong checksum"):
        [step["encoder.0"].grad.value for step in run if step["encoder.0"].has_value]  # type: ignore[union-attr]


def test_loading_needs_neither_torch_nor_pandas_nor_xarray(tmp_path: Path) -> None:
    with Writer(tmp_path / "run", kind="run") as writer:
        fill(writer)
    code = f"""
import sys, cutaway
run = cutaway.load({str(tmp_path / "run")!r})
run["encoder.0"].stats("std"); run.at(0)["encoder.0"].value; run.scalars["loss"]; repr(run)
cutaway.load({str(tmp_path)!r})
found = {{"torch", "pandas", "xarray", "safetensors"}} & set(sys.modules)
assert not found, found
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_names_of_gradients_are_read_as_they_were_written(tmp_path: Path) -> None:
    # "grad/2" of an old run is a second optimizer step or a loss named "2": the reader keeps it as it is.
    ofs = ["value", "grad", "grad/2", "update/2", "grad@2", "inner_grad", "inner_grad@2", "grad/a@2", "grad/a/b"]
    with Writer(tmp_path / "run", kind="run") as writer:
        schema = writer.schema([Row("0.weight", of) for of in ofs], ["mean"])
        values = {number: Raw.of(np.array([number])) for number in range(len(ofs))}
        writer.step(0, schema=schema, matrix=np.arange(len(ofs), dtype=np.float32)[:, None], values=values)
    series = opened(tmp_path / "run")["0.weight"]
    assert series.has == tuple(ofs)
    for number, of in enumerate(ofs):
        assert series.other(of).stats("mean").tolist() == [number]
        moment = series.run.at(0)["0.weight"].other(of)
        assert moment is not None
        assert moment.value.tolist() == [number]
    assert series.grad.of == "grad"
