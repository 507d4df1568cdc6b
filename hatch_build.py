"""Builds the web bundle into `src/cutaway/server/static`, for wheels, source archives and installs from a checkout.

The bundle is part of the source archive, so only a checkout needs Node. Without Node, an install from a checkout goes
on without the bundle: everything but the interactive pages works. By hand: `python hatch_build.py`; with `--check`, it
only says whether Node is there.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

try:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface
except ModuleNotFoundError:  # run by hand, where the build system is not installed
    BuildHookInterface = object

OLDEST_NODE = 20
MADE = ("cutaway.js", "LICENSES.txt")


class WebBundle(BuildHookInterface):
    """Called by hatchling before it packs anything."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        try:
            build(Path(self.root))
        except NodeMissing as error:
            # A release sets the variable: a wheel without the bundle must not be published.
            if os.environ.get("CUTAWAY_BUNDLE") == "required":
                self.app.abort(str(error))
            self.app.display_warning(f"Interactive pages are left out. {error}")
        except BuildError as error:
            self.app.abort(str(error))


class BuildError(Exception):
    """The bundle could not be built; the message says what to do."""


class NodeMissing(BuildError):
    """There is no Node, or it is too old."""


def build(root: Path) -> None:
    """Build the bundle, unless one is there that is as new as its sources."""
    web, static = root / "web", root / "src" / "cutaway" / "server" / "static"
    made = [static / name for name in MADE]
    is_whole = all(file.is_file() for file in made)
    if is_whole and ((root / "PKG-INFO").is_file() or _newest(_sources(web)) <= min(map(_changed, made))):
        return
    if not (web / "package.json").is_file():
        raise BuildError("Cutaway's web bundle is missing, and so are its sources in web/: fetch the whole repository.")
    node, npm = _tools()
    installed = web / "node_modules" / ".package-lock.json"
    if not installed.is_file() or _changed(installed) < _changed(web / "package-lock.json"):
        _run([npm, "ci", "--no-audit", "--no-fund"], web)
        installed.touch()
    _run([node, "build.mjs"], web)


def _sources(web: Path) -> Iterator[Path]:
    yield from (web / name for name in ("package.json", "package-lock.json", "build.mjs"))
    yield from (web / "src", *(web / "src").rglob("*"))  # folders too: they tell when a file was removed


def _changed(path: Path) -> float:
    return path.stat().st_mtime


def _newest(paths: Iterator[Path]) -> float:
    return max((_changed(path) for path in paths if path.exists()), default=0.0)


def _tools() -> tuple[str, str]:
    how = f"Install Node {OLDEST_NODE} or later with npm (https://nodejs.org, or your system's package manager)."
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        missing = " and ".join(name for name, path in (("node", node), ("npm", npm)) if path is None)
        raise NodeMissing(f"Building the interactive pages needs Node: {missing} not found. {how}")
    found = subprocess.run([node, "--version"], capture_output=True, text=True, check=False).stdout.strip()
    number = re.match(r"v(\d+)", found)
    if number is None or int(number[1]) < OLDEST_NODE:
        raise NodeMissing(f"Building the interactive pages needs Node {OLDEST_NODE}: {node} is {found}. {how}")
    return node, npm


def _run(command: list[str], folder: Path) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        asked = f"`{Path(command[0]).name} {' '.join(command[1:])}` in {folder}"
        raise BuildError(f"{asked} failed:\n{done.stdout}\n{done.stderr}".rstrip())


if __name__ == "__main__":
    try:
        if "--check" in sys.argv:
            _tools()
        else:
            build(Path(__file__).resolve().parent)
    except BuildError as error:
        sys.exit(str(error))
