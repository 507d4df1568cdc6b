"""Tests that record begin in a process in which nothing is compiled, so that they do not depend on earlier tests."""

from __future__ import annotations

import pytest


def forget_compiled() -> None:
    """Forget what earlier tests compiled."""
    import torch

    from cutaway.recording.models import is_anything_compiled

    if is_anything_compiled():
        torch._dynamo.reset()


@pytest.fixture(autouse=True)
def nothing_compiled() -> None:
    """For the conftest of a folder whose tests record."""
    forget_compiled()
