"""What is published carries the web bundle, so that only a checkout needs Node."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import hatch_build
import pytest

from tests import ROOT

STATIC = "cutaway/server/static/"


def hatchling(folder: Path, target: str, out: Path, path: str) -> Path:
    command = [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(out)]
    done = subprocess.run(command, cwd=folder, env={**os.environ, "PATH": path}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    (made,) = out.iterdir()
    return made


def test_a_source_archive_has_the_bundle_and_makes_a_wheel_without_node(tmp_path: Path) -> None:
    archive = hatchling(ROOT, "sdist", tmp_path / "sdist", os.environ["PATH"])
    with tarfile.open(archive) as tar:
        names = tar.getnames()
        tar.extractall(tmp_path, filter="data")
    assert not any("node_modules" in name for name in names)
    assert any(name.endswith("/web/src/main.tsx") for name in names)
    wheel = hatchling(tmp_path / archive.name.removesuffix(".tar.gz"), "wheel", tmp_path / "wheel", path="")
    with zipfile.ZipFile(wheel) as found:
        script = found.read(STATIC + "cutaway.js")
        licenses = found.read(STATIC + "LICENSES.txt").decode()
        assert not any(name.startswith(("web/", "tests/")) for name in found.namelist())
        # hatchling leaves out what .gitignore matches: `runs/` there once hid the package cutaway/store/runs.
        sources = {
            str(path.relative_to(ROOT / "src")) for path in (ROOT / "src").rglob("*.py*") if path.suffix != ".pyc"
        }
        assert sources <= set(found.namelist())
    assert script == (ROOT / "src" / STATIC / "cutaway.js").read_bytes()
    assert "preact" in licenses


def checkout(folder: Path) -> Path:
    (folder / "web" / "src").mkdir(parents=True)
    for name in ("package.json", "package-lock.json", "build.mjs", "src/main.tsx"):
        (folder / "web" / name).write_text("{}")
    return folder


def test_a_checkout_without_node_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(hatch_build.BuildError, match=r"node and npm not found. Install Node 20 or later with npm"):
        hatch_build.build(checkout(tmp_path))


def test_without_node_a_checkout_installs_without_the_interactive_pages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = checkout(tmp_path / "checkout")
    for name in ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source / name)
    shutil.copytree(ROOT / "src", source / "src", ignore=shutil.ignore_patterns("static", "__pycache__"))
    wheel = hatchling(source, "wheel", tmp_path / "wheel", path="")
    with zipfile.ZipFile(wheel) as found:
        names = found.namelist()
    assert "cutaway/__init__.pyi" in names
    assert not any(name.startswith(STATIC) for name in names)
    monkeypatch.setenv("CUTAWAY_BUNDLE", "required")
    with pytest.raises(AssertionError, match="needs Node"):
        hatchling(source, "wheel", tmp_path / "release", path="")


def test_an_old_node_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("node", "npm"):
        (tmp_path / name).write_text("#!/bin/sh\necho v18.2.0\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(hatch_build.BuildError, match=r"needs Node 20: .* is v18.2.0"):
        hatch_build.build(checkout(tmp_path / "checkout"))


def test_a_bundle_as_new_as_its_sources_needs_no_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    root = checkout(tmp_path)
    static = root / "src" / STATIC
    static.mkdir(parents=True)
    for name in hatch_build.MADE:
        (static / name).write_text("made")
    hatch_build.build(root)
    later = (static / "cutaway.js").stat().st_mtime + 10
    os.utime(root / "web" / "src", (later, later))  # as when a file in it is removed
    with pytest.raises(hatch_build.BuildError, match="needs Node"):
        hatch_build.build(root)
