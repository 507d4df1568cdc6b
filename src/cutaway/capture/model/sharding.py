"""Models whose parameters are spread over several processes: DTensors, FSDP2.

FSDP2 keeps a shard of each parameter, a DTensor. Around the forward of a module it gathers the whole parameter into
another tensor, puts that into the module, and frees its memory when the module returns. The ops read that tensor, and
by the end of the run the module has its shard again.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from cutaway.capture.model.tree import modules_of
from cutaway.capture.tensors.aliasing import storage_of
from cutaway.core.formatting import plural
from cutaway.graph.tables import Nodes, Unsaved, describe

if TYPE_CHECKING:
    from cutaway.capture.resolver import Resolver

Place = tuple[int, str]
"""A parameter of a module: id of the module, name."""
_FREED = "FSDP frees the gathered parameter when its module returns; keep='copy' keeps it"


class GatheredParameters:
    """The whole parameters that FSDP2 puts into modules while they run."""

    def __init__(self, resolver: Resolver, *, holds_references: bool) -> None:
        self.tensors: dict[Place, dict[int, Tensor]] = {}
        """Place of a parameter → the tensors that stood there while its module ran, by id."""
        self._resolver = resolver
        self._holds_references = holds_references
        self._read: dict[Place, int] = {}
        """Place of a parameter → the node of its shard when it was last gathered; -1 if no op had read it."""

    def before_gather(self, module: nn.Module) -> None:
        """Notes which shards the program has changed: gathered again, their parameters have other values."""
        self._resolver.flush()
        for inner in modules_of(module):
            for name, shard in inner._parameters.items():
                if shard is None or not is_dtensor(shard):
                    continue
                place, rows = (id(inner), name), self._resolver.rows_of(shard)
                before = self._read.setdefault(place, rows[-1] if rows else -1)
                if rows and rows[-1] != before:
                    self._read[place] = rows[-1]
                    for tensor in self.tensors.get(place, {}).values():
                        self._resolver.shards[id(tensor)] = shard
                        self._resolver.forget(tensor)

    def before_reshard(self, module: nn.Module) -> None:
        """Notes the gathered parameters of an FSDP module that is about to return, and lets go of their memory."""
        gathered: list[Tensor] = []
        for inner in modules_of(module):
            for name, tensor in inner._parameters.items():
                if tensor is not None and not is_dtensor(tensor):
                    self.tensors.setdefault((id(inner), name), {})[id(tensor)] = tensor
                    gathered.append(tensor)
        self._resolver.flush()  # queued events are resolved, and their values copied, while the memory is there
        if self._holds_references:
            with torch._C.DisableTorchFunction():
                self._drop_references(gathered)

    def _drop_references(self, tensors: list[Tensor]) -> None:
        """Marks the values in this memory as not saved: the next gathering would change them silently."""
        first = [node for tensor in tensors for node in self._resolver.rows_of(tensor)[:1]]
        storages = {storage_of(tensor) for tensor in tensors}
        nodes = self._resolver.nodes
        for node in range(min(first, default=len(nodes)), len(nodes)):
            value = nodes.value[node]
            if isinstance(value, Tensor) and storage_of(value) in storages:
                nodes.meta[node], nodes.value[node], nodes.version[node] = describe(value), Unsaved(_FREED), None

    def as_shards(self, root: nn.Module | None, sources: Iterable[Any]) -> list[Any]:
        """Weak references to the same tensors, with the shard in the model for each gathered parameter."""
        if not self.tensors:
            return list(sources)
        places = {key: place for place, tensors in self.tensors.items() for key in tensors}
        present = {
            (id(module), name): tensor
            for module in modules_of(root)
            for name, tensor in module._parameters.items()
            if tensor is not None
        }
        shards = [(ref, present.get(places.get(id(ref()), (0, "")))) for ref in sources]
        return [ref if shard is None else weakref.ref(shard) for ref, shard in shards]


def is_fsdp(module: nn.Module) -> bool:
    """Whether `fully_shard` was applied to a module."""
    fsdp = sys.modules.get("torch.distributed.fsdp")  # if it is not imported, no module is sharded
    return fsdp is not None and isinstance(module, fsdp.FSDPModule)


def is_dtensor(value: Any) -> bool:
    """Whether it is a `DTensor`; importing its module would take a second."""
    module = sys.modules.get("torch.distributed.tensor")
    return module is not None and isinstance(value, module.DTensor)


def n_processes(value: Any) -> int:
    """The number of processes that a tensor is spread over; 1 if it is not a DTensor."""
    return int(value.device_mesh.size()) if is_dtensor(value) else 1


def local_part(value: Any) -> Any:
    """The part of a DTensor in this process, without communication; any other value as it is."""
    while is_dtensor(value):
        value = value._local_tensor  # its method would be recorded by a running capture, and needs no more than this
    return resolved(value)


def resolved(value: Any) -> Any:
    """The result of a collective that may still be running; every process has already started it."""
    return value.wait() if type(value).__name__ == "AsyncCollectiveTensor" else value


def processes_of(model: nn.Module | None) -> int:
    """The number of processes that have to run a model together."""
    return max(len(ranks_of(model)), 1)


def ranks_of(model: nn.Module | None) -> frozenset[int]:
    """The ranks of the processes that have to run a model together; empty if there is only this one."""
    ranks: set[int] = set()
    for parameter in model.parameters() if model is not None else ():
        if is_dtensor(parameter):
            ranks.update(parameter.device_mesh.mesh.flatten().tolist())  # type: ignore[attr-defined]
    if isinstance(model, nn.parallel.DistributedDataParallel):
        ranks.update(torch.distributed.get_process_group_ranks(model.process_group))
    return frozenset(ranks) if len(ranks) > 1 else frozenset()


def sharding_notes(root: nn.Module | None, nodes: Nodes) -> tuple[str, ...]:
    """What a trace of a sharded model does not have; empty for all other models."""
    spread = [n for value in nodes.value if is_dtensor(value) and (n := n_processes(value)) > 1]
    n = max([processes_of(root), *spread])
    notes = []
    if spread:
        notes.append(
            f"{plural(len(spread), 'value')} {'is a DTensor' if len(spread) == 1 else 'are DTensors'} over {n} "
            "processes: this trace has the part of this process"
        )
    n_freed = sum(1 for value in nodes.value if isinstance(value, Unsaved) and value.reason == _FREED)
    if n_freed:
        notes.append(f"{plural(n_freed, 'value')} not saved: {_FREED}")
    return tuple(notes)
