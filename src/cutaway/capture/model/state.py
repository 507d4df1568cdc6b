"""Full snapshot of a model's state, to undo the effects of a run.

While they run, modules cache by position, count their calls, resize buffers, fill lists and create attributes. A
snapshot copies the dictionary of each module and, below it, containers, plain objects and tensors, each shallowly;
`restore` puts the old contents back into the same objects.

Restored:

- class and all attributes of every module, so also its parameters, buffers, children and hooks by identity;
- dicts, lists, sets, deques, bytearrays, tuples of these, and objects with attributes or `__slots__`, however nested;
- the values of buffers and of tensors in attributes, up to `COPY_LIMIT` bytes, the smallest first; those of NumPy
  arrays up to the same size each;
- the memory, type and device of parameters;
- `torch.Generator`, `numpy.random` and `random.Random` objects in attributes.

Not restored:

- the values of parameters, and of tensors beyond `COPY_LIMIT`: they are not copied. If a run has written to one,
  `restore` warns;
- attributes of modules that FSDP shards, which FSDP manages elsewhere. Their flags and buffers are restored;
- objects that belong to torch or the standard library, or that hold a lock, thread, file, socket or generator: other
  code may use them;
- state outside the model: globals, class attributes, closures, `lru_cache`.
"""

from __future__ import annotations

import io
import queue
import random
import socket
import sys
import threading
import warnings
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from enum import Enum
from operator import is_
from types import (
    BuiltinFunctionType,
    FunctionType,
    GeneratorType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
    SimpleNamespace,
)
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parameter import UninitializedBuffer, UninitializedParameter, is_lazy

from cutaway.capture.model.tree import modules_of
from cutaway.capture.tensors.aliasing import storage_of, version_of
from cutaway.capture.tensors.copies import COPY_LIMIT, TensorCopies, is_set_to

MAX_VALUES = 200_000
"""Limit on container elements and object attributes that are visited, breadth first."""

_ATOMS = frozenset(
    [
        *(int, float, bool, complex, str, bytes, type(None), type(...), range, slice, type),
        *(FunctionType, BuiltinFunctionType, MethodType, ModuleType),
        *(torch.dtype, torch.device, torch.Size, torch.layout, torch.memory_format),
    ]
)
"""Types whose instances a run cannot change, and functions, whose closures are not restored."""
_CONTAINERS = frozenset([dict, OrderedDict, set, list])
_RESOURCES = (
    *(type(threading.Lock()), type(threading.RLock()), threading.Thread, threading.Condition, queue.Queue),
    *(io.IOBase, socket.socket, GeneratorType),
)
_FOREIGN = frozenset([*sys.stdlib_module_names, "torch", "numpy"])
_LAZY = (UninitializedParameter, UninitializedBuffer)
_MISSING: Any = object()

_Undo = Callable[[], object]


class ModelState:
    """A snapshot of a model. `restore` can be called any number of times.

    >>> model = nn.Linear(2, 2)
    >>> model.n_calls, model.cache = 0, []
    >>> state = ModelState(model)
    >>> model.n_calls = 1
    >>> model.cache.append(torch.ones(2))
    >>> state.restore()
    >>> model.n_calls, model.cache
    (0, [])
    """

    def __init__(self, model: nn.Module) -> None:
        self._model = model
        self._modules: list[tuple[nn.Module, type, dict[str, Any], dict[str, Any]]] = []
        """Each module with its class, its attributes, and a copy of these."""
        self._dicts: list[tuple[dict[Any, Any], dict[Any, Any]]] = []
        self._empty: list[Any] = []
        """Empty containers: most of what a module has."""
        self._undo: list[_Undo] = []
        """Undo functions for everything less common."""
        self._parameters: list[Tensor] = []
        self._tensors: list[Tensor] = []
        self._seen: set[int] = set()
        self._queue: deque[Any] = deque()
        self._left = MAX_VALUES
        self._slots: dict[type, tuple[MemberDescriptorType, ...] | None] = {}
        self._special: dict[type, Callable[[Any], None] | None] = {}
        """Module class → a special snapshot function, if its attributes are not enough."""
        self._snapshot_modules(modules_of(model))
        self._walk()
        self._versions = [version_of(tensor) for tensor in self._parameters]
        with torch.no_grad(), torch._C.DisableTorchFunction():  # only plain parameters: others may be slow to detach
            self._memory = [(each, each.detach()) for each in self._parameters if type(each) is nn.Parameter]
        self._copies = TensorCopies(self._tensors)
        self._storages: set[int | None] | None = None

    def restore(self) -> None:
        """Restores everything, and warns about what cannot be restored."""
        for module, kind, held, before in self._modules:
            if type(module) is not kind:
                module.__class__ = kind
            if module.__dict__ is not held:
                module.__dict__ = held
            if not _is_same(held, before):
                _refill(held, before)
        for container, contents in self._dicts:
            if not _is_same(container, contents):
                _refill(container, contents)
        # One test for all: most runs leave them empty.
        if any(map(len, self._empty)):
            for container in self._empty:
                container.clear()
        for undo in self._undo:
            undo()
        with torch.no_grad(), torch._C.DisableTorchFunction():
            for parameter, alias in self._memory:
                if not is_set_to(parameter, alias):  # `self.to(…)` in a forward changes the memory of a parameter
                    parameter.data = alias
        lost = self._copies.restore()
        if lost:
            _warn_about(self._model, lost, "too large to be copied before the run")

    @contextmanager
    def undo_changes(self) -> Iterator[None]:
        """Context manager: undoes all changes at the end of the block, so that each block starts alike."""
        try:
            yield
        finally:
            self.restore()

    def warn_about_parameters(self) -> None:
        """Warns about parameters that were written to: they are not copied and stay changed."""
        written = [
            tensor
            for tensor, version in zip(self._parameters, self._versions, strict=True)
            if version_of(tensor) != version and not is_lazy(tensor)
        ]
        if written:
            _warn_about(self._model, written, "a parameter, and parameters are not copied before the run")

    def detached(self, value: Tensor) -> Tensor:
        """The value itself, or a copy if `restore` may write to its memory."""
        if self._storages is None:
            self._storages = set(self._copies.storages())
        return value.clone() if storage_of(value) in self._storages else value

    # looking at everything once

    def _snapshot_modules(self, modules: Iterable[nn.Module]) -> None:
        """The inner loop: a model has hundreds of modules with about twenty attributes each."""
        seen, empty, enqueue, dicts = self._seen, self._empty, self._queue.append, self._dicts
        for module in modules:
            if id(module) in seen:
                continue
            seen.add(id(module))
            kind = type(module)
            note = self._special.get(kind, _MISSING)
            if note is _MISSING:
                note = self._special[kind] = self._snapshot_function(kind)
            if note is not None:
                note(module)
                continue
            held = module.__dict__
            self._modules.append((module, kind, held, held.copy()))
            parameters, buffers, children = module._parameters, module._buffers, module._modules
            for value in held.values():
                what = type(value)
                if what in _ATOMS:
                    continue
                if what in _CONTAINERS:
                    if not value:
                        empty.append(value)
                        continue
                    if value is parameters or value is buffers or value is children:
                        dicts.append((value, value.copy()))
                        continue
                enqueue(value)
            if parameters:
                self._parameters.extend(self._new(parameters))
            if buffers:
                self._tensors.extend(self._new(buffers))

    def _new(self, tensors: Mapping[str, Tensor | None]) -> list[Tensor]:
        """The tensors that were not visited before."""
        new = [tensor for tensor in tensors.values() if tensor is not None and id(tensor) not in self._seen]
        self._seen.update(map(id, new))
        self._undo += [_undo_lazy(tensor) for tensor in new if type(tensor) in _LAZY]
        return new

    def _walk(self) -> None:
        while self._queue:
            value = self._queue.popleft()
            if id(value) in self._seen:
                continue
            if isinstance(value, nn.Module):  # not a child: in a list or an object
                self._snapshot_modules(modules_of(value))
                continue
            self._seen.add(id(value))
            self._snapshot(value)
        if self._left < 0:
            warnings.warn(
                f"cutaway: the attributes of {type(self._model).__name__} hold more than {MAX_VALUES:,} values; "
                "changes that a run makes beyond this limit are not restored.",
                UserWarning,
                stacklevel=2,
            )

    def _snapshot(self, value: Any) -> None:
        # Before tensors in general: parameters are not copied.
        if isinstance(value, nn.Parameter):
            self._parameters.append(value)
        elif isinstance(value, Tensor):
            self._tensors.append(value)
        elif isinstance(value, (tuple, frozenset)):
            self._enqueue(value)
        elif isinstance(value, dict):
            base = OrderedDict if isinstance(value, OrderedDict) else dict
            # The methods of the base class: subclasses may override them, as `ModelOutput` does with item assignment.
            contents = dict(base.items(value))
            if self._enqueue(contents.values()):
                self._dicts.append((value, contents))
                self._snapshot_attributes(value)
        elif isinstance(value, (list, set, deque, bytearray)):
            self._snapshot_sequence(value)
        elif isinstance(value, np.ndarray):
            self._snapshot_array(value)
        elif isinstance(value, (torch.Generator, np.random.Generator, np.random.RandomState, random.Random)):
            self._undo.append(_undo_generator(value))
        elif not isinstance(value, (type, Enum)):
            self._snapshot_attributes(value)

    def _snapshot_sequence(self, value: Any) -> None:
        if isinstance(value, bytearray):
            contents: Any = bytes(value)
            self._undo.append(lambda: _refill_bytes(value, contents))
            return
        contents = list(value)
        if self._enqueue(contents):
            self._undo.append(lambda: _refill_sequence(value, contents))
            self._snapshot_attributes(value)

    def _snapshot_array(self, value: np.ndarray) -> None:
        if type(value) is np.ndarray and value.flags.writeable and value.nbytes <= COPY_LIMIT:  # no memory-mapped files
            before = value.copy()
            self._undo.append(lambda: np.copyto(value, before))

    def _snapshot_attributes(self, value: Any) -> None:
        """Snapshots the attributes of an object that belongs neither to torch nor to the standard library."""
        kind = type(value)
        if kind in _CONTAINERS or kind is deque:
            return
        slots = self._slots.get(kind, _MISSING)
        if slots is _MISSING:
            slots = self._slots[kind] = _slots_of(kind)
        if slots is None:
            return
        attributes = getattr(value, "__dict__", None)
        held: dict[str, Any] = attributes if type(attributes) is dict else {}
        in_slots = [(slot, _in_slot(slot, value)) for slot in slots]
        inside = [*held.values(), *(each for _, each in in_slots)]
        if any(issubclass(each, _RESOURCES) for each in set(map(type, inside))) or not self._enqueue(inside):
            return
        if held is attributes:
            before = held.copy()
            self._undo.append(lambda: _refill_attributes(value, held, before))
        if in_slots:
            self._undo.append(lambda: _refill_slots(value, in_slots))

    def _enqueue(self, values: Any) -> bool:
        """Queues values for a visit; False if the limit is reached."""
        self._left -= len(values)
        if self._left < 0:
            return False
        if not set(map(type, values)) <= _ATOMS:
            self._queue.extend([value for value in values if type(value) not in _ATOMS])
        return True

    def _snapshot_function(self, kind: type) -> Callable[[Any], None] | None:
        if issubclass(kind, torch.jit.ScriptModule):
            return self._snapshot_scripted
        is_sharded = any(base.__module__.startswith("torch.distributed.fsdp") for base in kind.__mro__)
        return self._snapshot_sharded if is_sharded else None

    def _snapshot_scripted(self, module: Any) -> None:
        """Snapshots a ScriptModule, which keeps its attributes in C++ and returns lists and dicts as copies."""
        buffers = dict(module._buffers.items())
        self._tensors.extend(self._new(buffers))
        concrete = getattr(module, "_concrete_type", None)
        names = ["training", *(concrete.get_attributes() if concrete is not None else ())]
        before = {name: getattr(module, name, _MISSING) for name in names}
        plain = {name: value for name, value in before.items() if isinstance(value, (int, float, str, list, dict))}
        self._undo.append(lambda: _refill_scripted(module, buffers, plain))

    def _snapshot_sharded(self, module: nn.Module) -> None:
        for each in modules_of(module):
            self._seen.add(id(each))
            self._tensors.extend(self._new(each._buffers))
            self._undo.append(lambda each=each, training=each.training: setattr(each, "training", training))  # type: ignore[misc]


def _is_same(now: dict[Any, Any], before: dict[Any, Any]) -> bool:
    """Whether a dict has the identical objects in the same order; `==` would compare tensors elementwise."""
    return len(now) == len(before) and all(map(is_, now.values(), before.values())) and all(map(is_, now, before))


def _refill(container: dict[Any, Any], contents: dict[Any, Any]) -> None:
    base = OrderedDict if isinstance(container, OrderedDict) else dict
    if len(container) == len(contents) and all(map(is_, container, contents)):
        for key, value in contents.items():  # same keys: other threads never see one missing
            base.__setitem__(container, key, value)
        return
    base.clear(container)
    for key, value in contents.items():
        base.__setitem__(container, key, value)


def _refill_sequence(container: Any, contents: list[Any]) -> None:
    if len(container) == len(contents) and all(map(is_, container, contents)):
        return
    if isinstance(container, list):
        list.__setitem__(container, slice(None), contents)
    elif isinstance(container, set):
        set.clear(container)
        set.update(container, contents)
    else:
        deque.clear(container)
        deque.extend(container, contents)


def _refill_bytes(container: bytearray, contents: bytes) -> None:
    if container != contents:
        container[:] = contents


def _refill_attributes(value: Any, held: dict[str, Any], before: dict[str, Any]) -> None:
    if value.__dict__ is not held:
        object.__setattr__(value, "__dict__", held)
    if not _is_same(held, before):
        _refill(held, before)


def _slots_of(kind: type) -> tuple[MemberDescriptorType, ...] | None:
    """The slots of a class; None if its instances are not restored."""
    if kind.__module__.partition(".")[0] in _FOREIGN and kind is not SimpleNamespace:
        return None
    return tuple(each for base in kind.__mro__ for each in vars(base).values() if type(each) is MemberDescriptorType)


def _in_slot(slot: MemberDescriptorType, value: Any) -> Any:
    try:
        return slot.__get__(value)
    except AttributeError:
        return _MISSING


def _refill_slots(value: Any, contents: list[tuple[MemberDescriptorType, Any]]) -> None:
    for slot, before in contents:
        now = _in_slot(slot, value)
        if now is not before:
            if before is _MISSING:
                slot.__delete__(value)
            else:
                slot.__set__(value, before)


def _refill_scripted(module: Any, buffers: dict[str, Tensor], before: dict[str, Any]) -> None:
    for name, tensor in buffers.items():
        if module._buffers[name] is not tensor:
            module._buffers[name] = tensor
    for name, value in before.items():
        if getattr(module, name, _MISSING) != value:
            setattr(module, name, value)


def _undo_lazy(tensor: Any) -> _Undo:
    """Undoes the first forward of a lazy parameter, which gives it memory and changes its class."""
    kind, device, dtype = type(tensor), tensor.device, tensor.dtype

    def undo() -> None:
        if type(tensor) is not kind:
            with torch.no_grad(), torch._C.DisableTorchFunction():
                tensor.data = torch.empty(0, device=device, dtype=dtype)
            tensor.__class__ = kind

    return undo


def _undo_generator(generator: Any) -> _Undo:
    if isinstance(generator, np.random.Generator):
        bits, bit_state = generator.bit_generator, generator.bit_generator.state
        return lambda: setattr(bits, "state", bit_state)
    is_python = isinstance(generator, random.Random)
    before = generator.getstate() if is_python else generator.get_state()
    return lambda: generator.setstate(before) if is_python else generator.set_state(before)


def _warn_about(model: nn.Module, tensors: list[Tensor], why: str) -> None:
    names = {id(tensor): name for name, tensor in (*model.named_parameters(), *model.named_buffers())}
    tensor = tensors[0]
    name = names.get(id(tensor), f"a tensor of shape {list(tensor.shape)} among its attributes")
    more = f" and {len(tensors) - 1:,} more" if len(tensors) > 1 else ""
    warnings.warn(
        f"cutaway: a run of {type(model).__name__} wrote to {name!r}{more}; this is not undone, because it is {why}.",
        UserWarning,
        stacklevel=3,
    )
