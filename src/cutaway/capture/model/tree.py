"""Walks the modules, parameters and buffers of a model, and their addresses."""

from __future__ import annotations

from torch import Tensor, nn

from cutaway.core.pytree import escape
from cutaway.core.sites import ROOT


def modules_of(root: nn.Module | None) -> list[nn.Module]:
    """Every module of a model once, in order; several times faster than `root.modules()` on deep models."""
    if root is None:
        return []
    modules: dict[int, nn.Module] = {}
    stack = [root]
    while stack:
        module = stack.pop()
        if id(module) not in modules:
            modules[id(module)] = module
            if module._modules:
                stack.extend([child for child in reversed(module._modules.values()) if child is not None])
    return list(modules.values())


def structure_of(root: nn.Module) -> int:
    """A fingerprint that changes if a module is added, removed or replaced."""
    return hash(tuple(map(id, modules_of(root))))


def module_addresses(root: nn.Module | None) -> dict[int, tuple[str, ...]]:
    """All addresses of every module of a model, by id of the module; the first address is its name.

    The walk is iterative: models can be 500 modules deep. It skips the wrappers of `torch.compile`.
    """
    by_module: dict[int, list[str]] = {}
    if root is None:
        return {}
    stack: list[tuple[str, nn.Module, tuple[int, ...]]] = [(ROOT, root, ())]
    while stack:
        address, module, above = stack.pop()
        known = by_module.setdefault(id(module), [])
        if address in known or id(module) in above:
            continue
        known.append(address)
        # Only a module that is reached again can close a cycle; noting all ancestors would be quadratic in depth.
        below = (*above, id(module)) if len(known) > 1 or len(above) < 1 else above
        children = [(name, child) for name, child in module._modules.items() if child is not None]
        for name, child in reversed(children):
            inner = address if name == "_orig_mod" else join(address, name)
            stack.append((inner, child, below))
    return {key: tuple(addresses) for key, addresses in by_module.items()}


def tensor_addresses(root: nn.Module | None, modules: dict[int, tuple[str, ...]]) -> dict[int, tuple[str, ...]]:
    """All addresses of every parameter and buffer, by id of the tensor; empty if `modules` is."""
    by_tensor: dict[int, tuple[str, ...]] = {}
    if modules:
        for module in modules_of(root):
            for name, tensor in (*module._parameters.items(), *module._buffers.items()):
                if tensor is not None:
                    here = tuple(join(address, name) for address in modules.get(id(module), ()))
                    by_tensor[id(tensor)] = by_tensor.get(id(tensor), ()) + here
    return by_tensor


def buffers_of(root: nn.Module | None) -> list[tuple[nn.Module, str, Tensor]]:
    """The buffers before the run: a forward may replace them."""
    return [
        (module, name, tensor)
        for module in modules_of(root)
        if module._buffers
        for name, tensor in module._buffers.items()
        if tensor is not None
    ]


def join(address: str, name: str) -> str:
    """Appends a name to an address.
    >>> join(".", "fc"), join("encoder", "2")
    ('fc', 'encoder.2')
    """
    return escape(name) if address == ROOT else f"{address}.{escape(name)}"
