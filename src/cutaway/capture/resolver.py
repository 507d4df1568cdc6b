"""Builds the graph from the stream of events: finds the producer of each argument, saves values.

Events are queued and resolved after the forward pass, while all tensors are alive. They are resolved earlier only
before memory is overwritten, so that values can be copied in time, and every few events if only some values are saved.
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

from cutaway.capture.arguments import PLAIN, add_nested, is_tensor, replace_tensors
from cutaway.capture.autograd_walk import made_unseen, uncaptured_sources
from cutaway.capture.module_hooks import Call
from cutaway.capture.module_io import ModuleIO
from cutaway.capture.outputs import tensors_returned
from cutaway.capture.saved.save_policy import Saver
from cutaway.capture.tensors.aliasing import (
    Snapshot,
    Storages,
    alias_write,
    copies_of_memory,
    keeps_grad_flag,
    storage_of,
    version_of,
)
from cutaway.capture.tensors.copies import detached_copy
from cutaway.capture.torch_functions import LINK, Opaque, function_of, known_functions, written_tensors
from cutaway.core.events import Ref
from cutaway.core.pytree import leaves
from cutaway.graph.tables import (
    ALIAS,
    CONSTANT,
    IDENTITY,
    INPLACE,
    LEFT_TORCH,
    NEEDS_GRAD,
    OP,
    OPAQUE,
    UNSAVED,
    Nodes,
    describe,
)

WRITE = "write"
_MAX_PENDING = 64
_MAX_PENDING_BYTES = 16 * 2**20
"""Limit on the bytes of unsaved values that queued events keep alive."""
_NUMBERS = (bool, int, float, complex, np.ndarray, np.generic)


class Resolver:
    """The sink that builds the graph of a trace.

    Args:
        calls: the module calls, by the number that capture gives them.
        saver: decides which values are saved, and how.
        gradients: whether backward passes will be captured.
    """

    def __init__(self, calls: dict[int, Call], saver: Saver, *, gradients: bool) -> None:
        self.nodes = Nodes()
        self.module_io = ModuleIO(self, calls, saver)
        self.sources: dict[int, Any] = {}
        """Source nodes → weak references to their tensors, to name them at the end."""
        self.overwritten: list[tuple[int, int]] = []
        """(node that wrote, id of the tensor it wrote to)."""
        self.grad_edges: dict[int, tuple[Any, int]] = {}
        """Nodes whose tensor was overwritten → the autograd node and output index they had before."""
        self.shards: dict[int, Tensor] = {}
        """id of a parameter that FSDP gathers again → its shard, which the program has changed since."""
        self._saver = saver
        self._ids: dict[int, int] = {}
        self._refs: dict[int, Any] = {}
        self._placeholders: dict[int, Ref] = {}
        self._weak, self._saves_nothing = not saver.keeps_all, saver.saves_nothing
        self._tracking, self._gradients = False, gradients
        self._storages = Storages(all_alive=not self._weak)
        self._pending: list[tuple[Any, ...]] = []
        self._pending_bytes, self._lock = 0, RLock()
        self.on_write: Callable[[list[Tensor]], None] | None = None
        """Called with tensors before they are overwritten, for others that hold their values by reference."""
        self.append: Callable[[tuple[Any, ...]], None] = self._append_to_batch if self._weak else self._pending.append

    def resolve_immediately(self) -> None:
        """Stops queuing: resolves each event at once, for a saver that must see values before the program continues."""

        def append(event: tuple[Any, ...]) -> None:
            self._pending.append(event)
            self.flush()

        self.append = append

    def _append_to_batch(self, event: tuple[Any, ...]) -> None:
        """Queues a few events: resolving them in one batch is twice as fast as one by one."""
        pending = self._pending
        pending.append(event)
        if len(event) == 12 and type(event[3]) is Tensor:
            self._pending_bytes += event[3].numel() * 4  # an estimate: not every tensor has nbytes
        if len(pending) >= _MAX_PENDING or self._pending_bytes > _MAX_PENDING_BYTES:
            self.flush()

    def flush(self) -> None:
        """Resolves all queued events."""
        with self._lock, torch._C.DisableTorchFunction():
            # In place: `append` is bound to this list, and other threads may add to it meanwhile.
            n = len(self._pending)
            batch = self._pending[:n]
            del self._pending[:n]
            self._pending_bytes = 0
            self._resolve(batch)

    def close(self) -> None:
        """Drops all references: the results are in the tables, and no cycle should keep tensors alive."""
        self.__dict__.clear()

    def before_write(self, tensors: list[Tensor], at_once: bool = False) -> None:
        """Preserves the saved values that the next operation overwrites."""
        if self.on_write is not None:
            self.on_write(tensors)
        if self._saves_nothing and tensors and not at_once and all(map(keeps_grad_flag, tensors)):
            self._tracking = True
            self._pending.append((WRITE, tensors, ()))  # no value is held: nothing to copy
            return
        # Other modes on the stack would see the copying as calls of the program.
        waits = not at_once and not self._weak and not torch._C._len_torch_function_stack()
        copies = copies_of_memory(tensors, gradients=self._gradients) if waits else []
        if copies:
            self._pending.append((WRITE, tensors, copies))
        else:
            self._copy_now(tensors)

    def _copy_now(self, tensors: list[Tensor]) -> None:
        with self._lock, torch._C.DisableTorchFunction():
            if self._pending:
                self.flush()
            if not self._tracking:
                self._start_tracking()
            for tensor in tensors:
                if isinstance(tensor, Tensor):
                    self.node_of(tensor)
                    self._copy(self._storages.release(tensor))

    def node_of(self, tensor: Tensor, call: int = 0) -> int:
        """The node of a tensor in its present state; a new source node if no captured op produced it."""
        node = self._ids.get(id(tensor))
        if node is not None and self._weak and self._refs[node]() is not tensor:
            node = None
        if node is None:
            return self._source(tensor, call)
        # Nodes are numbered in order of execution: a value newer than the last write cannot have been overwritten.
        if node < self._storages.last_write:
            writers = self._storages.writers_since(node, tensor)
            if writers:
                return self._after_writes(tensor, node, writers, call)
        if self._weak and tensor.requires_grad:
            # The output of an autograd.Function gets requires_grad only after forward has returned.
            self.nodes.flags[node] |= NEEDS_GRAD
        return node

    def rows_of(self, tensor: Tensor) -> list[int]:
        """The nodes that describe a tensor in its present state; empty if it is unknown. Adds no node."""
        node = self._ids.get(id(tensor))
        if node is None or (self._weak and self._refs[node]() is not tensor):
            return []
        return [node, *self._storages.writers_since(node, tensor)]

    def forget(self, tensor: Tensor) -> None:
        """Lets go of a tensor: when it is read again, it is another value."""
        self._ids.pop(id(tensor), None)

    def _resolve(self, events: list[tuple[Any, ...]]) -> None:
        known = known_functions().get
        ids, refs, add_op = self._ids, self._refs, self.nodes.add_op
        for event in events:
            if len(event) != 12:
                if event[0] is WRITE:
                    self._write_event(event)
                elif event[0] is LINK:
                    self._link(*event[1:])
                else:
                    self.module_io.handle(event)
                continue
            func, args, kwargs, result, call, _, _, _, _, _, version, _ = event
            function = known(func) or function_of(func)
            parents: list[int] = []
            # The common case: one new result. A result with a known id is an argument that the function returned.
            is_common = type(result) is Tensor and function.is_simple and not (kwargs and "out" in kwargs)
            if self._weak:
                event = self._without_tensors(event, parents)
                if is_common and ((node := ids.get(id(result))) is None or refs[node]() is not result):
                    node = ids[id(result)] = add_op(function.name, event, tuple(parents), UNSAVED, None)
                    self._save_new(node, result, None, is_new=True)
                    continue
            else:
                last_write = self._storages.last_write
                for value in args:
                    kind = type(value)
                    if kind is Tensor or kind is Parameter:
                        node = ids.get(id(value))
                        if node is None or node < last_write:
                            node = self.node_of(value, call)
                        parents.append(node)
                    elif kind not in PLAIN:
                        add_nested(value, call, parents, self.node_of)
                if kwargs:
                    for value in kwargs.values():
                        if type(value) not in PLAIN:
                            add_nested(value, call, parents, self.node_of)
                if is_common and id(result) not in ids:
                    node = ids[id(result)] = add_op(function.name, event, tuple(parents), result, version)
                    if self._tracking:
                        self._storages.hold(node, result)
                    continue
            if function.writes or (kwargs and "out" in kwargs):
                targets = written_tensors(function, args, kwargs)
                if targets:
                    self._add_written(event, function.name, tuple(parents), result, targets)
                    continue
            if type(result) is Tensor:
                self._add_output(event, function.name, tuple(parents), result, "", version)
            else:
                self._add_outputs(event, function.name, tuple(parents), result)

    def _without_tensors(self, event: tuple[Any, ...], parents: list[int]) -> tuple[Any, ...]:
        """Finds the parents, and returns the event with its tensors replaced by `Ref`."""
        call, kwargs = event[4], event[2]
        ids, refs, flags, placeholders = self._ids, self._refs, self.nodes.flags, self._placeholders
        last_write = self._storages.last_write
        args: list[Any] = []
        for value in event[1]:
            kind = type(value)
            if kind is Tensor or kind is Parameter:
                # `node_of` in place, for a tensor that is known and was not overwritten: this runs for every argument.
                node = ids.get(id(value))
                if node is None or node < last_write or refs[node]() is not value:
                    node = self.node_of(value, call)
                elif value.requires_grad:
                    flags[node] |= NEEDS_GRAD
                parents.append(node)
                placeholder = placeholders.get(node)
                if placeholder is None:
                    placeholder = placeholders[node] = Ref(node)
                args.append(placeholder)
            elif kind in PLAIN:
                args.append(value)
            else:
                args.append(replace_tensors(value, call, parents, self.node_of))
        if kwargs:
            kwargs = {key: replace_tensors(value, call, parents, self.node_of) for key, value in kwargs.items()}
        return (event[0], tuple(args), kwargs, None, *event[4:])

    def _add_output(
        self, event: tuple[Any, ...], name: str, parents: tuple[int, ...], tensor: Tensor, path: str, version: Any
    ) -> int:
        """Adds a node for one output tensor of an operation."""
        known = self._ids.get(id(tensor))
        if known is not None and self._weak and self._refs[known]() is not tensor:
            known = None
        nodes = self.nodes
        node = nodes.add(OP, name, event, parents, event[4], path)
        if function_of(event[0]).is_opaque:
            nodes.flags[node] = OPAQUE
        if known is not None:
            # The function returned its input: the value stays with the producer.
            nodes.flags[node] |= IDENTITY
        else:
            self._ids[id(tensor)] = node
        self._save_new(node, tensor, version, is_new=known is None)
        return node

    def _link(
        self,
        function: Opaque,
        given: list[Tensor],
        made: list[tuple[str, Tensor, int | None]],
        place: tuple[Any, ...],
    ) -> None:
        """Adds the results of an `autograd.Function` that none of its captured ops has produced."""
        parents: tuple[int, ...] | None = None
        for path, tensor, version in made:
            node = self._ids.get(id(tensor))
            if node is not None and not (self._weak and self._refs[node]() is not tensor):
                if self.nodes.version[node] is not None:
                    self.nodes.version[node] = version  # `mark_dirty` counts as one more write
                continue
            if parents is None:
                parents = tuple([self.node_of(each, place[0]) for each in given])
            refs = tuple([Ref(parent) for parent in parents])
            event = (function, refs, None, None, *place, None, False)
            self._add_output(event, function.__name__, parents, tensor, path, version)

    def _add_outputs(self, event: tuple[Any, ...], name: str, parents: tuple[int, ...], result: Any) -> None:
        versions = event[10] if isinstance(event[10], list) else None
        if isinstance(result, Tensor):
            self._add_output(event, name, parents, result, "", None)
        elif isinstance(result, (tuple, list)):
            has_tensors = False
            for path, tensor, i in tensors_returned(result):
                has_tensors = True
                self._add_output(
                    event, name, parents, tensor, path, versions[i] if versions and i is not None else None
                )
            if not has_tensors and result and all(isinstance(item, (*_NUMBERS, list)) for item in result):
                self._add_number(event, name, parents, result)
        elif isinstance(result, _NUMBERS):
            if parents:
                self._add_number(event, name, parents, result)
        elif type(event[0]) is Opaque:
            for path, tensor in leaves(result, is_tensor):
                self._add_output(event, name, parents, tensor, path, None)

    def _add_number(self, event: tuple[Any, ...], name: str, parents: tuple[int, ...], result: Any) -> None:
        """Adds a node for a Python number or array read from a tensor (`item`, `bool`, `tolist`)."""
        node = self.nodes.add(OP, name, event, parents, event[4], "")
        self.nodes.flags[node] = LEFT_TORCH
        if not isinstance(result, np.ndarray):
            self.nodes.value[node] = list(result) if isinstance(result, list) else result
        else:
            self.nodes.meta[node] = describe(result)
            if not self._weak or self._saver.wants_node(node):
                self.nodes.value[node] = result.copy()

    def _add_written(
        self, event: tuple[Any, ...], name: str, parents: tuple[int, ...], result: Any, targets: list[Tensor]
    ) -> None:
        """Adds nodes for an operation that overwrote arguments: each overwritten tensor is a new value."""
        single, function = isinstance(result, Tensor), function_of(event[0])
        if result is targets[0]:
            writer = -1
        elif single and not any(result is target for target in targets):
            # batch_norm returns a new tensor and updates its statistics as a side effect.
            writer = self._add_output(event, name, parents, result, "", event[10])
        elif not single and isinstance(result, (tuple, list)) and not any(r is t for r in result for t in targets):
            before = len(self.nodes)
            self._add_outputs(event, name, parents, result)
            writer = len(self.nodes) - 1 if len(self.nodes) > before else -1
        else:
            writer = -1
        for i, target in enumerate(targets):
            if function.moves or function.is_opaque:
                self._storages.forget_key(target)
            node = writer
            if node < 0:
                path = str(i) if len(targets) > 1 else ""
                node = self.nodes.add(OP, name, event, parents, event[4], path)
                self.nodes.flags[node] = INPLACE | OPAQUE if function.is_opaque else INPLACE
                self._ids[id(target)] = node
                version = event[10] if isinstance(event[10], int) else version_of(target)
                self._save_new(node, target, version, is_new=True)
            self._storages.record_write(node, target)
            self.overwritten.append((node, id(target)))

    def _save_new(self, node: int, tensor: Tensor, version: Any, is_new: bool) -> None:
        """Saves the value of a new node according to the saver."""
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
                # Freed memory is reused: writes to the earlier tensor at this address do not concern the new one.
                storage = storage_of(tensor)
                is_reused = self._storages.is_known(storage) and not nodes.flags[node] & INPLACE
                if storage is not None and is_reused and not self._shares(node, storage):
                    self._storages.forget(storage)
        if not self._saves_nothing and self._saver.wants_node(node, tensor):
            self.save(node, tensor)

    def save(self, node: int, tensor: Tensor) -> None:
        """Saves the value of a node now."""
        nodes = self.nodes
        if nodes.value[node] is not UNSAVED:
            return
        if tensor.grad_fn is not None:
            self.grad_edges[node] = (tensor.grad_fn, tensor.output_nr)
        if tensor.requires_grad:
            nodes.flags[node] |= NEEDS_GRAD
        value, is_reference = self._saver.keep(node, tensor)
        nodes.value[node] = value
        if is_reference:
            nodes.version[node] = version_of(tensor)
            if self._tracking:
                self._storages.hold(node, tensor)

    def _shares(self, node: int, storage: int) -> bool:
        """Whether a parent has the same storage, so that this is a view and not new memory."""
        for parent in self.nodes.parents[node]:
            tensor = self._refs[parent]() if parent in self._refs else None
            if tensor is not None and storage_of(tensor) == storage:
                return True
        return False

    def _source(self, tensor: Tensor, call: int) -> int:
        """Adds a node for a tensor that no captured op produced: an input, parameter, buffer or constant."""
        unseen = uncaptured_sources(self, tensor)
        if unseen:
            event = self._synthetic_event(made_unseen, unseen, call)
            node = self.nodes.add(OP, made_unseen.__name__, event, unseen, call, "")
            self.nodes.flags[node] = OPAQUE
            self._ids[id(tensor)] = node
            self._save_new(node, tensor, version_of(tensor), is_new=True)
            return node
        node = self.nodes.add(CONSTANT, CONSTANT, None, (), call, "")
        self._ids[id(tensor)] = node
        if isinstance(tensor, Parameter):
            self.nodes.kind[node] = "parameter"
        self._save_new(node, tensor, version_of(tensor), is_new=True)
        self.sources[node] = weakref.ref(tensor)
        return node

    def _after_writes(self, tensor: Tensor, node: int, writers: list[int], call: int) -> int:
        """Adds a node for a tensor whose memory was overwritten through other tensors."""
        parents = (node, *writers)
        event = self._synthetic_event(alias_write, parents, call)
        event = (*event[:3], self._storages.geometry(tensor, writers), *event[4:])
        alias = self.nodes.add(OP, alias_write.__name__, event, parents, call, "")
        self.nodes.flags[alias] = ALIAS
        self._ids[id(tensor)] = alias
        self._save_new(alias, tensor, version_of(tensor), is_new=True)
        return alias

    def overwritten_sources(self) -> dict[int, Any]:
        """Source nodes whose memory the run wrote to, also through views → weak references to their tensors."""
        written = {}
        for node, ref in self.sources.items():
            tensor = ref()
            if tensor is not None and self._storages.writers_since(node, tensor):
                written[node] = ref
        return written

    def is_known(self, tensor: Tensor) -> bool:
        """Whether the graph has a node for this tensor."""
        return id(tensor) in self._ids

    def alive(self, node: int) -> Tensor | None:
        """The tensor of a node, if the program still has it unchanged."""
        if self._weak:
            ref = self._refs.get(node)
            return ref() if ref is not None else None
        value = self.nodes.value[node]
        return value if isinstance(value, Tensor) else None

    def _synthetic_event(self, function: Any, parents: tuple[int, ...], call: int) -> tuple[Any, ...]:
        """An event for a change without a call of its own; it gets the source line of its last parent."""
        last = self.nodes.event[parents[-1]]
        code, instruction, ended = (last[6], last[7], last[9]) if last else (None, 0, 0)
        refs = tuple(Ref(parent) for parent in parents)
        return (function, refs, None, None, call, 0, code, instruction, ended, ended, None, False)

    def _start_tracking(self) -> None:
        """Starts tracking which values are saved by reference to which storage; needed from the first write on."""
        self._tracking = True
        for node, value in enumerate(self.nodes.value):
            if isinstance(value, Tensor):
                self._storages.hold(node, value)

    def _copy(self, held: list[int]) -> None:
        """Replaces references by copies, before the memory they refer to is overwritten."""
        nodes = self.nodes
        for node in held:
            value = nodes.value[node]
            if not isinstance(value, Tensor):
                continue
            if value.requires_grad:
                nodes.flags[node] |= NEEDS_GRAD
            if value.requires_grad and value.grad_fn is not None:
                self.grad_edges[node] = (value.grad_fn, value.output_nr)
            try:
                nodes.value[node] = detached_copy(value)
                nodes.version[node] = None
            except RuntimeError:  # no kernel to copy it: the version counter will reveal the write
                continue

    def _write_event(self, event: tuple[Any, ...]) -> None:
        """Points values saved by reference to this memory to the raw copy made before the write."""
        if not self._tracking:
            self._start_tracking()
        nodes = self.nodes
        # The tensors still have the same storage: functions that move memory are copied at once (`at_once`).
        for tensor in event[1]:
            self.node_of(tensor)
        for tensor, copy in zip(event[1], event[2], strict=False):
            for node in self._storages.release(tensor):
                value = nodes.value[node]
                if isinstance(value, Tensor):
                    nodes.value[node] = Snapshot(copy, value)
                    nodes.version[node] = None
