"""Context managers for runs that nobody asked for: afterwards the model and the random generators are as before."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from threading import Lock, RLock
from weakref import WeakKeyDictionary

import torch
from torch import nn

from cutaway.capture.model.rng_state import randomness_kept
from cutaway.capture.model.state import ModelState
from cutaway.capture.model.tree import modules_of

_locks: WeakKeyDictionary[nn.Module, RLock] = WeakKeyDictionary()
"""Model → the thread that runs it: of two threads each would put back what the other has set."""
_lock_of_locks = Lock()


@contextmanager
def preserved(model: nn.Module, *, warns: bool = True) -> Iterator[ModelState]:
    """Restores the whole state of a model and of all random generators after the block; `ModelState` says what that is.

    Threads that enter it with the same model wait for each other.

    Args:
        warns: whether a parameter that was written to is warned of.
    """
    with _lock_of_locks:
        lock = _locks.setdefault(model, RLock())
    with lock, randomness_kept():
        state = ModelState(model)
        try:
            yield state
        finally:
            state.restore()
            if warns:
                state.warn_of_parameters()


@contextmanager
def eval_mode(model: nn.Module, *, gradients: bool = False) -> Iterator[ModelState]:
    """Puts a model in eval mode with gradients off, then restores its whole state and all random generators.

    Args:
        gradients: whether autograd stays as it is; else it is off.
    """
    with preserved(model) as state, nullcontext() if gradients else torch.no_grad():
        for module in modules_of(model):
            if module.training:  # one by one: `eval()` may be the model's own, and do more
                module.training = False
        yield state


def device_of(model: nn.Module) -> torch.device:
    """Where the inputs of a model go: to its first parameter, or buffer."""
    for tensor in (*model.parameters(), *model.buffers()):
        if tensor.device.type != "meta":
            return tensor.device
    return torch.device("cpu")
