"""What is recorded: one model or several, and the names of their modules, parameters and buffers."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from cutaway.capture.model.tree import module_addresses, modules_of, tensor_addresses
from cutaway.core.errors import InputError
from cutaway.core.pytree import escape
from cutaway.core.units.layout import UnitLayout
from cutaway.recording.module_calls import CallWrappers
from cutaway.recording.recorded_units import parameter_units

Models = nn.Module | Mapping[str, nn.Module] | Sequence[nn.Module]


@dataclass(frozen=True, slots=True)
class NamedParameter:
    """A parameter or buffer and its names."""

    tensor: Tensor
    names: tuple[str, ...]
    is_buffer: bool


class RecordedModels:
    """The models of a run. With several, the name of each goes before the addresses inside it."""

    def __init__(self, models: Models) -> None:
        self.root = _as_module(models)
        self.modules: dict[int, tuple[nn.Module, tuple[str, ...]]] = {}
        self.parameters: list[NamedParameter] = []
        self.roots: dict[int, str] = {}
        """The models themselves → their address."""
        self.compiled: list[nn.Module] = []
        """Modules that run compiled: what they are made of is not looked into."""
        self.named: dict[str, nn.Module] = {}
        """The modules by address."""
        self._layouts: dict[str, UnitLayout | None] = {}
        self._contents: list[Any] = []
        self.refresh()

    def layout_of(self, parameter: NamedParameter) -> UnitLayout | None:
        """The output units of a parameter, where the module that owns it is one of torch's own layers."""
        name = parameter.names[0]
        if name not in self._layouts:
            if is_lazy(parameter.tensor):
                return None
            self._layouts[name] = parameter_units(self.named, name, parameter.tensor)
        return self._layouts[name]

    def refresh(self) -> None:
        """Look again: modules and parameters come and go (adapters, growing networks)."""
        modules = modules_of(self.root)
        contents = _contents(modules)
        if contents == self._contents:
            return
        self._contents = contents
        addresses = module_addresses(self.root)
        self.compiled = [module for module in modules if is_compiled(module)]
        inside = {id(inner) for module in self.compiled for inner in modules_of(module) if inner is not module}
        self.modules = {
            id(module): (module, addresses[id(module)])
            for module in modules
            if id(module) in addresses and id(module) not in inside and not isinstance(module, _ModelGroup)
        }
        self.roots = {
            id(module): addresses[id(module)][0]
            for module in (self.root._modules.values() if isinstance(self.root, _ModelGroup) else (self.root,))
            if module is not None
        }
        self.named = {name: module for module in modules for name in addresses.get(id(module), ())}
        self.parameters = _named_parameters(modules, tensor_addresses(self.root, addresses))
        self._layouts.clear()

    @property
    def is_traceable(self) -> bool:
        """Whether steps may be traced: whatever is compiled would run otherwise than it does."""
        return not self.compiled and not is_anything_compiled()


class _ModelGroup(nn.Module):
    """Holds several models under their names; it never runs."""

    def __init__(self, models: Mapping[str, nn.Module]) -> None:
        super().__init__()
        for name, model in models.items():
            # add_module would refuse names with dots, and nothing here needs them to be attributes.
            self._modules[name] = model


def _contents(modules: list[nn.Module]) -> list[Any]:
    """What names and modules found out before depend on; everything in it is held, so that no id comes again."""
    found: list[Any] = []
    for module in modules:
        found += (id(module), is_compiled(module))
        for inside in (module._modules, module._parameters, module._buffers):
            if inside:
                found += (*inside.keys(), *map(id, inside.values()))  # those of scripted modules are no dicts
            found.append(None)
    return found


def is_compiled(module: nn.Module) -> bool:
    """Whether a module runs what torch.compile made of it."""
    return (
        type(module).__name__ == "OptimizedModule"
        or _is_dynamo_wrapper(module.__dict__.get("_compiled_call_impl"))
        or _is_dynamo_wrapper(module.__dict__.get("forward"))
    )


def _is_dynamo_wrapper(call: Any) -> bool:
    while isinstance(getattr(call, "calls", None), CallWrappers):  # of another recorder, which is recording just now
        call = call.inner
    return call is not None and hasattr(call, "_torchdynamo_orig_callable")


def is_anything_compiled() -> bool:
    """Whether this program has compiled something at all: a function around the model is not seen otherwise."""
    dynamo: Any = sys.modules.get("torch._dynamo.eval_frame")
    return any(backend is not None for backend in getattr(dynamo, "cached_backends", {}).values())


def _as_module(models: Models) -> nn.Module:
    if isinstance(models, nn.Module) and not isinstance(models, (nn.ModuleDict, nn.ModuleList)):
        return models
    named: dict[str, Any]
    if isinstance(models, (Mapping, nn.ModuleDict)):
        named = dict(models.items())
    elif isinstance(models, (Sequence, nn.ModuleList)) and not isinstance(models, str):
        named = {str(number): model for number, model in enumerate(models)}
    else:
        raise InputError(f"record a torch.nn.Module, or several by name, and not a {type(models).__name__}.")
    for name, model in named.items():
        if not isinstance(model, nn.Module):
            raise InputError(f"{name!r} is to be recorded, and it is a {type(model).__name__} instead of a Module.")
    if not named:
        raise InputError("no model was given to record.")
    return _ModelGroup({escape(str(name)): model for name, model in named.items()})


def _named_parameters(modules: list[nn.Module], addresses: dict[int, tuple[str, ...]]) -> list[NamedParameter]:
    found: dict[int, NamedParameter] = {}
    for module in modules:
        for is_buffer, tensors in ((False, module._parameters), (True, module._buffers)):
            for tensor in tensors.values():
                if tensor is not None and id(tensor) not in found and id(tensor) in addresses:
                    found[id(tensor)] = NamedParameter(tensor, tuple(dict.fromkeys(addresses[id(tensor)])), is_buffer)
    return list(found.values())
