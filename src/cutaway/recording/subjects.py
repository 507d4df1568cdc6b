"""What is recorded: one model or several, and the names of their modules, parameters and buffers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from cutaway.capture.inventory import module_addresses, modules_of, tensor_addresses
from cutaway.core.errors import InputError
from cutaway.core.trees import escape

Models = nn.Module | Mapping[str, nn.Module] | Sequence[nn.Module]


@dataclass(frozen=True, slots=True)
class Held:
    """A parameter or buffer and its names."""

    tensor: Tensor
    names: tuple[str, ...]
    is_buffer: bool


class Subjects:
    """The models of a run. With several, the name of each goes before the addresses inside it."""

    def __init__(self, models: Models) -> None:
        self.root = _as_one(models)
        self.modules: dict[int, tuple[nn.Module, tuple[str, ...]]] = {}
        self.held: list[Held] = []
        self.roots: dict[int, str] = {}
        """The models themselves → their address."""
        self.compiled: list[nn.Module] = []
        """Modules that run compiled: what they are made of is not looked into."""
        self.refresh()

    def refresh(self) -> None:
        """Look again: modules and parameters come and go (adapters, growing networks)."""
        addresses = module_addresses(self.root)
        modules = modules_of(self.root)
        self.compiled = [module for module in modules if is_compiled(module)]
        inside = {id(below) for module in self.compiled for below in modules_of(module) if below is not module}
        self.modules = {
            id(module): (module, addresses[id(module)])
            for module in modules
            if id(module) in addresses and id(module) not in inside and not isinstance(module, _Several)
        }
        self.roots = {
            id(module): addresses[id(module)][0]
            for module in (self.root._modules.values() if isinstance(self.root, _Several) else (self.root,))
            if module is not None
        }
        self.held = _held(modules, tensor_addresses(self.root, addresses))


class _Several(nn.Module):
    """Holds several models under their names; it never runs."""

    def __init__(self, models: Mapping[str, nn.Module]) -> None:
        super().__init__()
        for name, model in models.items():
            # add_module would refuse names with dots, and nothing here needs them to be attributes.
            self._modules[name] = model


def is_compiled(module: nn.Module) -> bool:
    """Whether a module runs what torch.compile made of it."""
    return type(module).__name__ == "OptimizedModule" or getattr(module, "_compiled_call_impl", None) is not None


def _as_one(models: Models) -> nn.Module:
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
    return _Several({escape(str(name)): model for name, model in named.items()})


def _held(modules: list[nn.Module], addresses: dict[int, tuple[str, ...]]) -> list[Held]:
    found: dict[int, Held] = {}
    for module in modules:
        for is_buffer, tensors in ((False, module._parameters), (True, module._buffers)):
            for tensor in tensors.values():
                if tensor is not None and id(tensor) not in found and id(tensor) in addresses:
                    found[id(tensor)] = Held(tensor, tuple(dict.fromkeys(addresses[id(tensor)])), is_buffer)
    return list(found.values())
