"""Mistakes in how a recorder is called: each message says what was asked, what was found and what to do."""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import cutaway
from cutaway.core.errors import ExistsError, InputError, InputTypeError
from cutaway.recording.recorder import Recorder
from cutaway.recording.settings import Settings
from cutaway.store.runs.run import Run


def mlp() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))


def recorded(path: Path, inside: Callable[[Any, Any], object] | None = None, **options: Any) -> Run:
    """A run of one step with a batch of four, in which `inside` gets the recorder and the output of the model."""
    model = mlp()
    with cutaway.record(path, model, **{"every": 1, **options}) as run:
        with run.step():
            output = model(torch.randn(4, 4))
            if inside is not None:
                inside(run, output)
            output.sum().backward()
    return cutaway.load(path)


def notes(run: Run) -> str:
    return "\n".join(note.text for note in run.notes)


# the signature


def test_every_setting_is_written_out_in_the_signature() -> None:
    parameters = inspect.signature(cutaway.record).parameters
    assert not [name for name, each in parameters.items() if each.kind is inspect.Parameter.VAR_KEYWORD]
    assert {field.name for field in fields(Settings)} == set(parameters) - {"path", "model", "every", "resume"}
    plain = {field.name: field.default for field in fields(Settings) if field.name not in ("at", "limits")}
    assert plain == {name: parameters[name].default for name in plain}


@pytest.mark.parametrize("function", [cutaway.record, cutaway.show, *vars(Recorder).values()])
def test_every_argument_has_its_line(function: Any) -> None:
    function = inspect.unwrap(function) if callable(function) else function
    name = getattr(function, "__name__", "_")
    names = set(inspect.signature(function).parameters) - {"self"} if not name.startswith("_") else set()
    text = inspect.getdoc(function) or ""
    assert [each for each in names if not re.search(rf"^    {each}: ", text, re.MULTILINE)] == []


# record()


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (lambda: mlp().parameters(), "got a generator as model.*Pass the model itself instead of its parameters"),
        (lambda: dict(mlp().named_parameters()), "got a Parameter as model '0.weight'.*Pass the model itself"),
        (lambda: torch.optim.SGD(mlp().parameters(), lr=0.1), "got a SGD as model.*its optimizers"),
        (lambda: nn.Linear, r"got the class Linear as model.*Create an instance first: Linear\(…\)"),
        (lambda: 3, r"got an int as model: pass a torch\.nn\.Module, or a dict of modules by name"),
    ],
)
def test_what_is_no_model_is_refused_with_what_to_pass(model: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputTypeError, match=message):
        cutaway.record(tmp_path / "run", model())
    assert not (tmp_path / "run").exists()


def test_swapped_arguments_are_shown_in_order() -> None:
    with pytest.raises(InputTypeError, match=r"Swap them: cutaway\.record\('runs/base', model\)"):
        cutaway.record(mlp(), "runs/base")  # type: ignore[arg-type]
    with pytest.raises(InputTypeError, match="got None as path: pass the folder of the run"):
        cutaway.record(None, mlp())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"every": "50"}, r"every='50' is not a valid schedule. Write a number without quotes: every=50\.$"),
        ({"every": -1}, "every=-1 is negative: pass 1 for every step"),
        ({"every": 0.01}, 'every=0.01 is a float.* write "1%"'),
        ({"samples": -1}, "samples=-1 is negative: pass how many samples"),
        ({"samples": [0, -2]}, "samples= lists index -2: indices of samples start at 0"),
        ({"samples": 1.5}, "samples=1.5 is a float: pass how many"),
        ({"samples": "all"}, "samples='all' is a str: pass how many"),
        ({"statistics": "ful"}, "pass 'core' or 'full'. Did you mean 'full'"),
        ({"at": []}, r"at=\[\] names no tensor.*omit at= to record everything"),
        ({"at": 3}, "at= got an int: pass a site, a pattern, or a list"),
        ({"at": nn.Linear(2, 2)}, "at= got a Linear: pass a site"),
        ({"at": "0#3"}, "at='0#3' names a unit.*pass '0'.*statistics='full'"),
        ({"batch_dim": "0"}, "batch_dim='0' is a str: pass an int"),
        ({"unit_dim": 1}, "unit_dim=1 is an int: pass a mapping"),
        ({"most_update_bytes": "2GB"}, "most_update_bytes='2GB' is a str: pass a number of bytes"),
        ({"resume": "Never"}, r"resume='Never' is not valid: pass False .* Did you mean 'never'"),
        ({"resume": 1}, "resume=1 is not valid: pass False"),
        ({"limits": 5}, r"limits=5 is an int: pass a cutaway\.store\.Limits"),
    ],
)
def test_a_wrong_option_is_refused_before_anything_is_written(
    options: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=message):
        cutaway.record(tmp_path / "run", mlp(), **options)
    assert not (tmp_path / "run").exists()


def test_samples_may_be_numpy_or_torch_integers(tmp_path: Path) -> None:
    for number, samples in enumerate((np.int64(2), np.arange(2), torch.arange(2), range(2))):
        run = recorded(tmp_path / str(number), samples=samples)
        assert run.at(0)["0"].value.shape == (2, 8)


def test_every_0_warns_at_once(tmp_path: Path) -> None:
    with pytest.warns(RuntimeWarning, match="every=0 records no step: pass 1 for every step, or None"):
        cutaway.record(tmp_path / "run", mlp(), every=0).close()


def test_a_path_that_holds_a_run_says_how_to_go_on(tmp_path: Path) -> None:
    recorded(tmp_path / "run")
    with pytest.raises(ExistsError, match=r"already has a run.*Continue it with resume=True, or use another path"):
        cutaway.record(tmp_path / "run", mlp(), resume="never")
    os.makedirs(tmp_path / "other")
    (tmp_path / "other" / "notes.txt").write_text("mine")
    with pytest.raises(ExistsError, match=r"has other files \(notes.txt\)"):
        cutaway.record(tmp_path / "other", mlp())


# what matches nothing


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"at": "0.wieght"}, "at='0.wieght' matches no site of the first recorded step. Nearest: '0.weight'"),
        ({"at": "head"}, "at='head' matches no site.*It has 9 sites: '0.weight', '0.bias', .* and 5 more"),
        ({"at": "0/lin"}, "at='0/lin' matches no site.*Nearest: '0/linear'"),
        ({"unit_dim": {"heed": 1}}, "unit_dim names 'heed', which matches no output"),
        ({"samples": [0, 9]}, "sample 9 is not stored, because the batch has 4 samples"),
        ({"samples": [7, 8]}, "samples 7, 8 are not stored"),
    ],
)
def test_what_matches_nothing_warns(options: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.warns(RuntimeWarning, match=message):
        run = recorded(tmp_path / "run", **options)
    assert len(run.notes) == 1


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_a_later_smaller_batch_lacks_samples_with_a_note_only(tmp_path: Path) -> None:
    model = mlp()
    with cutaway.record(tmp_path / "run", model, every=1, samples=[0, 3]) as run:
        for batch_size in (4, 2):
            with run.step():
                model(torch.randn(batch_size, 4))
    assert "sample 3 is not stored, because the batch has 2 samples" in notes(cutaway.load(tmp_path / "run"))


def test_a_batch_dimension_that_no_input_has_is_noted(tmp_path: Path) -> None:
    assert "batch_dim=7 is out of range of every model input" in notes(recorded(tmp_path / "run", batch_dim=7))


# steps


def test_a_step_that_is_not_called_says_to_call_it(tmp_path: Path) -> None:
    with pytest.raises(TypeError) as raised, cutaway.record(tmp_path / "run", mlp()) as run:
        with run.step:  # type: ignore[attr-defined]
            pass
    assert "Call the method: `with run.step():`." in raised.value.__notes__


def test_a_step_without_with_warns_at_the_next_one(tmp_path: Path) -> None:
    with cutaway.record(tmp_path / "run", mlp(), every=1) as run:
        run.step()
        with pytest.warns(RuntimeWarning, match=r"without `with`, so the step is not recorded: write"):
            with run.step():
                run.tensor("x", torch.ones(2))


def test_a_number_as_kind_warns_because_every_step_would_be_recorded(tmp_path: Path) -> None:
    with cutaway.record(tmp_path / "run", mlp()) as run:
        with pytest.warns(RuntimeWarning, match=r"run.step\(5\) got an int as kind: pass number=5"):
            with run.step(5):  # type: ignore[arg-type]
                run.tensor("x", torch.ones(2))


def test_a_schedule_that_chose_no_step_warns_at_the_end(tmp_path: Path) -> None:
    run = cutaway.record(tmp_path / "run", mlp(), every={"eval": 1})
    for _ in range(3):
        with run.step("train"):
            pass
    with pytest.warns(RuntimeWarning, match=r"chose none of 3 steps. Their kinds: 'train'"):
        run.__exit__(None, None, None)


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_no_step_is_fine_if_none_was_wanted(tmp_path: Path) -> None:
    with cutaway.record(tmp_path / "run", mlp(), every=None) as run:
        with run.step():
            pass


def test_a_model_that_is_never_called_warns(tmp_path: Path) -> None:
    model, other = mlp(), mlp()
    run = cutaway.record(tmp_path / "run", other, every=1)
    with run.step():
        loss = model(torch.randn(4, 4)).sum()
        loss.backward()
        run.log(loss=loss)
    with pytest.warns(RuntimeWarning, match=r"never called inside a recorded step.*Pass the model that"):
        run.__exit__(None, None, None)


# inside a step


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda run, y: run.log("loss"), r"run.log\(\) got a str. Name each number: run.log\(loss=0.1\)"),
        (lambda run, y: run.log(a=None, b=y), "'a' is None; log numbers.* 'b' has 12 elements"),
        (lambda run, y: run.tensor(y, "hidden"), r"got a Tensor as name. The name comes first: run.tensor\('hidden'"),
        (lambda run, y: run.tensor("x", np.ones(3)), r"run.tensor\('x'\) got a ndarray: pass a torch.Tensor"),
        (lambda run, y: run.tensor("x", y, role="targt"), "role='targt'.*Did you mean 'target'"),
        (lambda run, y: run.tensor("x", y, batch_dim=9), r"batch_dim=9\) is out of range: .* 2 dimensions, \[4, 3\]"),
    ],
)
def test_a_wrong_call_inside_a_step_warns_once_and_training_goes_on(
    call: Callable[[Any, Any], object], message: str, tmp_path: Path
) -> None:
    with pytest.warns(RuntimeWarning, match=message) as warned:
        recorded(tmp_path / "run", call, samples=2)
    assert len([each for each in warned if each.category is RuntimeWarning]) == 1


@pytest.mark.parametrize(
    ("call", "hint"),
    [
        (lambda run, y: run.log("loss", 1), "Name each number: run.log(loss=0.1), or pass a dict"),
        (lambda run, y: run.samples(["a"]), "Name each field: run.samples(text=texts, label=labels)."),
    ],
)
def test_positional_arguments_that_need_names_show_the_call(
    call: Callable[[Any, Any], object], hint: str, tmp_path: Path
) -> None:
    with pytest.raises(TypeError) as raised:
        recorded(tmp_path / "run", call)
    assert raised.value.__notes__[0].startswith(hint)


@pytest.mark.parametrize("text", ["abcd", ["a"]])
def test_a_field_of_another_length_than_the_batch_is_a_mistake_and_not_stored(text: Any, tmp_path: Path) -> None:
    message = r"mistake in the program: run.samples\(text=\) has 1 entry, but the batch has 4 samples.*batch_dim="
    with pytest.warns(RuntimeWarning, match=message):
        run = recorded(tmp_path / "run", lambda run, y: run.samples(text=text), samples=2)
    assert "run.samples(text=) has 1 entry, but the batch has 4 samples" in notes(run)
    assert run.at(0).samples.text is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_dim": "0"}, r"run.tensor\('t', batch_dim=\) got a str: pass an int"),
        ({"unit_dim": 1.5}, r"run.tensor\('t', unit_dim=\) got a float: pass an int"),
        ({"unit_dim": (0, None)}, r"run.tensor\('t', unit_dim=\) lists None"),
        ({"node": ["0"]}, r"run.tensor\('t', node=\) got a list: pass a str"),
        ({"part": 3}, r"run.tensor\('t', part=\) got an int: pass a str"),
    ],
)
def test_a_wrong_option_of_a_tensor_is_a_mistake_and_stops_nothing(
    options: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.warns(RuntimeWarning, match=f"mistake in the program: {message}"):
        run = recorded(tmp_path / "run", lambda run, y: run.tensor("t", y, **options))
    assert "$t" not in run.sites


def test_a_schedule_that_raises_is_a_mistake_of_the_program(tmp_path: Path) -> None:
    def every(step: int, kind: str) -> bool:
        return bool(1 // step)

    with pytest.warns(RuntimeWarning, match="mistake in the program: every= raised ZeroDivisionError: "):
        recorded(tmp_path / "run", every=every)


def test_a_named_tensor_that_is_asked_for_but_never_recorded(tmp_path: Path) -> None:
    with pytest.warns(RuntimeWarning, match=r"at='\$hiden' matches no tensor of the run.*Nearest: '\$hidden'"):
        recorded(tmp_path / "run", lambda run, y: run.tensor("hidden", y), at=["0", "$hiden"])


def test_a_batch_size_that_is_no_number_is_said(tmp_path: Path) -> None:
    with cutaway.record(tmp_path / "run", mlp(), every=1) as run:
        with pytest.warns(RuntimeWarning, match=r"run.step\(batch_size=\) got a str: pass the number of samples"):
            with run.step(batch_size="four"):  # type: ignore[arg-type]
                pass


def test_a_tensor_is_found_by_its_name_as_typed(tmp_path: Path) -> None:
    model = mlp()
    with cutaway.record(tmp_path / "run", model, every=1, samples=2) as run:
        for _ in range(2):
            with run.step():
                hidden = model(torch.randn(3, 4))
                run.tensor("train/hidden v1.0", hidden)
                run.tensor("a%2Fb", hidden * 2)
                run.tensor("plain", hidden * 3)
    found = cutaway.load(tmp_path / "run")
    for site in ("$train/hidden v1.0", "$train/hidden v1%2E0"):
        assert found[site].stats("norm").tolist() == found["."].stats("norm").tolist()
        assert np.array_equal(found.at(1)[site].value, found.at(1)["."].value)
        assert site in found
        assert site in found.at(0)
    assert np.array_equal(found.at(1)["$a%2Fb"].value, 2 * found.at(1)["."].value)
    assert "$train/other" not in found
    assert "$train/other" not in found.at(0)
