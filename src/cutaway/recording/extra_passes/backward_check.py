"""Decides whether an extra backward pass would run code of the program.

The autograd engine runs hooks of tensors and nodes, backward methods written in Python and the unpack hooks of saved
tensors (checkpoints are such hooks) in every pass, also for `torch.autograd.grad`. An extra pass would run them once
more than the program expects: a counter would count twice, a checkpoint would update batch norm again, `retain_grad`
would add to `.grad`. So every node of the graph is checked, and where something of this kind is found, or cannot be
ruled out, the extra pass is not run.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import compress
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import BackwardCFunction
from torch.utils.hooks import RemovableHandle

from cutaway.capture import sessions

_MISSING: Any = object()
_CHECKPOINT = "a part of the model is checkpointed, and would be recomputed once more"
_COMPILED = "a part of the model is compiled"
_HOOKED = "a hook of the program would run once more"


@dataclass(frozen=True, slots=True)
class GraphStart:
    """Counters of torch at the start of a step: what was registered or computed later has a higher number."""

    n_handles: int
    """Number of the next hook of any kind."""
    n_own: int
    """Hooks that captures and edits had registered."""
    sequence: int
    """Number of the next node of an autograd graph in this thread."""

    @staticmethod
    def now() -> GraphStart:
        # Without this function, all nodes count as built before the step, so that no extra pass runs.
        sequence = getattr(torch._C._autograd, "_get_sequence_nr", lambda: sys.maxsize)()
        return GraphStart(RemovableHandle.next_id, sessions.n_forward_hooks, sequence)

    def n_foreign_hooks(self, n_own: int) -> int:
        """Number of hooks that the program has registered since; `n_own` are those of this recorder."""
        return RemovableHandle.next_id - self.n_handles - (sessions.n_forward_hooks - self.n_own) - n_own


@dataclass(frozen=True, slots=True)
class Graph:
    """The nodes of an autograd graph and its leaves."""

    nodes: list[Any]
    leaves: list[Tensor]


def graph_of(outputs: Iterable[Tensor]) -> Graph:
    """The graph below some tensors. Visits each node once, without recursion: graphs can be very deep."""
    leaves = [tensor for tensor in outputs if tensor.grad_fn is None]
    stack: list[Any] = [tensor.grad_fn for tensor in outputs if tensor.grad_fn is not None]
    nodes = dict.fromkeys(stack)
    while stack:
        for node, _ in stack.pop().next_functions:
            if node is not None and node not in nodes:
                nodes[node] = None
                stack.append(node)
    leaves += [node.variable for node in nodes if hasattr(node, "variable")]
    return Graph(list(nodes), leaves)


def reason_to_skip(graph: Graph, start: GraphStart, n_own: int, is_own: Callable[[object], bool]) -> str:
    """Why an extra backward pass must not run through a graph; "" if it would run nothing of the program.

    Args:
        start: the counters at the start of the step.
        n_own: number of tensor hooks that this recorder has registered since.
        is_own: whether a key of `tensor._backward_hooks` is that of this recorder.
    """
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return "the program is distributed"
    if _uses_compiled_autograd():
        return "the backward pass is compiled"
    if start.n_foreign_hooks(n_own) > 0 or any(not is_own(key) for leaf in graph.leaves for key in _hooks(leaf)):
        return _HOOKED
    reason = next((reason for node in graph.nodes if (reason := _reason_of_node(node, start.sequence))), "")
    return reason or ("retain_grad() would add to the .grad of a tensor" if _retains_a_gradient(graph) else "")


def _hooks(leaf: Tensor) -> Collection[object]:
    return leaf._backward_hooks or ()


def _reason_of_node(node: Any, sequence: int) -> str:
    if isinstance(node, BackwardCFunction):
        return _reason_of_function(type(node).__name__.removesuffix("Backward"))
    if not hasattr(node, "variable") and node._sequence_nr() < sequence:
        return "a part of the graph was built before the step, so that its hooks are unknown"
    for name in _saved_names(type(node)):  # type: ignore[arg-type]
        for saved in _saved_tensors(node, name):
            hook = getattr(saved, "unpack_hook", _MISSING)
            if hook is not None:
                return _reason_of_unpack_hook(hook)
    return ""


def _reason_of_function(name: str) -> str:
    """The reason for a node whose backward is Python code: it may do anything."""
    if name.startswith("CompiledFunction"):
        return _COMPILED
    if "Checkpoint" in name:
        return _CHECKPOINT
    return _HOOKED if name == "BackwardHookFunction" else f"the backward of {name} is Python code and may have effects"


def _reason_of_unpack_hook(hook: Any) -> str:
    if hook is _MISSING:
        return "this version of torch does not tell whether saved tensors have hooks"
    if getattr(hook, "__module__", "") == "torch.utils.checkpoint":
        return _CHECKPOINT
    return "saved tensors have hooks, which would run once more"


def _saved_tensors(node: Any, name: str) -> Iterator[Any]:
    saved = getattr(node, name)
    for each in saved if isinstance(saved, (tuple, list)) else (saved,):
        if each is not None:
            yield each


@lru_cache(1 << 10)
def _saved_names(kind: type) -> tuple[str, ...]:
    return tuple(name for name in dir(kind) if name.startswith("_raw_saved_"))


def _retains_a_gradient(graph: Graph) -> bool:
    """Whether a tensor of the graph has `retain_grad()`: nothing but the tensor itself shows it, so look at all."""
    kinds, nodes, objects = _tensor_classes(Tensor), set(graph.nodes), gc.get_objects()
    # Without Python code for each object: there are hundreds of thousands.
    tensors = compress(objects, map(kinds.__contains__, map(type, objects)))
    return any(each.requires_grad and each.retains_grad and each.grad_fn in nodes for each in tensors)


def _tensor_classes(kind: type) -> set[type]:
    return {kind}.union(*map(_tensor_classes, kind.__subclasses__()))


def _uses_compiled_autograd() -> bool:
    module: Any = sys.modules.get("torch._dynamo.compiled_autograd")
    return bool(getattr(module, "compiled_autograd_enabled", False))
