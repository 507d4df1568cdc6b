"""Modules, parameters and buffers of the model with all their addresses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from cutaway.capture.model.sharding import Place
from cutaway.capture.model.tree import join, module_addresses, modules_of
from cutaway.capture.module_hooks import Call
from cutaway.capture.patches.own_call import is_call_visible
from cutaway.capture.resolver import Resolver
from cutaway.core.sites import ROOT
from cutaway.graph.tables import BUFFER, CONSTANT, PARAMETER, CallRow, ModuleRow, ParameterRow


class Inventory:
    """Names the modules and source tensors of a capture by their addresses in the model after the run."""

    def __init__(
        self,
        root: nn.Module | None,
        calls: dict[int, Call],
        resolver: Resolver,
        buffers: list[tuple[nn.Module, str, Tensor]],
        gathered: Mapping[Place, Mapping[int, Tensor]],
    ) -> None:
        self._gathered = gathered
        self._shards: dict[int, int] = {}
        """id of a gathered parameter → id of the parameter whose shard is in the model."""
        self._earlier: dict[int, list[tuple[str, Tensor]]] = {}
        for module, name, tensor in buffers:
            self._earlier.setdefault(id(module), []).append((name, tensor))
        self._calls = calls
        self._resolver = resolver
        self.modules: list[ModuleRow] = []
        self.parameters: list[ParameterRow] = []
        self.has_compiled_parts = False
        self._rows: dict[int, int] = {}
        self._tensors: dict[int, tuple[Tensor, bool, list[str]]] = {}
        self._owned: dict[int, list[int]] = {}
        self._add_modules(self._all_modules(root))
        self._add_tensors()

    def call_rows(self) -> list[CallRow]:
        """The calls in order, each with the row of its module."""
        rows = []
        for number, call in self._calls.items():
            row = self._resolver.module_io.rows.get(number)
            if row is None:
                row = CallRow(-1, call.parent, 1, call.training, 0.0, call.code, call.instruction)
            row.module = self._rows.get(id(call.module), -1) if call.module is not None else -1
            if row.module >= 0:
                self.modules[row.module].calls.append(number)
            rows.append(row)
        return rows

    def _all_modules(self, root: nn.Module | None) -> list[tuple[nn.Module, tuple[str, ...]]]:
        addresses = module_addresses(root)
        modules: dict[int, tuple[nn.Module, tuple[str, ...]]] = {}
        for module in modules_of(root):
            # The wrapper of `torch.compile`; by name, because importing dynamo takes seconds.
            if type(module).__name__ == "OptimizedModule":
                self.has_compiled_parts = True
                continue
            modules[id(module)] = (module, addresses.get(id(module), (f"<{type(module).__name__}>",)))
        strangers: dict[str, int] = {}
        for call in self._calls.values():
            called = call.module
            if called is None or id(called) in modules:
                continue
            if hasattr(called, "_orig_mod"):
                modules[id(called)] = (called, addresses.get(id(called), (ROOT,)))
                continue
            # Created inside the forward, or a loss outside the model: named after its class.
            name = f"<{type(called).__name__}>"
            n = strangers[name] = strangers.get(name, 0) + 1
            for path, inner in _below(called, name if n == 1 else f"<{type(called).__name__}-{n}>"):
                modules.setdefault(id(inner), (inner, (path,)))
        return list(modules.values())

    def _add_modules(self, modules: list[tuple[nn.Module, tuple[str, ...]]]) -> None:
        called = {id(call.module) for call in self._calls.values()}
        for module, addresses in modules:
            self._rows[id(module)] = len(self.modules)
            owned = self._owned.setdefault(id(module), [])
            # A forward may replace a buffer: the trace has seen the earlier tensor.
            buffers: Any = self._earlier.get(id(module)) or module._buffers.items()
            for is_buffer, tensors in ((False, module._parameters.items()), (True, buffers)):
                for name, tensor in tensors:
                    if tensor is None:
                        continue
                    _, _, known = self._tensors.setdefault(id(tensor), (tensor, is_buffer, []))
                    for address in addresses:
                        here = join(address, name)
                        if here not in known:
                            known.append(here)
                    owned.append(id(tensor))
                    self._shards.update(dict.fromkeys(self._gathered.get((id(module), name), ()), id(tensor)))
            row = ModuleRow(addresses, type(module).__name__, ())
            has_forward = getattr(type(module), "forward", None) is not nn.Module.forward
            # A class with its own `__call__` may run its forward where no hook sees it.
            row.has_forward = has_forward and (is_call_visible(module) or id(module) in called)
            self.modules.append(row)
        for module, _ in modules:
            children = tuple(
                self._rows[id(child)]
                for child in module._modules.values()
                if child is not None and id(child) in self._rows
            )
            self.modules[self._rows[id(module)]].children = children

    def _add_tensors(self) -> None:
        nodes = self._resolver.nodes
        places: dict[int, int] = {}
        for node, ref in self._resolver.sources.items():
            tensor = ref()
            if tensor is not None and id(tensor) in self._shards:
                places[self._shards[id(tensor)]] = node  # the ops read the gathered parameter
            elif tensor is not None and id(tensor) in self._tensors:
                places.setdefault(id(tensor), node)
        rows: dict[int, int] = {}
        for key, (tensor, is_buffer, addresses) in self._tensors.items():
            node = places.get(key, -1)
            if node >= 0 and nodes.kind[node] in (CONSTANT, PARAMETER):
                nodes.kind[node] = nodes.name[node] = BUFFER if is_buffer else PARAMETER
                nodes.path[node] = addresses[0]
            rows[key] = len(self.parameters)
            self.parameters.append(_parameter_row(tensor, is_buffer, addresses, node))
        for key, row in self._rows.items():
            self.modules[row].parameters = tuple(dict.fromkeys(rows[tensor] for tensor in self._owned[key]))
        for node, target in self._resolver.overwritten:
            if target in self._tensors:
                nodes.writes.setdefault(node, []).append(self._tensors[target][2][0])


def _parameter_row(tensor: Any, is_buffer: bool, addresses: list[str], node: int) -> ParameterRow:
    try:
        shape, numel, size = tuple(tensor.shape), int(tensor.numel()), int(tensor.nbytes)
    except (RuntimeError, ValueError, AttributeError):  # lazily initialized, or without a dense shape
        shape, numel, size = (), 0, 0
    dtype = str(tensor.dtype).removeprefix("torch.")
    return ParameterRow(tuple(addresses), shape, dtype, size, numel, is_buffer, bool(tensor.requires_grad), node)


def _below(module: nn.Module, name: str) -> list[tuple[str, nn.Module]]:
    return [(f"{name}.{path}" if path else name, inner) for path, inner in module.named_modules()]
