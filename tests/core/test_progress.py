"""The progress bar."""

from __future__ import annotations

import io

import pytest

from cutaway.core import progress as file
from cutaway.core.progress import progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_nothing_is_written_where_nobody_looks(capsys: pytest.CaptureFixture[str]) -> None:
    assert list(progress(range(3), 3, "things")) == [0, 1, 2]
    assert capsys.readouterr().err == ""


def test_quick_work_writes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    assert list(progress(range(3), 3, "things")) == [0, 1, 2]
    assert terminal.getvalue() == ""


def test_long_work_says_how_far_it_has_come_and_cleans_up(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal, now = Terminal(), iter(range(0, 100, 10))
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setattr(file, "monotonic", lambda: float(next(now)))
    assert list(progress("abcd", 4, "letters")) == list("abcd")
    assert "letters" in terminal.getvalue()
    assert "3 of 4" in terminal.getvalue()
    assert terminal.getvalue().endswith("\x1b[2K")
