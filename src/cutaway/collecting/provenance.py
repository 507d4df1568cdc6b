"""Describes the model, tokenizer, corpus and versions of a collection, with digests."""

from __future__ import annotations

import platform
from collections.abc import Iterable
from hashlib import blake2b
from importlib import metadata
from time import time
from typing import Any

import numpy as np
import torch
from torch import nn

from cutaway.capture.tensors.conversion import as_tensor
from cutaway.core import pytree
from cutaway.core.version import __version__
from cutaway.store.format.frames import Plain

# Values per tensor in the digest: enough to tell checkpoints apart without reading every weight.
_SAMPLED = 1024
_PACKAGES = ("torch", "transformers", "tokenizers", "numpy")


def describe_model(model: nn.Module) -> dict[str, Plain]:
    """The class and name of a model, and digests of its config and weights."""
    config: Any = getattr(model, "config", None)
    config_text = config.to_json_string() if hasattr(config, "to_json_string") else ""
    name = getattr(config, "_name_or_path", "") or getattr(model, "name_or_path", "")
    return {
        "class": type(model).__name__,
        # The last part only: of a local checkpoint, the rest is a path on the user's disk.
        "name": str(name).replace("\\", "/").rstrip("/").rsplit("/", 1)[-1],
        "config": _digest(config_text) if config_text else "",
        "weights": weights_digest(model),
        "n_parameters": sum(parameter.numel() for parameter in model.parameters()),
    }


def weights_digest(model: nn.Module) -> str:
    """Digest of all parameters and buffers: names, shapes and a sample of the values."""
    digest = blake2b(digest_size=16)
    for name, tensor in (*model.named_parameters(), *model.named_buffers()):
        digest.update(f"{name} {list(tensor.shape)} {tensor.dtype}".encode())
        if tensor.is_meta or not tensor.numel() or tensor.layout is not torch.strided:
            continue
        values = tensor.detach().reshape(-1)
        digest.update(_bytes(values[:: max(1, values.numel() // _SAMPLED)]))
    return digest.hexdigest()


def describe_tokenizer(tokenizer: Any) -> dict[str, Plain]:
    """The class, name and size of a tokenizer, and a digest of its vocabulary."""
    vocabulary: dict[str, int] = tokenizer.get_vocab() if hasattr(tokenizer, "get_vocab") else {}
    name = str(getattr(tokenizer, "name_or_path", "")).replace("\\", "/").rstrip("/").rsplit("/", 1)[-1]
    return {
        "class": type(tokenizer).__name__,
        "name": name,
        "n_tokens": len(vocabulary),
        "vocabulary": _digest("\n".join(sorted(vocabulary, key=vocabulary.__getitem__))),
    }


def texts_digest(items: Iterable[Any]) -> str:
    """Digest of some sentences."""
    return _digest(repr([list(item) if isinstance(item, np.ndarray) else item for item in items]))


def batch_digest(batch: Any) -> str:
    """Digest of the first sample of a batch."""
    digest = blake2b(digest_size=16)
    for path, part in pytree.leaves(batch, lambda value: isinstance(value, (torch.Tensor, np.ndarray))):
        tensor = as_tensor(part)
        digest.update(f"{path} {list(tensor.shape[1:])} {tensor.dtype}".encode())
        if tensor.numel():
            digest.update(_bytes(tensor.detach().reshape(len(tensor) if tensor.ndim else 1, -1)[0]))
    return digest.hexdigest()


def describe_environment() -> dict[str, Plain]:
    """Time and package versions. These may differ when a collection is resumed."""
    versions: dict[str, Plain] = {"cutaway": __version__, "python": platform.python_version()}
    for package in _PACKAGES:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            pass
    return {"time": time(), "versions": versions}


def _bytes(values: torch.Tensor) -> bytes:
    # A copy: a tensor that shares memory with NumPy cannot be resized, and this may be a buffer of the model.
    return values.contiguous().cpu().clone().view(torch.uint8).numpy().tobytes()


def _digest(text: str) -> str:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
