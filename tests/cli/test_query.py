"""`cutaway query`: what it prints is what was recorded."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from tests.cli.conftest import Ask
from tests.store.recorded import ROWS, STATISTICS, STEPS, kind_of, loss_of, matrix_of, record, values_of

from cutaway.core.arrays import Raw
from cutaway.store.format.records import Row
from cutaway.store.writing.writer import Writer


@pytest.fixture(scope="module")
def runs(base: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("several")
    shutil.copytree(base, folder / "a")
    record(folder / "b", STEPS[:6])
    return folder


def test_a_curve_has_the_steps_of_its_kind_and_range(ask: Ask, base: Path) -> None:
    arguments = ["query", base, "encoder.0", "--stat", "std", "--kind", "long", "--steps", "20:60", "--of", "grad"]
    (curve,) = ask(*arguments, "--json").document["curves"]
    steps = [step for step in STEPS if 20 <= step < 60 and kind_of(step) == "long"]
    assert curve["steps"] == steps
    assert curve["values"] == [float(matrix_of(step)[2, 1]) for step in steps]
    assert (curve["site"], curve["of"], curve["statistic"]) == ("encoder.0", "grad", "std")
    lines = ask(*arguments).lines
    assert lines[0].split() == ["step", "kind", "std"]
    assert [int(line.split()[0]) for line in lines[1:]] == steps
    assert [float(line.split()[2]) for line in lines[1:]] == pytest.approx(curve["values"], rel=1e-5)


@pytest.mark.parametrize("of", ["grad/aux", "grad@2", "inner_grad"])
def test_every_name_of_a_gradient_can_be_asked_for(of: str, ask: Ask, tmp_path: Path) -> None:
    with Writer(tmp_path / "run", kind="run") as writer:
        rows = [Row("0.weight"), *[Row("0.weight", name) for name in ("grad", "grad/aux", "grad@2", "inner_grad")]]
        schema = writer.schema(rows, ["mean"])
        writer.step(7, schema=schema, matrix=np.arange(5, dtype=np.float32)[:, None])
    (curve,) = ask("query", tmp_path / "run", "0.weight", "--of", of, "--json").document["curves"]
    assert (curve["of"], curve["values"]) == (of, [[row.of for row in rows].index(of)])
    assert ask("info", tmp_path / "run", "--json").document["of"] == {"value": 1, "grad": 3, "inner_grad": 1}


def test_several_tensors_stand_side_by_side(ask: Ask, base: Path) -> None:
    lines = ask("query", base, "encoder.*", "--stat", "mean", "--steps", "10:20").lines
    assert lines[0].split() == ["step", "kind", "encoder.0", "encoder.1"]
    assert lines[1].split()[:2] == ["10", "short"]
    assert float(lines[2].split()[3]) == pytest.approx(float(matrix_of(15)[1, 0]), rel=1e-5)


def test_several_runs_stand_side_by_side(ask: Ask, runs: Path) -> None:
    by_folder = ask("query", runs, "encoder.0", "--stat", "std", "--json").document["curves"]
    by_path = ask("query", runs / "a", runs / "b", "encoder.0", "--stat", "std", "--json").document["curves"]
    assert [one["run"] for one in by_folder] == ["a", "b"]
    assert by_folder == by_path
    assert [len(one["steps"]) for one in by_folder] == [len(STEPS), 6]
    assert ask("query", runs, "encoder.0", "--stat", "std").lines[0].split() == ["step", "kind", "a", "b"]


def test_without_a_tensor_all_are_listed(ask: Ask, base: Path) -> None:
    found = ask("query", base, "--json").document
    assert [(one["site"], one["of"]) for one in found["sites"]] == [(row.site, row.of) for row in ROWS]
    assert found["statistics"] == list(STATISTICS)


def test_a_step_gives_all_its_statistics(ask: Ask, base: Path) -> None:
    (step,) = ask("query", base, "--at-step", "-1", "--json").document["steps"]
    assert (step["step"], step["kind"]) == (95, "long")
    for row, kept in zip(step["rows"], matrix_of(95), strict=False):
        assert list(row["stats"].values()) == kept.tolist()
    assert len(step["rows"]) == len(ROWS)
    (narrow,) = ask("query", base, "tokens", "--at-step", "40", "--json").document["steps"]
    assert [row["site"] for row in narrow["rows"]] == ["tokens"]
    assert "tokens" in ask("query", base, "--at-step", "40").out


def test_values_of_a_tensor_at_a_step(ask: Ask, base: Path) -> None:
    (value,) = ask("query", base, "tokens", "--at-step", "40", "--value", "--json").document["values"]
    assert value["value"] == values_of(40)[3].array().tolist()
    assert (value["dtype"], value["shape"]) == ("int64", [2, 2])
    text = ask("query", base, "half", "--at-step", "40", "--value").lines
    assert text[0] == "base, step 40, half: bfloat16 [3]"


def test_many_values_are_printed_bounded(ask: Ask, tmp_path: Path) -> None:
    with Writer(tmp_path / "big", kind="run") as writer:
        writer.step(0, schema=writer.schema([Row("x")]), values={0: Raw.of(np.arange(200_000))})
    assert len(ask("query", tmp_path / "big", "x", "--value").out) < 2000
    answer = ask("query", tmp_path / "big", "x", "--value", "--json")
    assert answer.code == 2
    assert "cutaway export" in answer.err


def test_scalars_of_several_runs(ask: Ask, runs: Path) -> None:
    found = ask("query", runs, "--scalar", "loss", "--steps", "0:10", "--json").document["scalars"]
    assert [(one["run"], one["steps"], one["values"]) for one in found] == [
        (name, [0, 5], [loss_of(0), loss_of(5)]) for name in "ab"
    ]
    assert ask("query", runs, "--scalar", "l*").lines[0].split() == [
        "step",
        "a",
        "loss",
        "a",
        "lr",
        "b",
        "loss",
        "b",
        "lr",
    ]
    answer = ask("query", runs, "--scalar", "los")
    assert answer.code == 2
    assert "Logged scalars: 'loss'" in answer.err


def test_notes_all_or_by_text(ask: Ask, base: Path) -> None:
    assert [one["text"] for one in ask("query", base, "--notes", "--json").document["notes"]] == [
        "the loss rose",
        "done",
    ]
    (note,) = ask("query", base, "--notes", "LOSS", "--json").document["notes"]
    assert (note["step"], note["level"], note["about"]) == (10, "warning", {"by": 2})
    assert "step 10  warning: the loss rose" in ask("query", base, "--notes", "rose").out


def test_samples_are_found_by_content(ask: Ask, base: Path) -> None:
    found = ask("query", base, "--samples", "CAT", "--json").document["samples"]
    assert [(one["step"], one["number"]) for one in found] == [(step, 0) for step in STEPS if step % 20 == 0]
    assert found[0]["sample"] == {"text": "a cat", "label": 0, "image": {"dtype": "float64", "shape": [4, 4]}}
    assert "a cat" in ask("query", base, "--samples", "cat", "--steps", "20:30").out
    assert ask("query", base, "--samples", "bird").lines == ["No sample contains 'bird'."]


def test_a_session_that_was_shadowed_can_be_asked(ask: Ask, base: Path, tmp_path: Path) -> None:
    shutil.copytree(base, tmp_path / "base")
    record(tmp_path / "base", (60,), resume=True)
    curves = ask("query", tmp_path / "base", "half", "--stat", "std", "--json").document["curves"]
    assert curves[0]["steps"][-1] == 60
    curves = ask("query", tmp_path / "base", "half", "--stat", "std", "--session", "1", "--json").document["curves"]
    assert curves[0]["steps"] == list(STEPS)


def test_damage_is_told_beside_what_can_be_read(ask: Ask, base: Path, tmp_path: Path) -> None:
    shutil.copytree(base, tmp_path / "base")
    (tmp_path / "base" / "rank-0" / "0001-s0001.safetensors").unlink()
    answer = ask("query", tmp_path / "base", "half", "--stat", "std", "--json")
    assert answer.code == 0
    values = answer.document["curves"][0]["values"]
    assert values[:8] == [None] * 8
    assert values[8:] == [float(matrix_of(step)[4, 1]) for step in STEPS[8:]]
    assert "0001-s0001" in answer.err
    assert "0001-s0001" in answer.document["damage"][0]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (["encodr.0"], "Nearest: 'encoder.0'"),
        (["encoder.0", "--stat", "men"], "has no statistic 'men'"),
        (["encoder.0", "--kind", "eval"], "no steps of kind 'eval'"),
        (["--at-step", "7"], "run 'base' did not record step 7. Nearest: 0, 5, 10"),
        (["encoder.1", "--at-step", "5", "--value"], "recorded only statistics"),
        (["encoder.1", "--of", "grad"], "has no 'grad'"),
        (["--rank", "3"], "has no rank 3"),
        (["--value"], "--value needs a tensor"),
    ],
)
def test_what_is_not_there_is_said_in_one_sentence(ask: Ask, base: Path, wrong: list[str], said: str) -> None:
    answer = ask("query", base, *wrong)
    assert answer.code == 2
    assert answer.out == ""
    assert said in answer.err
    assert answer.err.count("\n") == 1


def test_each_pass_has_a_column_and_can_be_asked_for(ask: Ask, tmp_path: Path) -> None:
    with Writer(tmp_path / "run", kind="run") as writer:
        for step in range(2):
            rows = [Row("cell:1"), Row("cell:2")] if step else [Row("cell")]
            schema = writer.schema(rows, ["std"])
            values = {number: Raw.of(np.full(2, number)) for number in range(len(rows))}
            writer.step(step, schema=schema, matrix=np.array([[step], [step + 10]])[: len(rows)], values=values)
    run = tmp_path / "run"
    assert ask("query", run).lines[1].split() == ["run", "cell", "value", "2"]
    lines = ask("query", run, "cell", "--stat", "std").lines
    assert [line.split() for line in lines] == [["step", "pass", "1", "pass", "2"], ["0", "0"], ["1", "1", "11"]]
    curves = ask("query", run, "cell", "--stat", "std", "--json").document["curves"]
    assert [(one["site"], one["iteration"], one["pass"], one["values"]) for one in curves] == [
        ("cell", 0, 1, [0, 1]), ("cell", 0, 2, [11]),
    ]  # fmt: skip
    (second,) = ask("query", run, "cell:2", "--stat", "std", "--json").document["curves"]
    assert second["steps"] == [1]
    found = ask("query", run, "cell", "--at-step", "1", "--value", "--json").document["values"]
    assert [(one["pass"], one["value"]) for one in found] == [(1, [0, 0]), (2, [1, 1])]
    assert ask("ls", run, "--json").document["archives"][0]["n_tensors"] == 1


def test_an_iteration_is_asked_for_by_its_number(ask: Ask, base: Path) -> None:
    curves = ask("query", base, "encoder.0", "--stat", "std", "--iteration", "0", "--json").document["curves"]
    assert [one["iteration"] for one in curves] == [0]
    assert "has no 'value' in iteration 9" in ask("query", base, "encoder.0", "--iteration", "9").err


def test_options_of_curves_without_a_tensor_say_that_they_need_one(ask: Ask, base: Path) -> None:
    for option, value in (("stat", "std"), ("of", "grad"), ("kind", "long"), ("steps", "1:3"), ("iteration", "1")):
        answer = ask("query", base, f"--{option}", value)
        assert (answer.code, answer.out) == (2, "")
        assert f"--{option} needs a tensor, as in `cutaway query {base} TENSOR --{option} …`" in answer.err


def test_an_unknown_tensor_or_statistic_names_the_nearest_and_the_command(ask: Ask, base: Path) -> None:
    unknown = ask("query", base, "tokns")
    assert "no site matches 'tokns' in run 'base'. Nearest: 'tokens'" in unknown.err
    assert f"`cutaway query {base}` lists all" in unknown.err
    assert ask("query", base, "tokns", "--at-step", "-1").err == unknown.err
    for more in ([], ["--at-step", "-1"]):
        answer = ask("query", base, "tokens", "--stat", "maen", *more)
        assert answer.code == 2
        assert "run 'base' has no statistic 'maen'. Nearest: 'mean'" in answer.err
