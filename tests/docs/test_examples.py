"""The example scripts run from start to end and say what the documentation says they say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parent.parent.parent / "examples"


def test_the_workflow_saves_exactly_what_was_chosen(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, str(EXAMPLES / "workflow.py")], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert "0 of 12 values saved" in ran.stdout
    assert "5 of 12 values saved" in ran.stdout
    assert list(tmp_path.iterdir()) == []


def test_the_lesions_show_which_unit_matters_for_which_class(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, str(EXAMPLES / "lesion.py")], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert "Lesions of Sequential: 16 units at 1 site, changed to 0" in ran.stdout
    assert ran.stdout.count("loses most with 1#") == 4
    assert "the same accuracy" in ran.stdout
    assert list(tmp_path.iterdir()) == []
