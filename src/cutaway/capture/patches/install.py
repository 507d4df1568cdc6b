"""Installs every patch; all captures and edits share one set, whichever of them comes first."""

from __future__ import annotations

from contextlib import ExitStack

from cutaway.capture.patches import monkeypatch
from cutaway.capture.patches.collectives import install_collectives
from cutaway.capture.patches.higher_order import install_higher_order
from cutaway.capture.patches.sharded import install_sharded
from cutaway.capture.patches.torch_patches import install_patches


def apply_patches() -> None:
    """Registers a capture or an edit; the first one installs the patches. `monkeypatch.restore` ends it."""
    monkeypatch.apply(_install)


def _install(stack: ExitStack) -> None:
    install_patches(stack)
    install_higher_order(stack)
    install_sharded(stack)
    install_collectives(stack)
