"""Records higher-order operators (`torch.cond`, `while_loop`, `scan`, `map`) as one opaque op each.

Called outside a compiled function, such an operator compiles itself: it hands a wrapper of itself to `torch.compile`.
A capture makes compiled code run eagerly, but these operators need the real compiler: run eagerly, `cond` has no
gradient, and `scan` and nested `map` fail (torch 2.13). So they run exactly as they would without a capture, and their
inner calls are not recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from sys import _getframe
from threading import local
from typing import Any

import torch
from torch import Tensor

from cutaway.capture import sessions
from cutaway.capture.patches.compiled_entry import unwatched
from cutaway.capture.patches.eager import lift_force_eager
from cutaway.capture.patches.monkeypatch import originals, replace
from cutaway.capture.patches.torch_patches import run_opaque, without_watchers
from cutaway.capture.torch_functions import Opaque

_HOMES = ("torch._higher_order_ops", "torch.nn.attention.flex_attention")
"""Modules that call `torch.compile` to run a higher-order operator."""
_running = local()
_backends: dict[Any, Callable[..., Any]] = {}
"""Backend → its recording twin. One each: the compiler's cache is keyed by the identity of the backend."""


def install_higher_order(stack: ExitStack) -> None:
    """Installs the patch that records higher-order operators."""
    replace(stack, torch, "compile", _compile_or_record)


def _compile_or_record(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps `torch.compile`: a higher-order operator that compiles itself becomes one opaque op."""

    def compile(*args: Any, **kwargs: Any) -> Any:
        name = _operator_name(_getframe(1))
        if name is None:
            return original(*args, **kwargs)
        if not sessions.thread_watchers():  # inside an edit
            return _as_uncaptured(original(*args, **kwargs))
        compiled = original(*args, **{**kwargs, "backend": _recording(kwargs.get("backend", "eager"))})
        return lambda *given, **named: run_opaque(Opaque(_as_uncaptured(compiled), name), given, named)

    return compile


def _operator_name(frame: Any) -> str | None:
    """The function of torch that called `torch.compile`, if it runs a higher-order operator."""
    name = None
    while frame is not None and str(frame.f_globals.get("__name__", "")).startswith(_HOMES):
        name = frame.f_code.co_name
        frame = frame.f_back
    return name


def _as_uncaptured(compiled: Callable[..., Any]) -> Callable[..., Any]:
    def run(*args: Any, **kwargs: Any) -> Any:
        # The compiler would trace our replacements in torch, too.
        with ExitStack() as stack:
            for context in (originals, without_watchers, _without_module_hooks, lift_force_eager, _recorded_inputs):
                stack.enter_context(context())
            stack.enter_context(unwatched())
            return compiled(*args, **kwargs)

    return run


@contextmanager
def _without_module_hooks() -> Iterator[None]:
    """Context manager: removes our global module hooks, which the compiler would trace."""
    hooks = [session.hooks for session in sessions.thread_sessions()]
    for hook in hooks:
        hook.suspend()
    try:
        yield
    finally:
        for hook in hooks:
            hook.resume()


@contextmanager
def _recorded_inputs() -> Iterator[None]:
    """Context manager: collects what the compiled graph reads, also tensors that the inner functions close over."""
    closures = [watcher.closure for watcher in sessions.all_thread_watchers() if watcher.closure is not None]
    outer, _running.closures = getattr(_running, "closures", []), closures
    try:
        yield
    finally:
        _running.closures = outer


def _recording(backend: Any) -> Callable[..., Any]:
    if backend not in _backends:
        _backends[backend] = _recording_twin(backend)
    return _backends[backend]


def _recording_twin(backend: Any) -> Callable[..., Any]:
    from torch._dynamo.backends.registry import lookup_backend

    inner = lookup_backend(backend)

    def record_inputs(graph: Any, examples: Any) -> Callable[..., Any]:
        run = inner(graph, examples)

        def call(*inputs: Any) -> Any:
            for closure in getattr(_running, "closures", ()):
                closure.tensors.update((id(value), value) for value in inputs if isinstance(value, Tensor))
            return run(*inputs)

        return call

    return record_inputs
