"""The page about the command line shows what the commands print."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from tests import ROOT
from tests.cli.conftest import Ask

from cutaway.cli import COMMANDS

PAGE = ROOT / "docs" / "cli.md"
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
VARYING = re.compile(
    r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d\+00:00)?|[\d.,]+ (KB|bytes|B|records)\b|[\d.]+ (µs|ms|s)\b|\d+%"
)


def examples(text: str) -> list[tuple[str, list[str]]]:
    """Command and what it prints, of all console blocks."""
    found: list[tuple[str, list[str]]] = []
    for language, block in FENCE.findall(text):
        if language == "console":
            for line in block.splitlines():
                if line.startswith("$ "):
                    found.append((line[2:], []))
                elif line:
                    found[-1][1].append(line)
    return found


def comparable(lines: list[str]) -> list[str]:
    """Lines without times and sizes; those about functions stand in the order of their times."""
    shown = [" ".join(VARYING.sub("~", line).split()) for line in lines]
    times = sorted(line for line in shown if "× ~" in line)
    return [times.pop(0) if "× ~" in line else line for line in shown]


def test_every_example_of_the_page_is_true(ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = PAGE.read_text(encoding="utf-8")
    for language, block in FENCE.findall(text):
        if language == "python" and ("Writer(" in block or "write_text(" in block):  # what the examples ask
            exec(compile(block, str(PAGE), "exec"), {})
    found = examples(text)
    assert len(found) > 8
    for command, printed in found:
        name, *arguments = shlex.split(command)
        assert name == "cutaway"
        answer = ask(*arguments)
        assert comparable([*answer.lines, *answer.err.splitlines()]) == comparable(printed), command


def test_every_command_and_option_is_on_the_page(ask: Ask) -> None:
    text = PAGE.read_text(encoding="utf-8")
    for command in COMMANDS:
        assert f"\n## {command}\n" in text
        for option in set(re.findall(r"--[a-z-]+", ask(command, "--help").out)):
            assert option in text, f"{command} {option}"
