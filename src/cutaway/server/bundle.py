"""The web bundle: one script that draws every view, in a file as in a notebook."""

from __future__ import annotations

from pathlib import Path

from cutaway.core.errors import MissingBundleError

STATIC = Path(__file__).parent / "static"
"""Filled when the package is built; a checkout has it after `make venv`."""


def script() -> str:
    """The bundle, an ES module with its style sheet inside."""
    return _text("cutaway.js")


def licenses() -> str:
    """The licences of the libraries that are in the bundle."""
    return _text("LICENSES.txt")


def _text(name: str) -> str:
    try:
        return (STATIC / name).read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise MissingBundleError(
            f"interactive pictures need the web bundle, and there is no {STATIC / name}. In a checkout `make venv` "
            "builds it (with Node 20 or later); elsewhere, reinstall: pip install --force-reinstall --no-deps cutaway."
        ) from error
