"""`cutaway trace`: builds, runs, writes, and says what is wrong in one sentence."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests import warm_python
from tests.cli.conftest import Ask

import cutaway

NETS = """
import os
import torch
from torch import nn

print("imported")

class Net(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))

class Broken(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(3, 4), nn.Linear(5, 2)
    def forward(self, x):
        return self.second(self.first(x))

class Tokens(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(7, 2)
    def forward(self, ids, mask):
        assert not self.training and not torch.is_grad_enabled()
        return self.table(ids) * mask.unsqueeze(-1)

class Keywords(nn.Module):
    def forward(self, x, *, scale):
        return x * scale

class Drop(nn.Module):
    def forward(self, x):
        assert self.training and torch.is_grad_enabled()
        return nn.functional.dropout(x, 0.5, self.training)

class Loud(nn.Module):
    def forward(self, x):
        print("from Python")
        os.write(1, b"from C;")
        os.system("echo from a child")
        return x + 1

class Leaves(nn.Module):
    def forward(self, x):
        raise SystemExit(x.sum().item())

made = Net()
number = 3
def fails(): raise ValueError("no weights")
def nothing(): return {}
def example(): return (torch.ones(1, 3),), {"scale": torch.ones(3)}
def keywords(): return {"x": torch.ones(1, 3), "scale": torch.ones(3)}
"""


@pytest.fixture
def nets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a module in the current folder, another one for each test."""
    name = f"nets_{abs(hash(tmp_path)) % 10**9}"
    (tmp_path / f"{name}.py").write_text(NETS)
    monkeypatch.chdir(tmp_path)
    return name


def test_a_model_is_found_run_and_summed_up(ask: Ask, nets: str) -> None:
    path = list(sys.path)
    for place in (f"{nets}:Net", f"{nets}.py:Net", f"{nets}:made"):
        answer = ask("trace", place, "--input", "2,3")
        assert answer.code == 0
        name = "Net"
        assert answer.lines[0].startswith(f"Trace of {name}: 3 ops in 4 modules")
        assert "imported" not in answer.out
    assert sys.path == path


def test_everything_that_is_asked_for_is_written(ask: Ask, nets: str, tmp_path: Path) -> None:
    answer = ask(
        *("trace", f"{nets}:Net", "--input", "2,3", "--draw", "net.svg", "--direction", "right", "--save", "net.trace"),
        *("--html", "net.html", "--color-by", "bytes", "--focus", "1", "--validate"),
    )
    assert answer.code == 0
    assert answer.lines[-3:] == ["written: net.html", "written: net.svg", "written: net.trace"]
    assert "valid: 3 of 3 ops proven" in answer.out
    assert "relu_1_2" in (tmp_path / "net.svg").read_text(encoding="utf-8")
    assert "Size of the value" in (tmp_path / "net.svg").read_text(encoding="utf-8")
    assert "<html" in (tmp_path / "net.html").read_text(encoding="utf-8")
    assert cutaway.load("net.trace")["relu_1"].shape == (2, 4)


def test_inputs_have_their_dtypes_and_a_function_gives_any_others(ask: Ask, nets: str) -> None:
    answer = ask(
        *("trace", f"{nets}:Tokens", "--input", "2,5", "--dtype", "int64", "--high", "7"),
        *("--input", "2,5", "--dtype", "bool", "--json"),
    )
    assert answer.document["inputs"] == [{"path": "0", "shape": [2, 5]}, {"path": "1", "shape": [2, 5]}]
    for function in ("example", "keywords"):
        answer = ask("trace", f"{nets}:Keywords", "--inputs", f"{nets}:{function}", "--json")
        assert answer.document["n_ops"] == 1
        assert {row["path"] for row in answer.document["inputs"]} >= {"scale"}


def test_training_mode_is_asked_for(ask: Ask, nets: str) -> None:
    assert ask("trace", f"{nets}:Drop", "--input", "2,3", "--train").code == 0
    assert ask("trace", f"{nets}:Drop", "--input", "2,3").code == 1


def test_a_seed_gives_the_same_weights_and_inputs(ask: Ask, nets: str) -> None:
    for folder, seed in (("a", 3), ("b", 3), ("c", 4)):
        assert ask("trace", f"{nets}:Net", "--input", "2,3", "--seed", seed, "--save", folder).code == 0
    a, b, c = (cutaway.load(folder)[-1].value for folder in "abc")
    assert (a == b).all()
    assert (a != c).any()


def test_a_model_that_raises_is_written_up_to_there_and_exit_code_one(ask: Ask, nets: str, tmp_path: Path) -> None:
    answer = ask("trace", f"{nets}:Broken", "--input", "2,3", "--draw", "net.svg", "--validate")
    assert answer.code == 1
    assert "STOPPED" in answer.out
    assert answer.err.startswith("imported\ncutaway: the model raised RuntimeError: mat1 and mat2")
    text = (tmp_path / "net.svg").read_text(encoding="utf-8")
    assert "linear_1_1" in text
    assert "raised here" in text
    document = ask("trace", f"{nets}:Broken", "--input", "2,3", "--json").document
    assert document["is_complete"] is False
    assert document["error"].startswith("RuntimeError: mat1")
    wrong_shape = ask("trace", f"{nets}:Net", "--input", "2,4")
    assert wrong_shape.code == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["NETS"], "'NETS' does not name a model. Write module:name or file.py:name."),
        (["nowhere:Net"], "no module 'nowhere' in the current folder or installed. Check the name, or give a file"),
        (["wrong.module:thing"], "no module 'wrong.module' in the current folder or installed. Check the name"),
        (["torch.nn:Linear"], "torch.nn:Linear() raised TypeError: Linear.__init__() missing 2 required positional"),
        (["nowhere.py:Net"], "no file 'nowhere.py'."),
        (["NETS:Nett"], "NETS has no 'Nett'. Nearest: 'Net'."),
        (["NETS:number"], "NETS:number is an int. Name a torch.nn.Module, or a function that returns one."),
        (["NETS:nothing"], "NETS:nothing returned a dict, not a torch.nn.Module."),
        (["NETS:fails"], "NETS:fails() raised ValueError: no weights"),
        (["NETS:Net"], "cannot run the model: InputError: these arguments do not fit"),
        (["NETS:Net", "--input", "2,3", "--draw", "net.jpg"], "draw() takes the format from the extension of the path"),
        (["NETS:Net", "--input", "2,3", "--dtype", "int9"], "torch has no dtype 'int9'"),
        (["NETS:Net", "--input", "2,3", "--dtype", "flaot32"], "torch has no dtype 'flaot32'. Nearest: 'float32'"),
        (["NETS:Net", "--input", "2,3", "--dtype", "int3"], "cannot make a random int3 tensor of shape [2, 3]"),
        (["NETS:Net", "--input", "2,3", "--dtype", "int8", "--dtype", "int8"], "got 2 --dtype for 1 --input"),
        (["NETS:Net", "--input", "2,3", "--inputs", "NETS:example"], "--input and --inputs exclude each other"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(ask: Ask, nets: str, arguments: list[str], said: str) -> None:
    answer = ask("trace", *(each.replace("NETS", nets) for each in arguments))
    assert answer.code == 2
    assert answer.out == ""
    (line,) = [line for line in answer.err.splitlines() if line != "imported"]
    assert line.startswith(f"cutaway: {said.replace('NETS', nets)}")


def test_a_shape_that_is_none_is_wrong_usage(ask: Ask) -> None:
    for shape in ("a,b", "2,-3", "2,,3"):
        answer = ask("trace", "nets:Net", "--input", shape)
        assert answer.code == 2
        assert "is not a shape: write integers with commas, as in 1,3,224,224" in answer.err


def test_an_error_while_importing_is_told_from_a_module_that_is_not_there(
    ask: Ask, tmp_path: Path, monkeypatch
) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "needs_more.py").write_text("import not_installed_at_all")
    (tmp_path / "leaves.py").write_text("raise SystemExit(3)")
    answer = ask("trace", "needs_more:Net")
    assert "cannot import needs_more: ModuleNotFoundError: No module named 'not_installed_at_all'" in answer.err
    assert "cannot import leaves.py: SystemExit: 3" in ask("trace", "leaves.py:Net").err


def test_the_command_works_from_a_shell(tmp_path: Path) -> None:
    (tmp_path / "nets.py").write_text(NETS)
    command = [sys.executable, "-m", "cutaway", "trace", "nets:Net", "--input", "1,3", "--draw", "net.json", "--json"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True, env=os.environ)
    assert json.loads(done.stdout)["written"] == {"draw": "net.json"}
    assert json.loads((tmp_path / "net.json").read_text(encoding="utf-8"))["graphs"]


def test_only_json_is_printed_whatever_the_model_prints(tmp_path: Path) -> None:
    (tmp_path / "nets.py").write_text(NETS)
    command = ["-m", "cutaway", "trace", "nets:Loud", "--input", "1,3", "--validate", "--json"]
    done = warm_python.run(command, cwd=tmp_path, skips_teardown=True, check=True)
    assert json.loads(done.stdout)["n_ops"] == 1
    for said in ("imported", "from Python", "from C", "from a child"):
        assert said in done.stderr


def test_a_model_that_leaves_python_is_one_that_raised(ask: Ask, nets: str) -> None:
    answer = ask("trace", f"{nets}:Leaves", "--input", "0")
    assert answer.code == 1
    assert answer.err.endswith("cutaway: the model raised SystemExit: 0.0\n")


def test_a_model_without_inputs_is_told_how_to_give_some(ask: Ask, nets: str) -> None:
    assert ask("trace", f"{nets}:Net").err.endswith("Give its inputs with --input or --inputs.\n")
