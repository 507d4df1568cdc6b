"""Seeding every random generator for a block, and putting each back."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch

from cutaway.core.errors import InputError


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed Python, NumPy and torch (CPU and every GPU in use); restore all of them afterwards."""
    if isinstance(seed, bool) or not isinstance(seed, int):
        raise InputError(f"seed={seed!r}: give an integer.")
    python, numpy = random.getstate(), np.random.get_state()
    devices = list(range(torch.cuda.device_count())) if torch.cuda.is_initialized() else []
    with torch.random.fork_rng(devices=devices):
        random.seed(seed)
        np.random.seed(seed % 2**32)
        torch.manual_seed(seed)
        try:
            yield
        finally:
            random.setstate(python)
            np.random.set_state(numpy)
