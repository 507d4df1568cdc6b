"""The web bundle: one script that draws every view, shared by pages, files and notebooks."""

from __future__ import annotations

from pathlib import Path

from cutaway.core.errors import MissingBundleError

STATIC = Path(__file__).parent / "static"
"""Filled by the package build; `make venv` fills it in a checkout."""


def script() -> str:
    """The bundle: an ES module that includes its style sheet."""
    return _text("cutaway.js")


def licenses() -> str:
    """The licenses of the bundled libraries."""
    return _text("LICENSES.txt")


def _text(name: str) -> str:
    try:
        return (STATIC / name).read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise MissingBundleError(
            f"interactive views need the web bundle, but {STATIC / name} is missing. In a checkout, `make venv` "
            "builds it (needs Node 20 or later); otherwise run pip install --force-reinstall --no-deps cutaway."
        ) from error
