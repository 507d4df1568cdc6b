"""Records the methods of DTensors that leave or change their distribution as one opaque op each; hides FSDP's work.

These methods take the tensor of this process out of its wrapper, communicate, and wrap it again. That inner tensor
came from no captured op: recorded op by op, the graph would be cut there.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from cutaway.capture import sessions
from cutaway.capture.patches.monkeypatch import replace
from cutaway.capture.patches.torch_patches import opaque

_METHODS = ("from_local", "to_local", "redistribute", "full_tensor")
_GATHERING = ("unshard", "wait_for_unshard", "reshard")


def install_sharded(stack: ExitStack) -> None:
    """Installs the patches, if DTensors are in use: importing them takes a second."""
    tensors = sys.modules.get("torch.distributed.tensor")
    for name in _METHODS if tensors is not None else ():
        replace(stack, tensors.DTensor, name, _make_opaque(name))  # type: ignore[union-attr]
    groups = sys.modules.get("torch.distributed.fsdp._fully_shard._fsdp_param_group")
    for name in _GATHERING if groups is not None else ():
        if hasattr(groups.FSDPParamGroup, name):  # type: ignore[union-attr]
            replace(stack, groups.FSDPParamGroup, name, _unseen)  # type: ignore[union-attr]


def _make_opaque(name: str) -> Callable[[Any], Any]:
    # What the method computes with is the inside of its argument, not a closure.
    wrap = opaque(name, has_closure=False)

    def make(original: Any) -> Any:
        return staticmethod(wrap(original.__func__)) if isinstance(original, staticmethod) else wrap(original)

    return make


def _unseen(original: Callable[..., Any]) -> Callable[..., Any]:
    """Hides how FSDP gathers parameters: its buffers are no part of the model, and their memory is freed."""

    def run(*args: Any, **kwargs: Any) -> Any:
        watchers = sessions.thread_watchers()
        for watcher in watchers:
            watcher.paused += 1
        try:
            return original(*args, **kwargs)
        finally:
            for watcher in watchers:
                watcher.paused -= 1

    return run
