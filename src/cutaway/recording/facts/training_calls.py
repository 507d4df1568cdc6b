"""Notifies every recorder of `GradScaler.step` and of gradient clipping.

torch has no hooks for either. A method of `GradScaler` and the inner functions of `torch.nn.utils.clip_grad_norm_` and
`clip_grad_value_` are therefore replaced while a step is recorded, and put back when the last listener leaves. The
inner functions are in a closure cell, so that names that a program has imported long before are covered as well. A
compiled function that contains clipping runs the original, but is compiled once more for recorded steps.
"""

from __future__ import annotations

from typing import Any, Literal, Protocol

import torch
from torch.amp import grad_scaler as _scaler_module
from torch.nn.utils import clip_grad as _clip_module

ClipMethod = Literal["norm", "value"]


class TrainingListener(Protocol):
    """Callbacks around calls that skip optimizer steps or change gradients. They must not raise."""

    def scaler_begins(self, optimizer: Any) -> None:
        """Called before `scaler.step(optimizer)`."""
        ...

    def scaler_ends(self, optimizer: Any) -> None:
        """Called after it; if `optimizer` has made no step meanwhile, the scaler has skipped it."""
        ...

    def clips_value(self, parameters: list[Any], limit: Any) -> None:
        """Called before `clip_grad_value_`."""
        ...

    def clipped_norm(self, norm: Any, limit: Any, norm_type: Any) -> None:
        """Called after `clip_grad_norm_`, with the norm before clipping."""
        ...


_listeners: list[TrainingListener] = []
_originals: dict[str, Any] = {}


def subscribe(listener: TrainingListener) -> None:
    """Notify a listener from now on."""
    if not _listeners:
        try:
            _install()
        except BaseException:
            _uninstall()
            raise
    _listeners.append(listener)


def unsubscribe(listener: TrainingListener) -> None:
    """Stop notifying a listener. Idempotent."""
    if listener in _listeners:
        _listeners.remove(listener)
        if not _listeners:
            _uninstall()


def _install() -> None:
    # What an earlier failure has left in place must not become its own original, which would call itself.
    if _scaler_module.GradScaler.step is not _scaler_step:
        _originals["step"] = _scaler_module.GradScaler.step
        _scaler_module.GradScaler.step = _scaler_step  # type: ignore[method-assign]
    for name, replacement in (("clip_grad_norm_", _clip_norm), ("clip_grad_value_", _clip_value)):
        cell = _inner_cell(getattr(_clip_module, name))
        if cell is not None and cell.cell_contents is not replacement:
            _originals[name] = cell.cell_contents
            cell.cell_contents = replacement


def _uninstall() -> None:
    for name, replacement in (("clip_grad_norm_", _clip_norm), ("clip_grad_value_", _clip_value)):
        cell = _inner_cell(getattr(_clip_module, name))
        # If the program has put something of its own there meanwhile, it stays.
        if cell is not None and cell.cell_contents is replacement:
            cell.cell_contents = _originals[name]
    if _scaler_module.GradScaler.step is _scaler_step:
        _scaler_module.GradScaler.step = _originals["step"]  # type: ignore[method-assign]


def _inner_cell(function: Any) -> Any:
    """The closure cell of the function that torch's `_no_grad` decorator wraps (torch 2.6 to 2.13)."""
    names = getattr(getattr(function, "__code__", None), "co_freevars", ())
    return function.__closure__[names.index("func")] if "func" in names else None


def _scaler_step(self: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
    for listener in tuple(_listeners):
        listener.scaler_begins(optimizer)
    result = _originals["step"](self, optimizer, *args, **kwargs)
    for listener in tuple(_listeners):
        listener.scaler_ends(optimizer)
    return result


def _clip_norm(*args: Any, **kwargs: Any) -> Any:
    norm = _originals["clip_grad_norm_"](*args, **kwargs)
    if not torch.compiler.is_compiling():
        limit = args[1] if len(args) > 1 else kwargs.get("max_norm")
        norm_type = args[2] if len(args) > 2 else kwargs.get("norm_type", 2.0)
        for listener in tuple(_listeners):
            listener.clipped_norm(norm, limit, norm_type)
    return norm


def _clip_value(*args: Any, **kwargs: Any) -> Any:
    if not torch.compiler.is_compiling() and (args or "parameters" in kwargs):
        parameters = args[0] if args else kwargs["parameters"]
        # A list, because model.parameters() can be iterated over only once.
        parameters = [parameters] if isinstance(parameters, torch.Tensor) else list(parameters)
        if args:
            args = (parameters, *args[1:])
        else:
            kwargs["parameters"] = parameters
        limit = args[1] if len(args) > 1 else kwargs.get("clip_value")
        for listener in tuple(_listeners):
            listener.clips_value(parameters, limit)
    return _originals["clip_grad_value_"](*args, **kwargs)
