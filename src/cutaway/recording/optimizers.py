"""Steps of optimizers, whichever the program has, told to whoever watches.

A compiled optimizer is guarded by the hooks that torch has for all optimizers. So there is one pair of hooks that never
changes, and inside a compiled program it does nothing.
"""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch.optim import Optimizer
from torch.optim import optimizer as _torch_optimizer

_KEY: Any = "cutaway"


class StepListener(Protocol):
    """Is told of each step of an optimizer; neither may raise."""

    def before_step(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        """It is about to make a step; the arguments begin with itself."""
        ...

    def after_step(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        """It has made it."""
        ...


_listeners: list[StepListener] = []


def subscribe(listener: StepListener) -> None:
    """Tell somebody of every step from now on."""
    _listeners.append(listener)
    _torch_optimizer._global_optimizer_pre_hooks[_KEY] = _before
    _torch_optimizer._global_optimizer_post_hooks[_KEY] = _after


def unsubscribe(listener: StepListener) -> None:
    """Tell it no more; doing so again does nothing."""
    if listener in _listeners:
        _listeners.remove(listener)
    if not _listeners:
        _torch_optimizer._global_optimizer_pre_hooks.pop(_KEY, None)
        _torch_optimizer._global_optimizer_post_hooks.pop(_KEY, None)


def _before(optimizer: Optimizer, args: Any, kwargs: Any) -> None:
    if not torch.compiler.is_compiling():
        for listener in tuple(_listeners):
            listener.before_step(optimizer, args, kwargs)


def _after(optimizer: Optimizer, args: Any, kwargs: Any) -> None:
    if not torch.compiler.is_compiling():
        for listener in tuple(_listeners):
            listener.after_step(optimizer, args, kwargs)
