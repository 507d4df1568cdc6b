"""From the stream of events to the graph: who made each argument, and what each value was.

There is one resolver and three moments at which it works. With everything saved by reference, events
only pile up during the forward pass and are resolved afterwards, because all tensors are still alive.
Before an operation that overwrites memory, the pile so far is resolved, so that values kept by
reference can be copied in time. And when only some values are saved, each event is resolved at once and
its tensors are let go.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from threading import RLock
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import Parameter

from cutaway.capture.aliases import Storages, storage_of
from cutaway.capture.calls import ENTER, Call
from cutaway.capture.functions import Opaque, function_of, known_functions, written
from cutaway.capture.saving import Saver
from cutaway.capture.unseen import nearest_in_autograd
from cutaway.core.events import Ref
from cutaway.core.trees import leaves, replace
from cutaway.graph.nodes import (
    ALIAS,
    CONSTANT,
    IDENTITY,
    INPLACE,
    INPUT,
    OP,
    OPAQUE,
    UNSAVED,
    CallRow,
    Nodes,
    describe,
)

_PLAIN = frozenset(
    {
        int,
        float,
        bool,
        complex,
        str,
        type(None),
        torch.dtype,
        torch.device,
        torch.Size,
        torch.layout,
        torch.memory_format,
        torch.Generator,
        type(Ellipsis),
    }
)
_NUMBERS = (bool, int, float, complex, np.ndarray, np.generic)


def is_tensor(value: Any) -> bool:
    return isinstance(value, Tensor)


class Resolver:
    """The sink that builds the graph of a trace.

    Args:
        calls: the module calls, as capture numbers them.
        saver: decides which values are kept, and how.
    """

    def __init__(self, calls: dict[int, Call], saver: Saver) -> None:
        self.nodes = Nodes()
        self.rows: dict[int, CallRow] = {0: CallRow(-1, 0, 1, False, 0.0, None, 0)}
        self.inputs: list[tuple[str, int]] = []
        self.outputs: list[tuple[str, int]] = []
        self.root: torch.nn.Module | None = None
        self.sources: dict[int, Any] = {}
        """Source nodes → weak references to their tensors, for naming them afterwards."""
        self.overwritten: list[tuple[int, int]] = []
        """(node that wrote, id of the tensor it wrote to)."""
        self.grad_edges: dict[int, tuple[Any, int]] = {}
        """Nodes whose tensor was overwritten since → the autograd node and output that stand for them."""
        self._calls = calls
        self._saver = saver
        self._ids: dict[int, int] = {}
        self._refs: dict[int, Any] = {}
        self._weak = not saver.keeps_all
        self._tracking = False
        self._storages = Storages()
        self._passes: dict[int, int] = {}
        self._pending: list[tuple[Any, ...]] = []
        self._lock = RLock()
        self.append: Callable[[tuple[Any, ...]], None] = self._append_now if self._weak else self._pending.append

    def _append_now(self, event: tuple[Any, ...]) -> None:
        with self._lock, torch._C.DisableTorchFunction():
            self._resolve([event])

    def flush(self) -> None:
        """Resolve what has piled up."""
        with self._lock, torch._C.DisableTorchFunction():
            n = len(self._pending)
            batch = self._pending[:n]
            del self._pending[:n]
            self._resolve(batch)

    def before_write(self, tensors: list[Tensor]) -> None:
        """Copy the values that the coming operation would overwrite."""
        with self._lock, torch._C.DisableTorchFunction():
            n = len(self._pending)
            if n:
                batch = self._pending[:n]
                del self._pending[:n]
                self._resolve(batch)
            if not self._tracking:
                self._start_tracking()
            for tensor in tensors:
                if isinstance(tensor, Tensor):
                    self.node_of(tensor)
                    self._copy(self._storages.release(tensor))

    def node_of(self, tensor: Tensor, call: int = 0) -> int:
        """The node that stands for the tensor as it is now; a source if nothing seen has made it."""
        node = self._ids.get(id(tensor))
        if node is not None and self._weak and self._refs[node]() is not tensor:
            node = None
        if node is None:
            return self._source(tensor, call)
        if self._tracking:
            return self._after_writes(tensor, node, call)
        return node

    def _resolve(self, events: list[tuple[Any, ...]]) -> None:
        known = known_functions().get
        ids = self._ids
        for event in events:
            if len(event) != 11:
                self._module_event(event)
                continue
            func, args, kwargs, result, call, _, _, _, _, _, version = event
            function = known(func) or function_of(func)
            parents: list[int] = []
            if self._weak:
                event = self._without_tensors(event, parents)
                kwargs_left = None
            else:
                tracking = self._tracking
                for value in args:
                    kind = type(value)
                    if kind is Tensor or kind is Parameter:
                        node = self.node_of(value, call) if tracking else ids.get(id(value))
                        parents.append(self._source(value, call) if node is None else node)
                    elif kind not in _PLAIN:
                        self._nested(value, call, parents)
                kwargs_left = kwargs
            if kwargs_left:
                for value in kwargs_left.values():
                    if type(value) not in _PLAIN:
                        self._nested(value, call, parents)
            if function.writes or (kwargs and "out" in kwargs):
                targets = written(function, args, kwargs)
                if targets:
                    self._written(event, function.name, tuple(parents), result, targets)
                    continue
            if type(result) is Tensor:
                self._made(event, function.name, tuple(parents), result, "", version)
            else:
                self._made_several(event, function.name, tuple(parents), result)

    def _without_tensors(self, event: tuple[Any, ...], parents: list[int]) -> tuple[Any, ...]:
        """Find the parents and return the event with references in the place of its tensors."""
        call = event[4]
        args = tuple([self._stand_in(value, call, parents) for value in event[1]])
        kwargs = event[2]
        if kwargs:
            kwargs = {key: self._stand_in(value, call, parents) for key, value in kwargs.items()}
        return (event[0], args, kwargs, None, *event[4:])

    def _stand_in(self, value: Any, call: int, parents: list[int]) -> Any:
        kind = type(value)
        if kind is Tensor or kind is Parameter:
            node = self.node_of(value, call)
            parents.append(node)
            return Ref(node)
        if kind in _PLAIN:
            return value
        first = len(parents)
        self._nested(value, call, parents)
        if len(parents) == first:
            return value
        order = iter(parents[first:])
        return replace(value, lambda _: Ref(next(order)), is_tensor)

    def _nested(self, value: Any, call: int, parents: list[int]) -> None:
        """Add the tensors inside one argument; containers of torch arguments are shallow."""
        if isinstance(value, Tensor):
            parents.append(self.node_of(value, call))
        elif isinstance(value, (list, tuple, set)):
            for item in value:
                if type(item) not in _PLAIN:
                    self._nested(item, call, parents)
        elif isinstance(value, dict):
            for item in value.values():
                self._nested(item, call, parents)
        elif isinstance(value, slice):
            for item in (value.start, value.stop, value.step):
                if isinstance(item, Tensor):
                    parents.append(self.node_of(item, call))

    def _made(
        self, event: tuple[Any, ...], name: str, parents: tuple[int, ...], tensor: Tensor, path: str, version: Any
    ) -> int:
        """One tensor came out of an operation."""
        known = self._ids.get(id(tensor))
        if known is not None and self._weak and self._refs[known]() is not tensor:
            known = None
        nodes = self.nodes
        node = nodes.add(OP, name, event, parents, event[4], path)
        if function_of(event[0]).is_opaque:
            nodes.flags[node] = OPAQUE
        if known is not None:
            # The function gave back what it was given: the producer keeps the value.
            nodes.flags[node] |= IDENTITY
        else:
            self._ids[id(tensor)] = node
        self._keep(node, tensor, version, is_new=known is None)
        return node

    def _made_several(self, event: tuple[Any, ...], name: str, parents: tuple[int, ...], result: Any) -> None:
        versions = event[10] if isinstance(event[10], list) else None
        if isinstance(result, Tensor):
            self._made(event, name, parents, result, "", None)
        elif isinstance(result, (tuple, list)):
            found = False
            fields = getattr(type(result), "__match_args__", None) or ()
            for i, item in enumerate(result):
                if isinstance(item, Tensor):
                    found = True
                    path = fields[i] if i < len(fields) else str(i)
                    self._made(event, name, parents, item, path, versions[i] if versions else None)
                elif isinstance(item, (tuple, list, dict)):
                    for below, tensor in leaves(item, is_tensor):
                        found = True
                        self._made(event, name, parents, tensor, f"{i}.{below}", None)
            if not found and result and all(isinstance(item, (*_NUMBERS, list)) for item in result):
                self._escaped(event, name, parents, result)
        elif isinstance(result, _NUMBERS):
            if parents:
                self._escaped(event, name, parents, result)
        elif type(event[0]) is Opaque:
            for path, tensor in leaves(result, is_tensor):
                self._made(event, name, parents, tensor, path, None)

    def _escaped(self, event: tuple[Any, ...], name: str, parents: tuple[int, ...], result: Any) -> None:
        """A plain number left torch (`item`, `bool`, `tolist`)."""
        node = self.nodes.add(OP, name, event, parents, event[4], "")
        if not isinstance(result, np.ndarray):
            self.nodes.value[node] = list(result) if isinstance(result, list) else result
        else:
            self.nodes.meta[node] = describe(result)
            if not self._weak or self._saver.wants_node(node):
                self.nodes.value[node] = result.copy()

    def _written(
        self, event: tuple[Any, ...], name: str, parents: tuple[int, ...], result: Any, targets: list[Tensor]
    ) -> None:
        """An operation overwrote some of its arguments: each target is a new value, so a new node."""
        single = isinstance(result, Tensor)
        if single and not any(result is target for target in targets):
            # batch_norm: its result is another tensor, and the statistics were updated on the side.
            writer = self._made(event, name, parents, result, "", event[10])
        elif not single and isinstance(result, (tuple, list)) and not any(r is t for r in result for t in targets):
            before = len(self.nodes)
            self._made_several(event, name, parents, result)
            writer = len(self.nodes) - 1 if len(self.nodes) > before else -1
        else:
            writer = -1
        for i, target in enumerate(targets):
            node = writer
            if node < 0:
                path = str(i) if len(targets) > 1 else ""
                node = self.nodes.add(OP, name, event, parents, event[4], path)
                self.nodes.flags[node] = INPLACE
                self._ids[id(target)] = node
                self._keep(node, target, _version(target), is_new=True)
            self._storages.wrote(node, target)
            self.overwritten.append((node, id(target)))

    def _keep(self, node: int, tensor: Tensor, version: Any, is_new: bool) -> None:
        """Save the value of a new node as the saver wishes."""
        nodes = self.nodes
        if not self._weak:
            nodes.value[node] = tensor
            nodes.version[node] = version
            if self._tracking:
                self._storages.hold(node, tensor)
            return
        nodes.meta[node] = describe(tensor)
        if is_new:
            self._refs[node] = weakref.ref(tensor)
            if self._tracking:
                storage = storage_of(tensor)
                if storage is not None and not nodes.flags[node] & INPLACE and not self._shares(node, storage):
                    self._storages.forget(storage)
        if self._saver.wants_node(node, tensor):
            self.save(node, tensor)

    def save(self, node: int, tensor: Tensor) -> None:
        """Keep the value of a node now."""
        nodes = self.nodes
        if nodes.value[node] is not UNSAVED:
            return
        if tensor.grad_fn is not None:
            self.grad_edges[node] = (tensor.grad_fn, tensor.output_nr)
        value, is_reference = self._saver.keep(node, tensor)
        nodes.value[node] = value
        if is_reference:
            nodes.version[node] = _version(tensor)
            if self._tracking:
                self._storages.hold(node, tensor)

    def _shares(self, node: int, storage: int) -> bool:
        """Whether a parent lives in the same storage, so that this is a view and no new memory."""
        for parent in self.nodes.parents[node]:
            tensor = self._refs[parent]() if parent in self._refs else None
            if tensor is not None and storage_of(tensor) == storage:
                return True
        return False

    def _source(self, tensor: Tensor, call: int) -> int:
        """A tensor that nothing seen has made: an input, a parameter, a buffer, or a constant."""
        unseen = self._made_unseen(tensor)
        if unseen:
            event = self._synthetic_event(made_unseen, unseen, call)
            node = self.nodes.add(OP, made_unseen.__name__, event, unseen, call, "")
            self.nodes.flags[node] = OPAQUE
            self._ids[id(tensor)] = node
            self._keep(node, tensor, _version(tensor), is_new=True)
            return node
        node = self.nodes.add(CONSTANT, CONSTANT, None, (), call, "")
        self._ids[id(tensor)] = node
        self.nodes.requires_grad[node] = tensor.requires_grad
        if isinstance(tensor, Parameter):
            self.nodes.kind[node] = "parameter"
        self._keep(node, tensor, _version(tensor), is_new=True)
        self.sources[node] = weakref.ref(tensor)
        return node

    def _after_writes(self, tensor: Tensor, node: int, call: int) -> int:
        """If the tensor's memory was overwritten through another one since, a node that says so."""
        writers = self._storages.writers_since(node, tensor)
        if not writers:
            return node
        parents = (node, *writers)
        alias = self.nodes.add(
            OP, alias_write.__name__, self._synthetic_event(alias_write, parents, call), parents, call, ""
        )
        self.nodes.flags[alias] = ALIAS
        self._ids[id(tensor)] = alias
        self._keep(alias, tensor, _version(tensor), is_new=True)
        return alias

    def _made_unseen(self, tensor: Tensor) -> tuple[int, ...]:
        """The known tensors that an unknown one was computed from by code that torch does not show.

        A view knows its base, and a tensor with a gradient knows its autograd graph.
        """
        if isinstance(tensor, Parameter):
            return ()
        base = tensor._base if tensor._is_view() else None
        if base is not None and id(base) in self._ids:
            return (self.node_of(base),)
        if tensor.grad_fn is None:
            return ()
        known = {
            alive.grad_fn: node
            for node in range(len(self.nodes))
            if (alive := self.alive(node)) is not None and alive.grad_fn is not None
        }
        found, leaves_found = nearest_in_autograd(tensor, known)
        used = [leaf for leaf in leaves_found if isinstance(leaf, Parameter) or id(leaf) in self._ids]
        return tuple(sorted({*found, *(self.node_of(leaf) for leaf in used)}))

    def alive(self, node: int) -> Tensor | None:
        """The tensor of a node, if the program still has it as it was."""
        if self._weak:
            ref = self._refs.get(node)
            return ref() if ref is not None else None
        value = self.nodes.value[node]
        return value if isinstance(value, Tensor) else None

    def _synthetic_event(self, function: Any, parents: tuple[int, ...], call: int) -> tuple[Any, ...]:
        """An event for a change that no call stands for; it is placed where its last parent was made."""
        last = self.nodes.event[parents[-1]]
        code, instruction, ended = (last[6], last[7], last[9]) if last else (None, 0, 0)
        refs = tuple(Ref(parent) for parent in parents)
        return (function, refs, None, None, call, 0, code, instruction, ended, ended, None)

    def _start_tracking(self) -> None:
        """From the first write on, know which values are kept by reference to which storage."""
        self._tracking = True
        for node, value in enumerate(self.nodes.value):
            if isinstance(value, Tensor):
                self._storages.hold(node, value)

    def _copy(self, held: list[int]) -> None:
        """Replace references by copies, before what they refer to is overwritten."""
        nodes = self.nodes
        for node in held:
            value = nodes.value[node]
            if not isinstance(value, Tensor):
                continue
            if value.requires_grad and value.grad_fn is not None:
                self.grad_edges[node] = (value.grad_fn, value.output_nr)
            try:
                nodes.value[node] = value.detach().clone()
                nodes.version[node] = None
            except RuntimeError:  # no kernel to copy it: the version stamp will tell
                continue

    def _module_event(self, event: tuple[Any, ...]) -> None:
        number = event[1]
        call = self._calls[number]
        if event[0] == ENTER:
            key = id(call.module)
            pass_ = self._passes[key] = self._passes.get(key, 0) + 1
            row = CallRow(-1, call.parent, pass_, call.training, 0.0, call.code, call.instruction)
            row.is_root = call.module is self.root and not self._inside_root(call.parent)
            row.first_node = len(self.nodes)
            self.rows[number] = row
            row.module = self._saver.enter(number, call.module, pass_)
            call.entered = event[2]
            self._tensors_into(event[2], row, number)
        else:
            row = self.rows[number]
            row.seconds = (call.ended - call.started) * 1e-9
            if event[2] is not call.entered:  # a pre-hook of the module has replaced its arguments
                row.inputs.clear()
                self._tensors_into(event[2], row, number)
            call.entered = None
            self._tensors_into(event[3], row, number)
            self._tensors_out_of(event[4], row, number)
            row.is_finished = event[5]

    def _inside_root(self, number: int) -> bool:
        while number:
            row = self.rows[number]
            if row.is_root:
                return True
            number = row.parent
        return False

    def _tensors_into(self, tree: Any, row: CallRow, number: int) -> None:
        """Note the nodes of the tensors handed to a module."""
        if not tree:
            return
        nodes = self.nodes
        for path, tensor in leaves(tree, is_tensor, objects=row.is_root):
            node = self.node_of(tensor, number)
            while node >= row.first_node and nodes.flags[node] & (INPLACE | ALIAS):
                node = nodes.parents[node][0]  # overwritten since it was handed in
            row.inputs.append((path, node))
            if row.is_root:
                self.inputs.append((path, node))
                if nodes.kind[node] == CONSTANT:
                    nodes.kind[node] = nodes.name[node] = INPUT
                    nodes.path[node] = path
            if self._saver.wants_module(number, "in", path):
                self._saver.firm.add(node)
                self.save(node, tensor)

    def _tensors_out_of(self, result: Any, row: CallRow, number: int) -> None:
        """Note the nodes of the tensors that a module returned."""
        for path, tensor in leaves(result, is_tensor, objects=row.is_root):
            node = self.node_of(tensor, number)
            row.outputs.append((path, node))
            if row.is_root:
                self.outputs.append((path, node))
            if self._saver.wants_module(number, "out", path):
                self._saver.firm.add(node)
                self.save(node, tensor)


def alias_write(*_: Any) -> None:
    """Stands for a change of a tensor's value through another tensor that shares its memory."""


def made_unseen(*_: Any) -> None:
    """Stands for code that computed a tensor out of sight: a C++ extension, `as_subclass`…"""


def _version(tensor: Tensor) -> int | None:
    try:
        return int(tensor._version)
    except RuntimeError:  # made in inference mode
        return None
