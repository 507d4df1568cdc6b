"""The command as a whole: exit codes, errors, pipes, hostile text, start-up."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from tests.cli.conftest import Ask

import cutaway
from cutaway.cli import COMMANDS
from cutaway.store.format.records import Row
from cutaway.store.writing.writer import Writer

HOSTILE = "\x1b[31mred\x1b]0;title\x07\nsecond\rline\u202e\x9b2J"


def cut(*arguments: object, **options: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "cutaway", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, **options)  # type: ignore[call-overload,no-any-return]


def test_the_version_is_the_package_s(ask: Ask) -> None:
    assert ask("--version").out == f"cutaway {cutaway.__version__}\n"


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself_with_examples(ask: Ask, command: str) -> None:
    answer = ask(command, "--help")
    assert answer.code == 0
    assert f"cutaway {command} " in answer.out
    assert "examples:" in answer.out
    assert "--json" in answer.out


def test_help_lists_every_command(ask: Ask) -> None:
    assert all(command in ask("--help").out for command in COMMANDS)


def test_an_unknown_command_or_option_names_the_nearest(ask: Ask, base: Path) -> None:
    assert "no command 'viw'. Did you mean 'view'? Commands: view, trace, ls" in ask("viw", base).err
    assert "no command 'foo'. Commands: view, trace" in ask("foo").err
    assert "unrecognized argument '--jsn'. Did you mean '--json'?" in ask("ls", base, "--jsn").err
    assert "unrecognized argument 'more'. `cutaway info --help` lists the options" in ask("info", base, "more").err


def test_help_names_the_extra_of_the_viewer(ask: Ask) -> None:
    assert "pip install 'cutaway[view]'" in ask("--help").out
    assert "pip install 'cutaway[view]'" in ask("view", "--help").out


def test_positional_arguments_may_follow_options(ask: Ask, base: Path) -> None:
    assert ask("query", base, "--stat", "mean", "tokens").out == ask("query", base, "tokens", "--stat", "mean").out
    assert ask("ls", "--json", base).document == ask("ls", base, "--json").document


def test_no_archive_says_why(ask: Ask, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file.txt").write_text("text")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file.txt").write_text("text")
    for name, reason in {
        "nothing": "the path does not exist",
        "empty": "the folder is empty",
        "file.txt": "it is a file, and archives are folders",
        "other": "the folder and its subfolders hold none",
        "run-*": "the pattern matches none",
    }.items():
        assert f"{name}': {reason}. Give a run, or a folder of runs." in ask("info", tmp_path / name).err


def test_wrong_usage_is_exit_code_two(ask: Ask, base: Path) -> None:
    for wrong in ([], ["lss"], ["info"], ["query", base, "--steps", "a:b"], ["export", base, "out"]):
        answer = ask(*wrong)
        assert answer.code == 2
        assert "usage: cutaway" in answer.err
        assert answer.out == ""


@pytest.mark.parametrize("command", sorted(set(COMMANDS) - {"trace"}))
def test_nothing_there_is_one_sentence_and_exit_code_two(ask: Ask, tmp_path: Path, command: str) -> None:
    more = [tmp_path / "out", "--format", "npy"] if command == "export" else []
    answer = ask(command, tmp_path / "nothing", *more)
    assert answer.code == 2
    assert answer.out == ""
    assert answer.err.startswith("cutaway: ")
    assert answer.err.count("\n") == 1
    assert "no Cutaway archive at" in answer.err


def test_the_installed_command_works(base: Path) -> None:
    script = Path(sysconfig.get_path("scripts")) / "cutaway"
    done = subprocess.run([script, "ls", base], capture_output=True, text=True, check=True)
    assert "base" in done.stdout


def test_no_command_needs_torch_and_start_up_imports_little(base: Path) -> None:
    code = (
        "import sys; from cutaway.cli import main; assert main(sys.argv[1:]) == 0;"
        "assert 'torch' not in sys.modules and 'pandas' not in sys.modules and 'pyarrow' not in sys.modules"
    )
    for arguments in (["ls"], ["info"], ["query"], ["verify"]):
        subprocess.run([sys.executable, "-c", code, *arguments, base], check=True, stdout=subprocess.DEVNULL)
    # Imports are what start-up takes; asking for the version must not pay for NumPy or for any command.
    code = (
        "import sys; from cutaway.cli import main; assert main(['--version']) == 0;"
        "assert not {'numpy', 'torch', 'msgpack', 'starlette', 'asyncio'} & set(sys.modules);"
        "assert not [name for name in sys.modules if name.startswith('cutaway.cli.')]"
    )
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)


def test_a_reader_that_stops_early_is_no_error(base: Path) -> None:
    command = f'"{sys.executable}" -m cutaway query "{base}" "**" --json | head -c 10'
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert len(done.stdout) == 10


def test_a_closed_pipe_is_quiet_also_for_short_output(base: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-m", "cutaway", "ls", str(base)], stdout=writing, stderr=subprocess.PIPE, check=False
    )
    os.close(writing)
    assert done.stderr == b""
    assert done.returncode == 141


def test_an_ascii_terminal_gets_escapes_instead_of_a_traceback(base: Path) -> None:
    done = cut("query", base, "tokens", "--steps", "0:5", env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert done.returncode == 0
    done = cut("verify", base, env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert (done.returncode, done.stderr) == (0, "")


def test_hostile_text_never_reaches_the_terminal_raw(ask: Ask, tmp_path: Path) -> None:
    path = tmp_path / "runs" / "odd"
    with Writer(path, kind="run") as writer:
        writer.document("config", {HOSTILE: HOSTILE})
        schema = writer.schema([Row(HOSTILE, role=HOSTILE)], [HOSTILE])
        import numpy as np

        writer.step(1, schema=schema, kind=HOSTILE, matrix=np.ones((1, 1)))
        writer.scalars(1, {HOSTILE: 1.0})
        writer.note(HOSTILE, level=HOSTILE)
    asked = [
        ["ls", tmp_path], ["info", path], ["query", path], ["query", path, "--at", HOSTILE], ["query", path, "--notes"],
        ["query", path, "--scalar", "*"], ["query", path, "--at-step", "1"], ["query", path, "--at", HOSTILE + "?"],
        ["query", path, "--kind", "none", "--at", HOSTILE], ["query", path, "--notes", HOSTILE], ["verify", path],
    ]  # fmt: skip
    for arguments in asked:
        for more in ([], ["--json"]):
            answer = ask(*arguments, *more)
            printed = answer.out + answer.err
            assert "Traceback" not in printed
            assert all(letter.isprintable() or letter == "\n" for letter in printed), (arguments, printed)
    segment = next(path.rglob("*-s0001.safetensors"))
    data = bytearray(segment.read_bytes())
    data[-1] ^= 1
    segment.write_bytes(data)
    answer = ask("verify", path)
    assert answer.code == 1
    assert "\\x1b[31mred" in answer.out
    assert all(letter.isprintable() or letter == "\n" for letter in answer.out)


def test_numbers_that_json_has_not_are_null(ask: Ask, base: Path) -> None:
    (curve,) = ask("query", base, "--scalar", "loss", "--json").document["scalars"]
    assert curve["values"][3] is None
    assert curve["values"][0] == 1.0
