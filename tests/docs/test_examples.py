"""The example scripts run from start to end and say what the documentation says they say."""

from __future__ import annotations

import os
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


def test_the_recorded_training_can_be_asked(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, str(EXAMPLES / "record.py"), "runs/turner", "4"],
        cwd=tmp_path, capture_output=True, text=True, check=True, env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert "blocks.2  std" in ran.stdout
    assert "of itself in the first step" in ran.stdout
    assert "The run is in runs/turner" in ran.stdout
    assert (tmp_path / "runs" / "turner" / "cutaway.json").exists()
