"""A model in evaluation, and exactly as it was afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from threading import Lock, RLock
from weakref import WeakKeyDictionary

import torch
from torch import nn

from cutaway.capture.inventory import buffers_of, modules_of
from cutaway.capture.states import randomness_kept

_locks: WeakKeyDictionary[nn.Module, RLock] = WeakKeyDictionary()
"""Model → who has it still: of two threads each would put back what the other has set."""
_lock_of_locks = Lock()


@contextmanager
def stillness(model: nn.Module, *, gradients: bool = False) -> Iterator[None]:
    """Evaluation mode; modes, buffers and random states are put back. Threads that ask the same model wait here.

    The flags are set one by one: `eval()` may be the model's own, and do more.

    Args:
        gradients: whether autograd stays as it is; else it is off.
    """
    with _lock_of_locks:
        lock = _locks.setdefault(model, RLock())
    with lock, _still(model, gradients=gradients):
        yield


@contextmanager
def _still(model: nn.Module, *, gradients: bool) -> Iterator[None]:
    modes = [(module, module.training) for module in modules_of(model)]
    buffers = [(*found, found[2]._version, found[2].detach().clone()) for found in buffers_of(model)]
    with randomness_kept(), nullcontext() if gradients else torch.no_grad():
        try:
            for module, _ in modes:
                module.training = False
            yield
        finally:
            for module, training in modes:
                module.training = training
            with torch.no_grad():
                for module, name, tensor, version, copy in buffers:
                    module._buffers[name] = tensor
                    if tensor._version != version:
                        tensor.copy_(copy)


def device_of(model: nn.Module) -> torch.device:
    """Where the inputs of a model go: to its first parameter, or buffer."""
    for tensor in (*model.parameters(), *model.buffers()):
        if tensor.device.type != "meta":
            return tensor.device
    return torch.device("cpu")
