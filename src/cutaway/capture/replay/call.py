"""Replays one function call of a trace on saved values, with the original autocast, grad mode and RNG."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from cutaway.capture.model.rng_state import restore_context
from cutaway.capture.outputs import tensors_returned
from cutaway.capture.patches.torch_patches import without_watchers
from cutaway.capture.tensors.written_memory import after_writes
from cutaway.capture.torch_functions import Function, function_of, written_tensors
from cutaway.core.errors import NotSavedError, StaleValueError
from cutaway.core.events import Context
from cutaway.core.pytree import replace
from cutaway.graph.op import Op
from cutaway.graph.tables import ALIAS, INPLACE, NEEDS_GRAD, OP, OPAQUE, Nodes, Tables
from cutaway.graph.trace import Trace


class MissingValue(Exception):
    """A value that a replay needs is not available; the message says why."""


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """One call of a function, with all its output nodes."""

    nodes: tuple[int, ...]
    event: tuple[Any, ...]

    @property
    def function(self) -> Function:
        return function_of(self.event[0])


def function_calls(tables: Tables) -> Iterator[FunctionCall]:
    """Yields every function call of a trace, in order."""
    nodes = tables.nodes
    nodes_of_call: list[int] = []
    for node, event in enumerate(nodes.event):
        if nodes.kind[node] != OP or event is None:
            continue
        # The results of one call share their event object and are neighbors.
        if nodes_of_call and nodes.event[nodes_of_call[0]] is not event:
            yield FunctionCall(tuple(nodes_of_call), nodes.event[nodes_of_call[0]])  # type: ignore[arg-type]
            nodes_of_call = []
        nodes_of_call.append(node)
    if nodes_of_call:
        yield FunctionCall(tuple(nodes_of_call), nodes.event[nodes_of_call[0]])  # type: ignore[arg-type]


def generators_of(tables: Tables) -> dict[Any, Any]:
    """Every random generator that the run used → its state before the first use."""
    states: dict[Any, Any] = {}
    for event in tables.nodes.event:
        if event is not None and isinstance(event[11], Context):
            for generator, state in event[11].generators:
                states.setdefault(generator, state)
    return states


def saved_value(trace: Trace, node: int) -> Any:
    """The value of a node, on the device on which it was computed."""
    tables = trace.tables
    if tables.is_transformed:
        raise MissingValue("its value was saved through transform=")
    try:
        value = Op(trace, node).value
    except NotSavedError:
        raise MissingValue("its value was not saved") from None
    except StaleValueError:
        raise MissingValue("its value was saved by reference and has been overwritten") from None
    kept = tables.nodes.value[node]
    # Detached without its own `__torch_function__`, such a tensor would lose its type and attributes.
    if isinstance(kept, Tensor) and _overrides_functions(kept):
        return kept
    meta = tables.nodes.meta[node]
    if isinstance(value, Tensor) and meta is not None and str(value.device) != meta.device:
        value = value.to(meta.device)
    return value


def inputs_of(trace: Trace, call: FunctionCall, known: Mapping[int, Any] | None = None) -> dict[int, Any]:
    """The saved values of all parents of a call, by node; `known` overrides them."""
    nodes, patched = trace.tables.nodes, trace.tables.patched
    values = {}
    for parent in dict.fromkeys(nodes.parents[call.nodes[0]]):
        if (call.nodes[0], parent) in patched:
            value = patched[call.nodes[0], parent]
        else:
            value = known[parent] if known is not None and parent in known else saved_value(trace, parent)
        is_plain = isinstance(value, Tensor) and not _overrides_functions(value)
        if is_plain and _needs_grad(nodes, parent) and _is_differentiable(value):
            value = value.detach().requires_grad_()
        values[parent] = value
    return values


def replay_call(trace: Trace, call: FunctionCall, values: Mapping[int, Any]) -> dict[int, Any]:
    """Calls the function again on these values of its parents, and returns the new value of each output node.

    It does not change the program's tensors: arguments that the function overwrites are copied first.
    """
    tables = trace.tables
    function, (func, args, kwargs) = call.function, call.event[:3]
    kwargs = kwargs or {}
    parents = tables.nodes.parents[call.nodes[0]]
    given = _fill_arguments(tables, (args, kwargs), parents, values)
    # The saved values of the trace must survive the replay.
    if function.writes or "out" in kwargs:
        targets = {id(target) for target in written_tensors(function, *given)}
        copies = {node: _clone(value) if id(value) in targets else value for node, value in values.items()}
        given = _fill_arguments(tables, (args, kwargs), parents, copies)
    with restore_context(call.event[11]), _subclass_dispatch(values):
        result = func(*given[0], **given[1])
    return dict(_by_node(tables.nodes, call, result, written_tensors(function, *given)))


@contextmanager
def _subclass_dispatch(values: Mapping[int, Any]) -> Iterator[None]:
    """Context manager: lets tensor subclasses among these values handle functions themselves, as in the traced run.

    Quantized weights compute `linear` in `__torch_function__`, which is off during a replay, as all function modes are.
    """
    if not any(isinstance(value, Tensor) and _overrides_functions(value) for value in values.values()):
        yield
        return
    with torch._C._EnableTorchFunction(), without_watchers():
        yield


def _overrides_functions(value: Tensor) -> bool:
    """Whether a tensor is of a subclass with its own `__torch_function__`."""
    function = getattr(type(value).__torch_function__, "__func__", type(value).__torch_function__)
    return function is not _INHERITED and function is not torch._C._disabled_torch_function_impl


_INHERITED = Tensor.__torch_function__.__func__  # type: ignore[attr-defined]


def replay_overwrite(trace: Trace, call: FunctionCall, values: Mapping[int, Any], target: int) -> Any:
    """The value of node `target` after this call, if the call overwrites it as a side effect; otherwise None."""
    tables = trace.tables
    func, args, kwargs = call.event[:3]
    parents = tables.nodes.parents[call.nodes[0]]
    targets = {
        id(each)
        for each in written_tensors(call.function, *_fill_arguments(tables, (args, kwargs or {}), parents, values))
    }
    if id(values.get(target)) not in targets:
        return None
    copies = {node: _clone(value) if id(value) in targets else value for node, value in values.items()}
    given = _fill_arguments(tables, (args, kwargs or {}), parents, copies)
    with restore_context(call.event[11]):
        func(*given[0], **given[1])
    return copies[target]


def after_alias_write(
    trace: Trace, call: FunctionCall, calls: Mapping[int, FunctionCall], known: Mapping[int, Any] | None = None
) -> Any:
    """Computes a value that was changed through other tensors: the old value with the writes applied.

    None if that cannot be determined. What a function writes besides its result (the running statistics of a batch
    norm) is found by calling it again.

    Args:
        calls: the calls so far, by output node.
        known: values that override the saved ones.
    """
    nodes = trace.tables.nodes
    old, *writers = nodes.parents[call.nodes[0]]
    writer = calls.get(writers[0]) if len(writers) == 1 else None
    # Batch norm writes its statistics besides its result, so no node has the written value: only the call tells.
    if writer is not None and not nodes.flags[writers[0]] & (INPLACE | OPAQUE | ALIAS):
        value = replay_overwrite(trace, writer, inputs_of(trace, writer, known), old)
        if value is not None:
            return value
    parts = [known[n] if known is not None and n in known else saved_value(trace, n) for n in (old, *writers)]
    return after_writes(parts, call.event[3])


def _by_node(nodes: Nodes, call: FunctionCall, result: Any, targets: list[Tensor]) -> Iterator[tuple[int, Any]]:
    returned = {path: tensor for path, tensor, _ in tensors_returned(result)}
    for node in call.nodes:
        path = nodes.path[node]
        if nodes.flags[node] & INPLACE:
            yield node, targets[int(path)] if path else targets[0]
        elif returned:
            yield node, returned[path]
        else:
            yield node, result


def _fill_arguments(tables: Tables, tree: Any, parents: tuple[int, ...], values: Mapping[int, Any]) -> Any:
    """Replaces the tensors in the arguments by the given values."""
    order = iter(parents)
    return replace(tree, lambda _: values[next(order)], tables.is_tensor)


def _clone(value: Any) -> Any:
    return value.detach().clone() if isinstance(value, Tensor) else value


def _needs_grad(nodes: Nodes, node: int) -> bool:
    return bool(nodes.flags[node] & NEEDS_GRAD) or bool(getattr(nodes.value[node], "requires_grad", False))


def _is_differentiable(value: Tensor) -> bool:
    return (value.is_floating_point() or value.is_complex()) and not torch.is_inference(value)
