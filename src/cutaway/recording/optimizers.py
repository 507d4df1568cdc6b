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


class Watcher(Protocol):
    """Is told of each step of an optimizer; neither may raise."""

    def before_step(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        """It is about to make a step; the arguments begin with itself."""
        ...

    def after_step(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        """It has made it."""
        ...


_watchers: list[Watcher] = []


def watch(watcher: Watcher) -> None:
    """Tell somebody of every step from now on."""
    _watchers.append(watcher)
    _torch_optimizer._global_optimizer_pre_hooks[_KEY] = _before
    _torch_optimizer._global_optimizer_post_hooks[_KEY] = _after


def unwatch(watcher: Watcher) -> None:
    """Tell it no more; doing so again does nothing."""
    if watcher in _watchers:
        _watchers.remove(watcher)
    if not _watchers:
        _torch_optimizer._global_optimizer_pre_hooks.pop(_KEY, None)
        _torch_optimizer._global_optimizer_post_hooks.pop(_KEY, None)


def _before(optimizer: Optimizer, args: Any, kwargs: Any) -> None:
    if not torch.compiler.is_compiling():
        for watcher in tuple(_watchers):
            watcher.before_step(optimizer, args, kwargs)


def _after(optimizer: Optimizer, args: Any, kwargs: Any) -> None:
    if not torch.compiler.is_compiling():
        for watcher in tuple(_watchers):
            watcher.after_step(optimizer, args, kwargs)
