"""Tensors that were computed several times in a step: by several forward passes, by a loop, in iterations."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cutaway
from cutaway.core.arrays import Raw
from cutaway.core.errors import AmbiguousSiteError, NotSavedError, ShapesDifferError, SiteError
from cutaway.store.format.passes import Pass, Tensors, primary_names
from cutaway.store.format.records import Row
from cutaway.store.runs.run import Run
from cutaway.store.writing.writer import Writer

STATISTICS = ("count", "mean", "std")
Written = dict[tuple[int, str, str, int, int], list[float]]
"""(step, site, of, iteration, pass) → its statistics."""


def n_passes(step: int) -> int:
    return 1 + step % 3


def write(path: Path, rows_at: Callable[[int], list[Row]], *, steps: int = 6, raws: Any = None) -> tuple[Run, Written]:
    """A run whose every number is another one, and what was written by step and pass."""
    written: Written = {}
    with Writer(path, kind="run") as writer:
        for step in range(steps):
            rows = rows_at(step)
            matrix = np.arange(len(rows) * 3, dtype=np.float32).reshape(-1, 3) + 100 * (step + 1)
            matrix[:, 0] = [2 + number for number in range(len(rows))]
            schema = writer.schema(rows, STATISTICS)
            values = [n for n, row in enumerate(rows) if row.of == "value"]
            kept = {n: Raw.of(np.full((2, 3), 10 * step + n, np.float32)) for n in values}
            kind = "long" if step % 2 else "short"
            writer.step(step, schema=schema, kind=kind, matrix=matrix, values=kept if raws is None else raws)
            for row, numbers in zip(rows, matrix.tolist(), strict=True):
                name, _, number = row.site.partition(":") if row.site.startswith("cell") else (row.site, "", "")
                written[step, name, row.of, row.iteration, int(number or 1)] = numbers
    found = cutaway.load(path)
    assert isinstance(found, Run)
    return found, written


def varying(step: int) -> list[Row]:
    """A cell that runs once, twice or three times; its gradients come in the other order."""
    n = n_passes(step)
    sites = ["cell"] if n == 1 else [f"cell:{number}" for number in range(1, n + 1)]
    further = ["out"] if n == 1 else [f"out:{number}" for number in range(1, n + 1)]
    rows = [Row(site, names=(name,)) for site, name in zip(sites, further, strict=True)]
    return [*rows, Row("head"), *(Row(site, "grad") for site in reversed(sites)), Row("head", "grad")]


def rounds(step: int) -> list[Row]:
    """Something before all iterations, then two iterations, the second of which runs the cell twice."""
    return [
        Row("cell"),
        Row("cell", iteration=1),
        Row("cell:1", iteration=2),
        Row("cell:2", iteration=2),
        Row("cell:2", "grad", iteration=2),
    ]


def test_a_tensor_is_one_however_often_it_was_computed(tmp_path: Path) -> None:
    run, written = write(tmp_path / "run", varying)
    assert run.sites == ("cell", "head")
    assert ("cell" in run, "cell:3" in run, "cell:4" in run, "out:2" in run) == (True, True, False, True)
    for of in ("value", "grad"):
        series = run["cell"].other(of)
        assert series.steps.tolist() == list(range(6))
        for column, statistic in enumerate(STATISTICS):
            found = series.stats(statistic)
            assert found.shape == (6, 3)
            for step in range(6):
                wanted = [written[step, "cell", of, 0, k + 1][column] for k in range(n_passes(step))]
                assert found[step].tolist()[: len(wanted)] == wanted
                assert np.isnan(found[step, len(wanted) :]).all()
    assert run["head"].stats("std").shape == (6,)
    assert run["out"].site == "cell"
    assert repr(run["cell"]) == "<Series cell: 6 steps, up to 3 passes each>"


def test_the_width_is_that_of_the_run_whatever_the_kind(tmp_path: Path) -> None:
    run, _ = write(tmp_path / "run", lambda step: varying(2 if step == 1 else 0))
    series = run["cell"]
    for first, kind in enumerate(("short", "long")):
        assert series.where(kind=kind).passes.shape == (3, 3)
        np.testing.assert_array_equal(series.stats("std", kind=kind), series.stats("std")[first::2])


def test_passes_say_what_each_number_is_of(tmp_path: Path) -> None:
    run, written = write(tmp_path / "run", rounds)
    series = run["cell"]
    assert series.passes[0].tolist() == [(0, 1), (1, 1), (2, 1), (2, 2)]
    assert series.passes["iteration"].shape == series.stats("std").shape == (6, 4)
    for step in range(6):
        for column, (iteration, number) in enumerate(series.passes[step].tolist()):
            assert series.stats("mean")[step, column] == written[step, "cell", "value", iteration, number][1]
    once, _ = write(tmp_path / "once", lambda step: [Row("cell")])
    assert once["cell"].passes.tolist() == [(0, 1)] * 6


def test_an_iteration_is_picked_by_its_number_and_a_pass_within_each(tmp_path: Path) -> None:
    run, written = write(tmp_path / "run", rounds)
    series = run["cell"]

    def means(*passes: tuple[int, int]) -> list[list[float]]:
        return [[written[step, "cell", "value", *pass_][1] for pass_ in passes] for step in range(6)]

    assert series.stats("mean", iteration=1).tolist() == [found for [found] in means((1, 1))]
    assert series.stats("mean", iteration=2).tolist() == means((2, 1), (2, 2))
    assert run["cell:1"].stats("mean").tolist() == means((0, 1), (1, 1), (2, 1))
    assert run["cell:2"].stats("mean").tolist() == [found for [found] in means((2, 2))]
    assert run["cell:2"].where(iteration=2).stats("mean").tolist() == [found for [found] in means((2, 2))]
    assert [found.pass_ for found in run.match("*:2")] == [2]
    assert series.iterations == (0, 1, 2)
    with pytest.raises(SiteError, match=r"'cell' has no 'value' in iteration 7. It has: nothing"):
        series.stats("mean", iteration=7)
    with pytest.raises(SiteError, match=r"'cell' never has 3 passes in one iteration of run 'run'; the most is 2"):
        run["cell:3"]


def test_a_gradient_stands_where_its_value_does(tmp_path: Path) -> None:
    run, written = write(tmp_path / "run", rounds)
    found = run["cell"].grad.stats("std")
    assert np.isnan(found[:, :3]).all()
    assert found[:, 3].tolist() == [written[step, "cell", "grad", 2, 2][2] for step in range(6)]
    table = run.table(["std"], at="cell", of="grad")
    assert table[["iteration", "pass"]].values.tolist() == [[2, 2]] * 6, "what has none has no line in a table"


def test_a_band_is_the_mean_by_elements_with_the_smallest_and_the_largest(tmp_path: Path) -> None:
    run, written = write(tmp_path / "run", varying)
    band = run["cell"].band("std")
    for step in range(6):
        rows = [written[step, "cell", "value", 0, k + 1] for k in range(n_passes(step))]
        counts, stds = [row[0] for row in rows], [row[2] for row in rows]
        assert band.values[step] == pytest.approx(np.average(stds, weights=counts))
        assert (band.low[step], band.high[step]) == (min(stds), max(stds))
    assert len(band) == len(band.elapsed) == 6
    head = run["head"].band("std")
    assert head.values.tolist() == head.low.tolist() == head.high.tolist() == run["head"].stats("std").tolist()


def test_a_nan_in_one_pass_is_not_averaged_away(tmp_path: Path) -> None:
    with Writer(tmp_path / "run", kind="run") as writer:
        schema = writer.schema([Row("cell:1"), Row("cell:2")], ["mean"])
        writer.step(0, schema=schema, matrix=np.array([[1], [np.nan]]))
        writer.step(1, schema=schema, matrix=np.array([[1], [3]]))
    band = cutaway.load(tmp_path / "run")["cell"].band("mean")
    assert np.isnan(band.values[0])
    assert band.values[1] == 2, "without counts each pass counts once"


def test_tables_are_long_and_datasets_have_a_dimension(tmp_path: Path) -> None:
    run, written = write(tmp_path / "run", varying)
    table = run.table(["std"], at="cell")
    assert table.columns.tolist() == ["step", "kind", "site", "iteration", "pass", "std"]
    assert [(row.step, row[5]) for row in table.itertuples(index=False)] == [
        (step, written[step, "cell", "value", 0, k + 1][2]) for step in range(6) for k in range(n_passes(step))
    ]
    assert run["cell"].table().columns.tolist() == ["step", "kind", "iteration", "pass", *STATISTICS]
    assert run.at(2).table()["pass"].tolist() == [1, 2, 3, 1, 3, 2, 1, 1]
    whole = run.to_xarray(["std"])
    assert dict(whole.sizes) == {"step": 6, "site": 2, "pass": 3}
    np.testing.assert_array_equal(whole["std"].sel(site="cell"), run["cell"].stats("std"))
    assert np.isnan(whole["std"].sel(site="head")[:, 1:]).all()
    assert whole["pass_in_iteration"].sel(site="cell", step=1).values.tolist() == [1, 2, 0]
    own = run["cell"].to_xarray()
    assert dict(own.sizes) == {"step": 6, "pass": 3}
    assert dict(run.to_xarray(at="head").sizes) == {"step": 6, "site": 1}


def test_values_of_several_passes_are_stacked_or_taken_one_by_one(tmp_path: Path) -> None:
    run, _ = write(tmp_path / "run", varying)
    moment = run.at(2)["cell"]
    with pytest.raises(
        AmbiguousSiteError,
        match=r"'cell' ran 3 times at step 2, and each pass has its own value: pass 1; pass 2; pass 3. Select one "
        r"with .passes\[0\] to .passes\[2\], or get all with .values\.",
    ):
        _ = moment.value
    assert moment.values.tolist() == [np.full((2, 3), 20 + n).tolist() for n in range(3)]
    assert [one.value[0, 0] for one in moment.passes] == [20, 21, 22]
    assert run.at(2)["cell:3"].value[0, 0] == run.at(2)["out:3"].value[0, 0] == 22
    assert (moment.n_passes, moment.pass_, moment.iteration) == (3, None, 0)
    assert (moment.shape, moment.has_value) == ((2, 3), True)
    assert moment.stats["std"].tolist() == run["cell"].stats("std")[2].tolist()
    assert repr(moment) == "<Moment cell at step 2, 3 passes: float32 [2, 3]>"
    single = run.at(0)["cell"]
    assert (single.n_passes, single.pass_, single.value.shape, single.values.shape) == (1, 1, (2, 3), (1, 2, 3))
    assert isinstance(single.stats["std"], float)
    with pytest.raises(SiteError, match=r"'cell' has no such pass at step 0. It has: pass 1"):
        single.where(pass_=2)
    gradient = moment.grad
    assert gradient is not None
    with pytest.raises(NotSavedError, match="recorded only statistics"):
        _ = gradient.values


def test_values_that_cannot_be_stacked_say_so(tmp_path: Path) -> None:
    values = {0: Raw.of(np.zeros((2, 3), np.float32)), 1: Raw.of(np.zeros((1, 3), np.float32))}
    run, _ = write(tmp_path / "run", lambda step: [Row("cell:1"), Row("cell:2")], raws=values)
    moment = run.at(0)["cell"]
    with pytest.raises(
        ShapesDifferError,
        match=r"cannot stack the passes of 'cell' at step 0: pass 1 has shape \[2, 3\] and float32, pass 2 has "
        r"\[1, 3\] and float32. Use \[each.value for each in moment.passes\].",
    ):
        _ = moment.values
    with pytest.raises(ShapesDifferError):
        _ = moment.shape
    assert [one.shape for one in moment.passes] == [(2, 3), (1, 3)]
    assert "several shapes" in repr(moment)


def test_a_name_that_stands_for_one_pass_of_another_tensor_is_a_tensor_of_its_own(tmp_path: Path) -> None:
    run, written = write(tmp_path / "run", lambda step: [Row("cell:1"), Row("cell:2", names=("last",))])
    assert run.sites == ("cell",)
    assert run["last"].stats("std").tolist() == [written[step, "cell", "value", 0, 2][2] for step in range(6)]
    assert run.at(0)["last"].value.tolist() == run.at(0)["cell:2"].value.tolist()
    assert [series.site for series in run.match("**")] == ["cell"], "its tensor is among them already"
    assert [series.site for series in run.match("las*")] == ["last"]


def test_names_are_one_tensor_only_where_they_always_mean_the_same() -> None:
    both, one = Tensors([Row("a", names=("b",))]), Tensors([Row("a")])
    assert primary_names([both]) == {"a": "a", "b": "a"}
    assert primary_names([both, one]) == {"a": "a", "b": "b"}
    assert primary_names([both, Tensors([Row("b")])]) == {"a": "a", "b": "b"}
    parted = Tensors([Row("a", names=("m:1",)), Row("b", names=("m:2",))])
    assert parted.passes("m") == (Pass(0, 1), Pass(0, 2))
    assert primary_names([parted])["m"] == "m"


def test_passes_are_in_the_order_in_which_they_were_computed() -> None:
    tensors = Tensors([Row("a:2", "grad"), Row("a", iteration=1), Row("a:1"), Row("a:2"), Row("a:1", "grad")])
    assert tensors.passes("a") == (Pass(1, 1), Pass(0, 1), Pass(0, 2))
    assert Tensors([Row("a:2", "grad"), Row("a:1", "grad")]).passes("a") == (Pass(0, 1), Pass(0, 2))
    assert tensors.passes("nobody") == ()


def test_a_name_that_only_looks_like_a_pass_is_a_name(tmp_path: Path) -> None:
    odd = ["a:0", "a:1:2", "a: 1", "12:", ":3", f"a:{'9' * 30}"]
    run, _ = write(tmp_path / "run", lambda step: [Row(site) for site in odd], steps=1)
    assert list(run.sites) == odd
    assert [run[site].stats("mean").shape for site in odd] == [(1,)] * len(odd)


def test_exports_have_a_line_for_each_pass(tmp_path: Path) -> None:
    from cutaway.store.exports.export import export

    run, written = write(tmp_path / "run", varying)
    export(run.path, tmp_path / "csv", format="csv", what="statistics", at="cell")
    lines = (tmp_path / "csv" / "statistics.csv").read_text().splitlines()
    assert lines[0] == "step,kind,site,of,iteration,pass,count,mean,std"
    found = {tuple(map(int, (step, number))): float(std) for step, _, _, _, _, number, _, _, std in (
        line.split(",") for line in lines[1:]
    )}  # fmt: skip
    assert found == {
        (step, k + 1): written[step, "cell", "value", 0, k + 1][2] for step in range(6) for k in range(n_passes(step))
    }
    export(run.path, tmp_path / "npy", format="npy", what="values", at="cell:3")
    index = (tmp_path / "npy" / "index.csv").read_text().splitlines()
    assert [line.split(",")[1:7] for line in index[1:]] == [
        [str(step), "long" if step % 2 else "short", "cell", "value", "0", "3"] for step in (2, 5)
    ]
