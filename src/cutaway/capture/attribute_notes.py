"""What a traced run found in the attributes of modules, noted without keeping anything alive.

A trace knows what buffers held before the run, because it saw who wrote to them. The flags and counters that say
whether a buffer is valid are plain attributes, which nobody sees being set: so they are noted when the run begins.
"""

from __future__ import annotations

import weakref
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from cutaway.capture.aliases import version_of
from cutaway.capture.model_tree import modules_of

_PLAIN = frozenset([int, float, bool, complex, str, bytes, type(None)])
_CONTAINERS = frozenset([dict, OrderedDict, list, set, deque])
_KNOWN_OTHERWISE = frozenset(["_parameters", "_buffers", "_modules"])
_OTHER: Any = object()
"""In the place of a value that is not noted."""


class CannotPutBack(Exception):
    """Names an attribute that the run changed, and whose earlier value is gone."""


@dataclass(frozen=True, slots=True)
class _Filled:
    """A container that had so many elements; which ones is not noted."""

    n: int


@dataclass(frozen=True, slots=True)
class _Referred:
    """A tensor, with the version it had."""

    tensor: Callable[[], Tensor | None]
    version: int | None


@dataclass(frozen=True, slots=True)
class NotedAttributes:
    """The attributes of one module before a run."""

    module: Callable[[], nn.Module | None]
    attributes: dict[str, Any]
    """Numbers, texts and flags by value; all others by what is known of them."""
    buffers: dict[str, bool] | None
    """Name → whether there was a tensor."""

    def put_back(self) -> None:
        """Set the attributes to what they were, as far as that is known.

        Raises `CannotPutBack` where the run has certainly changed one that is not known. What it has changed inside
        an object is not noticed.
        """
        module = self.module()
        if module is None:
            return
        held = module.__dict__
        for name in [name for name in held if name not in self.attributes]:
            if type(held[name]) in _PLAIN or not callable(held[name]):
                del held[name]
        for name, before in self.attributes.items():
            now = held.get(name, _OTHER)
            if type(before) in _PLAIN:
                held[name] = before
            elif type(before) is _Filled:
                if before.n == 0 and type(now) in _CONTAINERS:
                    now.clear()
                elif type(now) not in _CONTAINERS or len(now) != before.n:
                    raise CannotPutBack(f"the attribute {name!r} of {type(module).__name__}")
            elif type(before) is _Referred:
                tensor = before.tensor()
                if tensor is None or version_of(tensor) != before.version:
                    raise CannotPutBack(f"the attribute {name!r} of {type(module).__name__}")
                held[name] = tensor
        if self.buffers is not None:
            for name in [name for name in module._buffers if not self.buffers.get(name, False)]:
                if name in self.buffers:
                    module._buffers[name] = None
                else:
                    del module._buffers[name]


def noted_attributes(model: nn.Module) -> tuple[NotedAttributes, ...]:
    """Of all modules of a model; some microseconds each."""
    found = []
    for module in modules_of(model):
        held = module.__dict__
        noted = {name: value if type(value) in _PLAIN else _note(name, value) for name, value in held.items()}
        buffers = held.get("_buffers")
        had = {name: tensor is not None for name, tensor in buffers.items()} if type(buffers) is dict else None
        found.append(NotedAttributes(weakref.ref(module), noted, had))
    return tuple(found)


def _note(name: str, value: Any) -> Any:
    if type(value) in _CONTAINERS:
        return _Filled(len(value)) if name not in _KNOWN_OTHERWISE else _OTHER
    return _Referred(weakref.ref(value), version_of(value)) if type(value) is Tensor else _OTHER
