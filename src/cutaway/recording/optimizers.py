"""One pair of global optimizer hooks that notifies every recorder.

`torch.compile` guards a compiled optimizer on torch's global optimizer hooks. There is therefore one pair of hook
functions that never changes, and inside a compiled program it does nothing.
"""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch.optim import Optimizer
from torch.optim import optimizer as _torch_optimizer

_KEY: Any = "cutaway"


class StepListener(Protocol):
    """Callbacks around each optimizer step. They must not raise."""

    def before_step(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        """Called before a step; `args[0]` is the optimizer itself."""
        ...

    def after_step(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        """Called after a step."""
        ...


_listeners: list[StepListener] = []


def subscribe(listener: StepListener) -> None:
    """Notify a listener of every optimizer step from now on."""
    _listeners.append(listener)
    _torch_optimizer._global_optimizer_pre_hooks[_KEY] = _before
    _torch_optimizer._global_optimizer_post_hooks[_KEY] = _after


def unsubscribe(listener: StepListener) -> None:
    """Stop notifying a listener. Idempotent."""
    if listener in _listeners:
        _listeners.remove(listener)
    if not _listeners:
        _torch_optimizer._global_optimizer_pre_hooks.pop(_KEY, None)
        _torch_optimizer._global_optimizer_post_hooks.pop(_KEY, None)


def _before(optimizer: Optimizer, args: Any, kwargs: Any) -> None:
    if not torch.compiler.is_compiling():
        # A copy: a listener may unsubscribe while it is notified.
        for listener in tuple(_listeners):
            listener.before_step(optimizer, args, kwargs)


def _after(optimizer: Optimizer, args: Any, kwargs: Any) -> None:
    if not torch.compiler.is_compiling():
        for listener in tuple(_listeners):
            listener.after_step(optimizer, args, kwargs)


def has_closure_in(args: Any, kwargs: Any) -> bool:
    """Whether `optimizer.step` got a closure; `args[0]` is the optimizer itself."""
    return any(closure is not None for closure in (*args[1:], kwargs.get("closure")))
