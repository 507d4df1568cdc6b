"""What every test of recording begins with: a process in which nothing is compiled yet."""

from __future__ import annotations

import pytest
import torch

from cutaway.recording.subjects import is_anything_compiled


@pytest.fixture(autouse=True)
def _nothing_compiled() -> None:
    if is_anything_compiled():
        torch._dynamo.reset()
