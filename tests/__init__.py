"""Tests; `ROOT` is the folder of the repository."""

from pathlib import Path

ROOT = Path(__file__).parent.parent
