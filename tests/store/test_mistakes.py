"""Mistakes that a reader of archives is likely to make, and what the messages say."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, get_overloads

import numpy as np
import pytest
from tests.store.recorded import record

import cutaway
from cutaway.core.errors import (
    AmbiguousSiteError,
    ExistsError,
    InputError,
    InputTypeError,
    NotFoundError,
    NotSavedError,
    SiteError,
    VersionError,
)
from cutaway.store import Activations, Head, Options, Raw, Row, Run, Writer, export
from cutaway.store.format.segments import Limits
from cutaway.store.runs.run_set import Runs


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("archives") / "runs"
    for name in ("base", "other"):
        record(folder / name)
    return folder


@pytest.fixture(scope="module")
def run(folder: Path) -> Run:
    loaded = cutaway.load(folder / "base")
    assert isinstance(loaded, Run)
    return loaded


@pytest.fixture(scope="module")
def runs(folder: Path) -> Runs:
    loaded = cutaway.load(folder)
    assert isinstance(loaded, Runs)
    return loaded


def test_the_expected_class_is_returned_or_an_error_says_what_is_there(folder: Path) -> None:
    run = cutaway.load(folder / "base", expect=Run)
    assert run.steps[0] == 0
    assert len(cutaway.load(folder, expect=Runs)) == 2
    with pytest.raises(InputTypeError, match="base holds a Run, and expect= asks for Trace"):
        cutaway.load(folder / "base", expect=cutaway.Trace)
    with pytest.raises(InputTypeError, match="runs holds a Runs, and expect= asks for Run"):
        cutaway.load(folder, expect=Run)
    with pytest.raises(InputTypeError, match=r"expect='run': must be a class, such as cutaway\.Run"):
        cutaway.load(folder, expect="run")  # type: ignore[call-overload]
    # What type checkers read: the expected class, the union for one path, Runs for several.
    assert [each.__annotations__["return"] for each in get_overloads(cutaway.load)] == [
        "Loaded",
        "Run | Runs | Trace | Activations | Result",
        "Runs",
    ]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("model.pt", r"is a file, and cutaway\.load reads folders\. This looks like a checkpoint: .*torch\.load"),
        ("acts.hdf5", r"Activations\.from_neurox\(path\)"),
        ("probe.safetensors", r"cutaway\.probes\.Linear\.load\(path\)"),
    ],
)
def test_a_file_is_not_a_folder(tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / name).touch()
    with pytest.raises(NotFoundError, match=message):
        cutaway.load(tmp_path / name)


def test_the_manifest_stands_for_its_folder(folder: Path) -> None:
    with pytest.raises(NotFoundError, match=r"Pass the folder of the archive: '.*base'"):
        cutaway.load(folder / "base" / "cutaway.json")


@pytest.mark.parametrize(
    ("path", "message"),
    [(["a", "b"], r"got \['a', 'b'\]\. Pass several as arguments: cutaway\.load\(\*paths\)"), (3, "must be text")],
)
def test_a_path_of_another_type(path: Any, message: str) -> None:
    with pytest.raises(InputTypeError, match=message):
        cutaway.load(path)


def test_several_runs_where_one_is_meant(runs: Runs) -> None:
    with pytest.raises(
        AttributeError,
        match=r"2 runs loaded, and \.at belongs to a single run\. .*runs\['base'\]\.at\. Runs: 'base', 'o",
    ):
        runs.at(3)
    with pytest.raises(AttributeError, match="'Runs' object has no attribute 'nonsense'"):
        _ = runs.nonsense
    with pytest.raises(InputTypeError, match=r"runs are selected by name, not by 0\. Runs: 'base', 'other'"):
        runs[0]  # type: ignore[index]


def test_several_runs_have_no_such_thing(runs: Runs) -> None:
    with pytest.raises(SiteError, match=r"none of the 2 runs has 'value' of 'encodr\.0'\. Nearest: 'encoder\.0'"):
        runs.series("encodr.0")
    with pytest.raises(InputError, match=r"none of the 2 runs has the statistic 'sdt'\. Nearest: 'std'"):
        runs.curves("encoder.0", "sdt")
    with pytest.raises(InputError, match=r"none of the 2 runs has the statistic 'sdt'\. Nearest: 'std'"):
        runs.table(["sdt"])
    with pytest.raises(NotFoundError, match=r"has steps of kind 'eval'\. Kinds: 'short', 'long'"):
        runs.curves("encoder.0", "std", kind="eval")


@pytest.mark.parametrize(
    ("site", "message"),
    [
        (
            "encoder.22",
            r"no site matches 'encoder\.22' in run 'base'\. Nearest: 'encoder\.\d', .*run\.sites lists all 4",
        ),
        ("zzz", r"no site matches 'zzz' in run 'base'\. It has: 'encoder\.0', 'encoder\.1', 'tokens', 'half'\."),
    ],
)
def test_a_site_that_was_not_recorded(run: Run, site: str, message: str) -> None:
    with pytest.raises(SiteError, match=message):
        run[site]


def test_a_number_is_no_site(run: Run) -> None:
    with pytest.raises(InputTypeError, match=r"a site must be text, got 3\. Step 3 is run\.at\(3\)"):
        run[3]  # type: ignore[index]
    with pytest.raises(InputTypeError, match="a site must be text"):
        run.at(0)[3]  # type: ignore[index]


def test_a_quantity_that_was_not_recorded(run: Run) -> None:
    with pytest.raises(SiteError, match=r"has no 'grda'\. Did you mean 'grad'\? It has: value, grad"):
        run["encoder.0"].other("grda")
    with pytest.raises(SiteError, match=r"has no 'grads' of '\*\*'\. Did you mean 'grad'\? It has: value, grad"):
        run.table(of="grads")


def test_a_long_list_says_how_many_there_are(tmp_path: Path) -> None:
    names = [f"statistic_{number}" for number in range(20)]
    with Writer(tmp_path / "run", kind="run", options=Options(limits=Limits(steps=8))) as writer:
        writer.step(0, schema=writer.schema([Row("x")], names), matrix=np.zeros((1, 20)))
    run = cutaway.load(tmp_path / "run")
    assert isinstance(run, Run)
    with pytest.raises(InputError, match=r"no statistic 'zz'\. It has: statistic_0, .*statistic_7 and 12 more\."):
        run["x"].stats("zz")


def test_samples_are_counted(run: Run) -> None:
    samples = run.at(0).samples
    with pytest.raises(InputTypeError, match=r"samples\.fields\['text'\]\. Fields: 'text', 'label', 'image'"):
        samples["text"]  # type: ignore[index]
    with pytest.raises(IndexError, match="no sample 2: this step recorded 2 samples"):
        samples[2]


def test_values_where_only_statistics_were_recorded(tmp_path: Path) -> None:
    rows = [Row("x", role="input"), Row("big"), Row("w", role="parameter")]
    with Writer(tmp_path / "run", kind="run") as writer:
        schema = writer.schema(rows, ["mean"])
        writer.step(0, schema=schema, matrix=np.zeros((3, 1)))
        writer.step(1, schema=schema, matrix=np.zeros((3, 1)), values={0: Raw.of(np.zeros((2, 3)))})
    run = cutaway.load(tmp_path / "run")
    assert isinstance(run, Run)
    assert (run.at(0).n_samples, run.at(1).n_samples) == (0, 2)
    with pytest.raises(
        NotSavedError, match=r"recorded only statistics of 'big'\. To get values, record with samples=n"
    ):
        _ = run.at(0)["big"].value
    with pytest.raises(NotSavedError, match=r"but not of this tensor: without a sample dimension, .* 65,536 elements"):
        _ = run.at(1)["big"].value
    with pytest.raises(NotSavedError, match=r"'w'\. To get values, call run\.tensor\(name, tensor\) inside a step"):
        _ = run.at(1)["w"].value


def test_an_archive_of_a_newer_format_is_named(tmp_path: Path) -> None:
    with Writer(tmp_path / "new", kind="run"):
        pass
    manifest = tmp_path / "new" / "cutaway.json"
    manifest.write_bytes(replace(Head.read(manifest.read_bytes()), version=2).packed())
    with pytest.raises(VersionError, match=r"cannot open .*new: .* format version 2; .*pip install --upgrade cutaway"):
        cutaway.load(tmp_path / "new")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"values": {"a": np.zeros((3, 2)), "b": np.zeros((4, 2))}},
            r"same number of rows, .* 3 rows of 'a', 4 rows of",
        ),
        ({"words": ["a"]}, r"got 1 word for 3 rows\. Pass one word per row"),
        ({"words": [["a"], ["b"]]}, r"got 2 words in 2 items for 3 rows"),
        ({"words": "abc"}, r"words= must be a list with one text per row, got the single text 'abc'"),
        ({"items": [0, 1]}, r"items= must be 3 integers, one per row, got int64 \[2\]"),
        ({"items": [0, -1, 1]}, r"items= counts from 0, but it is negative for row 1"),
    ],
)
def test_rows_that_do_not_agree(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Activations.of(options.pop("values", np.zeros((3, 2))), **options)


def test_many_sites_that_do_not_agree_are_summed_up() -> None:
    sites = {f"h.{number}": np.zeros((4 if number == 7 else 3, 2)) for number in range(30)}
    with pytest.raises(InputError, match=r"Got 3 rows of 'h\.0' and 28 others, 4 rows of 'h\.7'\.$"):
        Activations.of(sites)


def test_activations_of_other_sites_are_not_joined() -> None:
    parts = [Activations.of({"a": np.zeros((2, 3))}), Activations.of({"b": np.zeros((2, 4))})]
    with pytest.raises(InputError, match=r"part 1 has other sites than part 0: 'b' \(4 units\), not 'a' \(3 units\)"):
        Activations.join(parts)
    with pytest.raises(InputTypeError, match=r"For a single row, use acts\.rows\(\[1\]\)"):
        parts[0][1]
    with pytest.raises(InputTypeError, match="None is not a path"):
        parts[0].save(None)  # type: ignore[arg-type]


def test_an_export_format_that_is_unknown(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"unknown format 'parqet'\. Did you mean 'parquet'\? Use npy, "):
        export(folder / "base", tmp_path / "out", format="parqet")  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"cannot export 'value'\. Did you mean 'values'\? Use values, "):
        export(folder / "base", tmp_path / "out", format="csv", what="value")  # type: ignore[arg-type]


def test_numpy_reads_curves_and_values(run: Run) -> None:
    curve = run["encoder.0"].curve("std")
    assert np.asarray(curve) is curve.values
    assert np.array(curve) is not curve.values
    assert np.asarray(curve, np.float64).dtype == np.float64
    with pytest.raises(ValueError, match="copy"):
        np.asarray(curve, np.float64, copy=False)
    assert np.array_equal(np.asarray(run.scalars["loss"]), run.scalars["loss"].values, equal_nan=True)
    moment = run.at(40)["encoder.0"]
    assert np.array_equal(np.asarray(moment), moment.value, equal_nan=True)
    assert np.mean(run["encoder.0"].curve("std")) == np.mean(curve.values)


def test_numpy_is_refused_where_several_arrays_are_possible(run: Run, tmp_path: Path) -> None:
    with pytest.raises(InputTypeError, match=r"has 3 statistics: mean, std, max\. Choose one, as in \.stats\('std'\)"):
        np.asarray(run["encoder.0"])
    with pytest.raises(InputTypeError, match=r"band\.values \(the mean\), band\.low or band\.high"):
        np.asarray(run["encoder.0"].band("std"))
    with pytest.raises(InputTypeError, match=r"use step\[site\] for one tensor"):
        np.asarray(run.at(0))
    with Writer(tmp_path / "run", kind="run") as writer:
        schema = writer.schema([Row("x:1"), Row("x:2")], ["mean"])
        writer.step(0, schema=schema, matrix=np.zeros((2, 1)), values={n: Raw.of(np.zeros(3)) for n in (0, 1)})
    twice = cutaway.load(tmp_path / "run")
    assert isinstance(twice, Run)
    assert np.asarray(twice["x"]).tolist() == [[0, 0]], "the only statistic"
    with pytest.raises(AmbiguousSiteError, match=r"'x' ran 2 times at step 0.*\.values\b"):
        np.asarray(twice.at(0)["x"])


def test_a_path_that_is_a_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    for path in (tmp_path / "file", tmp_path / "file" / "run"):
        with pytest.raises(ExistsError, match="is a file, or is inside one"):
            Writer(path, kind="run")
    assert (tmp_path / "file").read_text() == "mine"


def test_steps_without_a_kind_are_named(tmp_path: Path) -> None:
    with Writer(tmp_path / "run", kind="run") as writer:
        writer.step(0, schema=writer.schema([Row("x")], ["mean"]), matrix=np.zeros((1, 1)))
    run = cutaway.load(tmp_path / "run")
    assert isinstance(run, Run)
    with pytest.raises(NotFoundError, match=r"no steps of kind 'eval'. It has: unnamed steps \(kind=''\)\."):
        run.steps_of("eval")
    with pytest.raises(InputTypeError, match=r"open a run with cutaway\.load"):
        Run(str(tmp_path / "run"))  # type: ignore[arg-type]
