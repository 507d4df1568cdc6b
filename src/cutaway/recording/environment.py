"""Documents stored with a run: module tree, versions, machine, config."""

from __future__ import annotations

import inspect
import os
import platform
import sys
from collections.abc import Mapping
from functools import cache, lru_cache
from importlib import metadata
from itertools import takewhile
from typing import Any

import torch
from torch import nn

from cutaway.capture.model.tree import module_addresses, modules_of
from cutaway.core.version import __version__
from cutaway.store.format.frames import Plain

_PACKAGES = ("numpy", "transformers", "lightning", "accelerate", "peft", "triton")
# A config may hold anything, cycles included: depth and length must be bounded.
_MOST_DEPTH, _MOST_ITEMS, _MOST_TEXT = 12, 4096, 20_000


def environment() -> dict[str, Plain]:
    """Versions of packages, and the machine."""
    versions: dict[str, Plain] = {
        "cutaway": __version__,
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "platform": platform.platform(),
        "threads": torch.get_num_threads(),
        "command": sys.argv[0].replace("\\", "/").rsplit("/", 1)[-1] if sys.argv else "",
    }
    versions.update(_package_versions())
    if torch.cuda.is_available():
        names = [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]
        versions["devices"] = list(names)
        versions["cuda"] = str(torch.version.cuda)
    return versions


@cache
def _package_versions() -> dict[str, str]:
    """Versions of the packages that are installed; looking them up takes 2 ms."""
    versions = {}
    for package in _PACKAGES:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            pass
    return versions


def rank_and_world_size() -> tuple[int, int]:
    """The rank of this process, and how many there are; (0, 1) outside distributed jobs."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_rank(), torch.distributed.get_world_size()
    # torchrun sets these before the process group exists.
    return int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))


def module_tree(root: nn.Module) -> dict[str, Plain]:
    """All modules with their own parameters and buffers, as columns; a shared parameter counts at its first module.

    "forward" has the names of the positional parameters of each `forward`, which name the inputs.
    """
    addresses = module_addresses(root)
    columns: dict[str, list[Plain]] = {
        name: [] for name in ("address", "class", "forward", "parameters", "trainable", "bytes", "buffers")
    }
    counted: set[int] = set()
    for module in modules_of(root):
        if id(module) not in addresses:
            continue
        own_parameters = [
            tensor for tensor in module._parameters.values() if tensor is not None and id(tensor) not in counted
        ]
        counted.update(map(id, own_parameters))
        buffers = [tensor for tensor in module._buffers.values() if tensor is not None]
        columns["address"].append(addresses[id(module)][0])
        columns["class"].append(type(module).__name__)
        columns["forward"].append(list(_forward_parameters(getattr(type(module), "forward", None))))
        columns["parameters"].append(sum(map(_numel, own_parameters)))
        columns["trainable"].append(sum(_numel(tensor) for tensor in own_parameters if tensor.requires_grad))
        columns["bytes"].append(sum(_numel(tensor) * tensor.element_size() for tensor in own_parameters))
        columns["buffers"].append(sum(map(_numel, buffers)))
    return dict(columns)


@lru_cache(1024)
def _forward_parameters(forward: Any) -> tuple[str, ...]:
    """The positional parameters of a `forward`, without `self`; empty if they cannot be told, as of a scripted one."""
    try:
        parameters = list(inspect.signature(forward).parameters.values())[1:]
    except (TypeError, ValueError):
        return ()
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return tuple(each.name for each in takewhile(lambda each: each.kind in kinds, parameters))


def _numel(tensor: torch.Tensor) -> int:
    try:
        return int(tensor.numel())
    except (RuntimeError, ValueError):  # a lazy parameter, not initialized yet
        return 0


def to_plain(value: Any, depth: int = 0) -> Plain:
    """Convert any value to plain data; objects become their repr.

    >>> to_plain({"lr": 0.1, "betas": (0.9, 0.99), "model": nn.ReLU()})
    {'lr': 0.1, 'betas': [0.9, 0.99], 'model': 'ReLU()'}
    """
    if value is None or isinstance(value, (bool, float)):
        return value
    if isinstance(value, int):
        # msgpack has integers of 64 bits only.
        return value if -(1 << 63) <= value < 1 << 63 else str(value)
    if isinstance(value, str):
        return value[:_MOST_TEXT]
    if depth < _MOST_DEPTH:
        if hasattr(value, "__dataclass_fields__") and not isinstance(value, type):
            value = {name: getattr(value, name, None) for name in value.__dataclass_fields__}
        if isinstance(value, Mapping):
            return {str(key): to_plain(item, depth + 1) for key, item in list(value.items())[:_MOST_ITEMS]}
        if isinstance(value, (list, tuple, set, frozenset)):
            return [to_plain(item, depth + 1) for item in list(value)[:_MOST_ITEMS]]
        if hasattr(value, "__dict__") and type(value).__name__ in ("Namespace", "SimpleNamespace"):
            return to_plain(vars(value), depth + 1)
    if hasattr(value, "item") and getattr(value, "ndim", None) == 0:
        return to_plain(value.item(), depth + 1)
    try:
        return repr(value)[:_MOST_TEXT]
    except Exception as error:
        return f"<{type(value).__name__}: repr() raised {type(error).__name__}>"
