"""What exists in Python and in TypeScript, called in TypeScript: one Node process for all cases."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests import ROOT

from cutaway.layout.graph_view import plain

WEB = ROOT / "web"
WITHOUT = "CUTAWAY_TESTS_WITHOUT_WEB"


def in_typescript(cases: Sequence[tuple[str, Sequence[Any]]]) -> list[Any]:
    """What the functions of `web/src/layout/agree.ts` answer to (name, arguments); dataclasses go as JSON."""
    if not (WEB / "node_modules").is_dir():
        if os.environ.get(WITHOUT):
            pytest.skip(f"{WITHOUT} is set and web/node_modules is not there")
        pytest.fail(f"web/node_modules is not there: run `npm ci` in web/, or set {WITHOUT}=1 to go without")
    with tempfile.TemporaryDirectory() as folder:
        bundle, asked, answered = (Path(folder) / name for name in ("agree.mjs", "cases", "results"))
        run("node", "build.mjs", "--bundle", "src/layout/agree.ts", str(bundle))
        lines = [json.dumps([name, [plain(value) for value in given]]) for name, given in cases]
        asked.write_text("\n".join(lines), encoding="utf-8")
        run("node", str(bundle), str(asked), str(answered))
        return [json.loads(line) for line in answered.read_text(encoding="utf-8").split("\n")]


def run(*command: str) -> None:
    done = subprocess.run(command, cwd=WEB, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}\n{done.stderr}"
