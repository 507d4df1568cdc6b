"""Context managers for additional runs: they restore the model and all random generators afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from threading import Lock, RLock
from weakref import WeakKeyDictionary

import torch
from torch import nn

from cutaway.capture.model.rng_state import preserve_rng
from cutaway.capture.model.state import ModelState
from cutaway.capture.model.tree import modules_of

_locks: WeakKeyDictionary[nn.Module, RLock] = WeakKeyDictionary()
"""Model → its lock: of two threads, each would restore what the other has changed."""
_lock_of_locks = Lock()


@contextmanager
def preserve_state(model: nn.Module, *, warns: bool = True) -> Iterator[ModelState]:
    """Context manager: restores the state of a model (see `ModelState`) and all random generators after the block.

    Threads that enter it with the same model wait for each other.

    Args:
        warns: whether to warn about parameters that were written to.
    """
    with _lock_of_locks:
        lock = _locks.setdefault(model, RLock())
    with lock, preserve_rng():
        state = ModelState(model)
        try:
            yield state
        finally:
            state.restore()
            if warns:
                state.warn_about_parameters()


@contextmanager
def eval_mode(model: nn.Module, *, gradients: bool = False) -> Iterator[ModelState]:
    """Context manager: puts a model in eval mode with gradients off, then restores its state and all random generators.

    Args:
        gradients: True leaves autograd as it is; False disables it.
    """
    with preserve_state(model) as state, nullcontext() if gradients else torch.no_grad():
        for module in modules_of(model):
            if module.training:  # one by one: the model may override `eval()` to do more
                module.training = False
        yield state


def device_of(model: nn.Module) -> torch.device:
    """The device for a model's inputs: that of its first parameter or buffer."""
    for tensor in (*model.parameters(), *model.buffers()):
        if tensor.device.type != "meta":
            return tensor.device
    return torch.device("cpu")
