"""Lightweight snapshot of module attributes before a traced run, with weak references only.

A trace knows the contents of buffers before the run, because it sees writes to them. Flags and counters that say
whether a buffer is valid are plain attributes, whose changes are invisible to capture, so they are recorded when the
run begins.
"""

from __future__ import annotations

import weakref
from collections import OrderedDict, deque
from collections.abc import Callable, Collection
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from cutaway.capture.model.tree import modules_of
from cutaway.capture.tensors.aliasing import version_of

_PLAIN = frozenset([int, float, bool, complex, str, bytes, type(None)])
_CONTAINERS = frozenset([dict, OrderedDict, list, set, deque])
_NOT_RECORDED: Any = object()
"""Placeholder for a value that is not recorded."""


class CannotRestore(Exception):
    """The run changed an attribute whose earlier value was not recorded; the message names it."""


@dataclass(frozen=True, slots=True)
class _ContainerLength:
    """The length of a container; its elements are not recorded."""

    n: int


@dataclass(frozen=True, slots=True)
class _TensorReference:
    """A tensor by weak reference, with its version counter."""

    tensor: Callable[[], Tensor | None]
    version: int | None


class AttributeSnapshot(NamedTuple):
    """The attributes of one module before a run."""

    module: Callable[[], nn.Module | None]
    attributes: dict[str, Any]
    """Numbers, strings and flags by value; containers by length; tensors by weak reference."""
    n_hooks: tuple[int, int]
    """Number of forward hooks and of forward pre-hooks."""
    buffers: dict[str, bool] | None
    """Name → whether there was a tensor; None if the module had no buffers."""
    submodules: dict[str, int] | None
    """Name → id; None if the module had no submodules."""

    def check_submodules(self) -> None:
        """Raises `CannotRestore` if a submodule was removed or replaced: it was not recorded, only its id."""
        module = self.module()
        if module is None or self.submodules is None:
            return
        for name, key in self.submodules.items():
            if id(module._modules.get(name)) != key:
                raise CannotRestore(f"the submodule {name!r} of {type(module).__name__}")

    def restore(self, restored: Collection[int] = ()) -> None:
        """Restores the attributes, as far as they were recorded.

        Raises `CannotRestore` if the run has certainly changed one that was not recorded. Changes inside objects are
        not detected.

        Args:
            restored: ids of tensors whose earlier contents the caller has restored.
        """
        module = self.module()
        if module is None:
            return
        held = module.__dict__
        for name in [name for name in held if name not in self.attributes and name not in _STANDARD]:
            if not callable(held[name]):  # such as a replaced forward
                del held[name]
        for name, before in self.attributes.items():
            if type(before) in _PLAIN:
                held[name] = before
            elif type(before) is _ContainerLength:
                self._restore_length(held.get(name), before.n, f"the attribute {name!r}")
            elif type(before) is _TensorReference:
                tensor = before.tensor()
                if tensor is None or (version_of(tensor) != before.version and id(tensor) not in restored):
                    raise CannotRestore(f"the attribute {name!r} of {type(module).__name__}")
                held[name] = tensor
        self._restore_length(module._forward_hooks, self.n_hooks[0], "the hooks")
        self._restore_length(module._forward_pre_hooks, self.n_hooks[1], "the hooks")
        had = self.buffers or {}
        for name in [name for name in module._buffers if not had.get(name, False)]:
            if name in had:
                module._buffers[name] = None
            else:
                del module._buffers[name]

    def _restore_length(self, container: Any, n: int, what: str) -> None:
        """Restores the length of a container; this is possible only if it was empty."""
        if n == 0 and type(container) in _CONTAINERS:
            container.clear()
        elif type(container) not in _CONTAINERS or len(container) != n:
            raise CannotRestore(f"{what} of {type(self.module()).__name__}")


_STANDARD = tuple(nn.Module().__dict__)
"""The attributes of every module."""
_LAST, _N = _STANDARD[-1], len(_STANDARD)


def snapshot_attributes(model: nn.Module) -> tuple[AttributeSnapshot, ...]:
    """Snapshots of all modules of a model; 2 µs each."""
    snapshots = []
    for module in modules_of(model):
        if isinstance(module, torch.jit.ScriptModule):
            continue
        held = module.__dict__
        # A module's own attributes come after the standard ones, unless some were set before `nn.Module.__init__`.
        is_usual = next(islice(held, _N - 1, None), None) == _LAST
        items = islice(held.items(), _N, None) if is_usual else held.items()
        noted = {
            name: value if type(value) in _PLAIN else _record(value)
            for name, value in items
            if is_usual or name not in _STANDARD
        }
        noted["training"] = module.training
        buffers = module._buffers
        had = {name: tensor is not None for name, tensor in buffers.items()} if buffers else None
        hooks = len(module._forward_hooks), len(module._forward_pre_hooks)
        inner = {name: id(child) for name, child in module._modules.items()} if module._modules else None
        snapshots.append(AttributeSnapshot(weakref.ref(module), noted, hooks, had, inner))
    return tuple(snapshots)


def _record(value: Any) -> Any:
    if type(value) in _CONTAINERS:
        return _ContainerLength(len(value))
    return _TensorReference(weakref.ref(value), version_of(value)) if type(value) is Tensor else _NOT_RECORDED
