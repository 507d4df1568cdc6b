"""The TypeScript of web/ holds: its types, its own tests, and its build."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from tests import ROOT

from cutaway.server import bundle

WEB = ROOT / "web"


def run(*command: str) -> str:
    done = subprocess.run(command, cwd=WEB, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def test_the_types_hold() -> None:
    run("node_modules/.bin/tsc", "--noEmit")


def test_the_tests_beside_the_sources_pass() -> None:
    told = run("node", "build.mjs", "--tests")
    passed = re.search(r"^# pass (\d+)$", told, re.MULTILINE)
    assert passed is not None
    assert int(passed[1]) >= 20, told


def test_the_bundle_is_that_of_the_sources(tmp_path: Path) -> None:
    run("node", "build.mjs", "--out", str(tmp_path))
    assert (tmp_path / "cutaway.js").read_text(encoding="utf-8") == bundle.script(), "run `make venv`"


def test_the_lock_file_has_no_download_addresses() -> None:
    text = (WEB / "package-lock.json").read_text(encoding="utf-8")
    assert '"integrity"' in text
    assert "resolved" not in text


def test_versions_are_exact() -> None:
    text = (WEB / "package.json").read_text(encoding="utf-8")
    versions = re.findall(r'"(?:preact|esbuild|typescript|@types/node)": "(.*)"', text)
    assert len(versions) == 4
    assert all(re.fullmatch(r"\d+\.\d+\.\d+", version) for version in versions)
