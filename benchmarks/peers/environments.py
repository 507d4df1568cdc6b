"""Environments of the peers, one folder each, and running a script inside one.

A peer never shares the project's environment, and one that cannot be installed never fails the bench.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
_INSTALL_SECONDS = 1200


class PeerError(Exception):
    """The peer could not be installed or did not answer."""


@dataclass(frozen=True, slots=True)
class Peer:
    """A package to measure beside, and what is installed for it, in order."""

    name: str
    version: str
    steps: tuple[tuple[str, ...], ...]
    imports: str
    """What must be importable beside it: installed last, so that a half-made environment shows."""


# torch first, so that nothing pulls another build of it.
TORCHLENS = Peer("torchlens", "2.36.1", (("torch==2.13.0",), ("torchlens==2.36.1", "transformers")), "transformers")
COMGRA = Peer("comgra", "0.11.5", (("torch==2.13.0",), ("comgra==0.11.5",)), "comgra.recorder")
CAPTUM = Peer("captum", "0.9.0", (("torch==2.13.0",), ("captum==0.9.0", "transformers==5.22.2")), "transformers")
INSEQ = Peer("inseq", "0.7.1", (("torch==2.13.0",), ("inseq==0.7.1", "transformers==5.22.2")), "inseq")
# Ecco generates with no later transformers and draws with no later matplotlib; what it asks for itself is not built for
# this Python any more.
_WITH_ECCO = ("transformers==4.38.2", "captum==0.9.0", "seaborn", "scikit-learn", "PyYAML", "ipython")
ECCO = Peer(
    "ecco",
    "0.1.2",
    (("torch==2.13.0",), ("--no-deps", "ecco==0.1.2"), (*_WITH_ECCO, "matplotlib<3.9", "numpy<2")),
    "ecco.lm",
)


def python_of(peer: Peer) -> Path:
    """The interpreter of the peer's environment, which is made when it is not there yet."""
    folder = _folder() / peer.name
    python = folder / "bin" / "python"
    if not python.exists() or not _has(python, peer):
        print(f"setting up {peer.name} {peer.version} in {folder} …", file=sys.stderr, flush=True)
        _install(peer, folder, python)
    return python


def ask(peer: Peer, module: str, arguments: Sequence[str], *, seconds: float) -> Any:
    """What a module prints as JSON, run inside the peer's environment."""
    python = python_of(peer)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    command = [str(python), "-m", module, *arguments]
    try:
        done = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=seconds, check=True
        )
        return json.loads(done.stdout.splitlines()[-1])
    except subprocess.CalledProcessError as error:
        raise PeerError(f"{peer.name} failed: {_last_line(error.stderr)}") from error
    except subprocess.TimeoutExpired as error:
        raise PeerError(f"{peer.name} did not answer within {seconds:.0f} s") from error
    except (ValueError, IndexError) as error:
        raise PeerError(f"{peer.name} answered no JSON") from error


def _folder() -> Path:
    return Path(os.environ.get("CUTAWAY_PEERS", ROOT / ".peers"))


def _has(python: Path, peer: Peer) -> bool:
    """Whether the very version is there, and can be used: a half-made environment is made again."""
    check = f"import {peer.imports}, importlib.metadata as m; assert m.version({peer.name!r}) == {peer.version!r}"
    try:
        return subprocess.run([str(python), "-c", check], capture_output=True, timeout=120).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def _install(peer: Peer, folder: Path, python: Path) -> None:
    try:
        if not python.exists():
            venv.create(folder, with_pip=True)
        for packages in peer.steps:
            command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *packages]
            subprocess.run(command, capture_output=True, text=True, timeout=_INSTALL_SECONDS, check=True)
    except subprocess.CalledProcessError as error:
        raise PeerError(f"{peer.name} cannot be installed: {_last_line(error.stderr)}") from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PeerError(f"{peer.name} cannot be installed: {error}") from error


def _last_line(output: str | bytes | None) -> str:
    text = output.decode() if isinstance(output, bytes) else output or ""
    lines = text.strip().splitlines()
    return lines[-1] if lines else "it said nothing"
