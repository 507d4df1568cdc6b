"""`trace.retained`: the tensors that autograd saves for the backward pass.

Autograd keeps saved tensors in packed form. They are read without unpacking, which would run the saved-tensor hooks of
the user or recompute a checkpoint.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import torch
from torch import Tensor

from cutaway.capture.tensors.aliasing import storage_of
from cutaway.core.errors import NotSavedError
from cutaway.graph.analysis.saved_for_backward import Retained, RetainedTensor
from cutaway.graph.op import Op
from cutaway.graph.tables import IDENTITY, INPLACE, OP
from cutaway.graph.trace import Trace

_RAW = "_raw_saved_"


def retained(trace: Trace) -> Retained:
    """Every tensor that autograd keeps for a backward pass through the ops of a trace."""
    nodes = trace.tables.nodes
    events = [event for event, kind in zip(nodes.event, nodes.kind, strict=True) if kind == OP and event is not None]
    if events and all(event[3] is None for event in events):
        raise NotSavedError(
            "trace.retained needs the live tensors, and this trace has released them: "
            "trace again with cutaway.trace(model, …), or with cutaway.watch(model) without save= and keep=."
        )
    with torch._C.DisableTorchFunction():
        return _AutogradWalk(trace).result()


class _AutogradWalk:
    """One walk through the autograd graph."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._nodes = trace.tables.nodes
        self._places: dict[tuple[Any, ...], int] = {}
        """(storage, offset, shape, strides) → the row with exactly this memory."""
        self._makers: dict[int, int] = {}
        """Storage → the first row with a value in it."""
        self._memories: dict[int, int] = {}
        self._n_freed = 0
        self._n_packed = 0

    def result(self) -> Retained:
        self._find_places()
        owners = self._owners()
        held = tuple(row for function, node in owners.items() for row in self._saved_rows(function, node))
        return Retained(self._trace, tuple(sorted(held, key=lambda row: row.op.node)), self._note(bool(owners)))

    def _note(self, any_recorded: bool) -> str:
        if not any_recorded:
            return "The trace ran without gradients, so autograd saved nothing for a backward pass."
        notes = []
        if self._n_freed:
            notes.append(
                "A backward pass has freed them: read trace.retained before it, or use backward(retain_graph=True)."
            )
        if self._n_packed:
            notes.append(
                f"{self._n_packed} tensors were packed by saved-tensor hooks (such as checkpoints) and are not counted."
            )
        return " ".join(notes)

    def _find_places(self) -> None:
        for node, value in enumerate(self._nodes.value):
            if isinstance(value, Tensor) and (storage := storage_of(value)) is not None:
                self._makers.setdefault(storage, node)
                self._places.setdefault(_place(storage, value), node)

    def _owners(self) -> dict[Any, int]:
        """Autograd node → the row of the op that created it."""
        nodes = self._nodes
        owners: dict[Any, int] = {}
        functions: dict[int, Any] = {}
        for node, value in enumerate(nodes.value):
            function = _grad_fn(value) if not nodes.flags[node] & IDENTITY else None
            if function is not None:
                owners.setdefault(function, node)
                functions[node] = function
        # The tensor of an overwritten value knows only its new autograd node; that node links to the previous one.
        for node in range(len(nodes) - 1, -1, -1):
            if node in functions and nodes.flags[node] & INPLACE and nodes.parents[node]:
                before, function = nodes.parents[node][0], _next(functions[node])
                if (
                    function is not None
                    and function not in owners
                    and nodes.kind[before] == OP
                    and before not in functions
                ):
                    owners[function], functions[before] = before, function
        # One op can create several autograd nodes: those that only it leads to belong to it.
        for node in sorted(functions):
            stack = [functions[node]]
            while stack:
                for function, _ in stack.pop().next_functions:
                    if function is not None and function not in owners:
                        owners[function] = node
                        stack.append(function)
        return owners

    def _saved_rows(self, function: Any, node: int) -> Iterator[RetainedTensor]:
        for name, tensor in self._saved_by(function):
            storage = storage_of(tensor)
            maker = None
            if storage is not None:
                maker = self._places.get(_place(storage, tensor), self._makers.get(storage))
            if maker is None and tensor.dim() == 0 and tensor.device.type == "cpu":
                continue  # a Python number that autograd has wrapped
            memory = self._memories.setdefault(id(tensor) if storage is None else storage, len(self._memories))
            of = None if maker is None else Op(self._trace, maker)
            yield RetainedTensor(Op(self._trace, node), name, of, _bytes(tensor, storage), memory)

    def _saved_by(self, function: Any) -> Iterator[tuple[str, Tensor]]:
        """The tensors an autograd node holds, with their names."""
        kind: Any = type(function)
        for raw_name in _raw_names(kind):
            name = raw_name.removeprefix(_RAW)
            try:
                raw = getattr(function, raw_name)
            except RuntimeError:  # freed by a backward pass
                self._n_freed += 1
                continue
            several = isinstance(raw, (tuple, list))
            for i, saved in enumerate(raw if several else (raw,)):
                # Not `unpack()`: it would run the hooks of the program, or recompute a checkpoint.
                packed = saved.data
                if isinstance(packed, Tensor):
                    yield (f"{name}.{i}" if several else name), packed
                elif packed is not None:
                    self._n_packed += 1
                elif not several and _is_freed(function, name, saved):
                    self._n_freed += 1
        for name, value in getattr(
            function, "__dict__", {}
        ).items():  # attributes that a custom autograd.Function set on ctx
            if isinstance(value, Tensor):
                yield name, value


@cache
def _raw_names(kind: type) -> tuple[str, ...]:
    return tuple(name for name in dir(kind) if name.startswith(_RAW))


def _is_freed(function: Any, name: str, saved: Any) -> bool:
    """Whether a backward pass has freed it; reading a freed tensor raises and unpacks nothing."""
    if saved.unpack_hook is not None:
        return False
    try:
        getattr(function, f"_saved_{name}")
    except RuntimeError:
        return True
    return False


def _grad_fn(value: Any) -> Any:
    try:
        return value.grad_fn if isinstance(value, Tensor) else None
    except RuntimeError:  # a view whose base was overwritten in a way that autograd forbids
        return None


def _next(function: Any) -> Any:
    edges = function.next_functions
    return edges[0][0] if edges else None


def _place(storage: int, tensor: Tensor) -> tuple[Any, ...]:
    return storage, tensor.storage_offset(), tensor.shape, tensor.stride(), tensor.dtype


def _bytes(tensor: Tensor, storage: int | None) -> int:
    if storage is not None:
        return int(tensor.untyped_storage().nbytes())
    try:
        if tensor.is_sparse:
            return int(tensor._values().nbytes + tensor._indices().nbytes)
        return int(tensor.nbytes)
    except RuntimeError:  # a tensor type without a size
        return 0
