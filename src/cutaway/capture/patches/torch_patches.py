"""The patches applied to torch and Python while a capture runs, and why each is needed."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack
from functools import wraps
from sys import _getframe
from time import perf_counter_ns
from types import FunctionType
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from cutaway.capture import sessions
from cutaway.capture.arguments import is_tensor
from cutaway.capture.function_mode import Closure, Watcher, _caller, _versions, copy_containers
from cutaway.capture.patches import compiled_entry
from cutaway.capture.patches.eager import force_eager
from cutaway.capture.patches.monkeypatch import apply_more, replace
from cutaway.capture.tensors.aliasing import version_of
from cutaway.capture.torch_functions import LINK, Opaque
from cutaway.core.pytree import leaves

_push = torch._C._push_on_torch_function_stack
_pop = torch._C._pop_torch_function_stack


def install_patches(stack: ExitStack) -> None:
    """Installs all patches that a capture needs."""
    replace(stack, torch.overrides, "has_torch_function", _subclasses_only)
    replace(stack, threading.Thread, "start", _watched_start)
    replace(stack, torch.autograd, "_engine_run_backward", _watched_engine)
    replace(stack, torch._C.ScriptFunction, "__call__", _opaque_script)
    _link_autograd_functions(stack)
    if "torch._dynamo" in sys.modules:
        run_eagerly(stack)
    else:
        # Importing dynamo takes seconds: wait until something is compiled.
        replace(stack, torch, "compile", _eager_compile)
    for module, name, called in _TRANSFORMS:
        owner = sys.modules.get(module)
        if owner is not None and hasattr(owner, name):
            replace(stack, owner, name, opaque(called))


# The public transforms (`jacrev`, `hessian`, …) are built from these.
_TRANSFORMS = (
    ("torch._functorch.apis", "vmap_impl", "vmap"),
    ("torch._functorch.eager_transforms", "grad_impl", "grad"),
    ("torch._functorch.eager_transforms", "grad_and_value_impl", "grad_and_value"),
    ("torch._functorch.eager_transforms", "_vjp_with_argnums", "vjp"),
    ("torch._functorch.eager_transforms", "_jvp_with_argnums", "jvp"),
    ("torch.nested", "nested_tensor", "nested_tensor"),  # copies its tensors where no mode sees it
)


def run_eagerly(stack: ExitStack) -> None:
    """Makes compiled code run eagerly while it is captured."""
    stack.enter_context(force_eager())
    compiled_entry.install()
    wrapper = sys.modules["torch._dynamo"].OptimizedModule
    if "__call__" in wrapper.__dict__:
        replace(stack, wrapper, "__call__", _quiet_call)


def _quiet_call(original: Callable[..., Any]) -> Callable[..., Any]:
    """Silences the warning of compiled modules about global hooks: ours are meant to run."""

    def __call__(module: Any, *args: Any, **kwargs: Any) -> Any:
        if not sessions.thread_watchers():
            return original(module, *args, **kwargs)
        return torch.nn.Module.__call__(module, *args, **kwargs)

    return __call__


def _subclasses_only(original: Callable[[Any], bool]) -> Callable[[Any], bool]:
    """`nn.MultiheadAttention` leaves its fast path if a mode is active; this hides ours."""

    def has_torch_function(relevant_args: Any) -> bool:
        # Higher-order operators (`torch.cond`) ask here whether to dispatch to modes: these must see ours.
        if not sessions.thread_watchers() or _getframe(1).f_globals.get("__name__") == "torch._ops":
            return original(relevant_args)
        with without_watchers():
            return original(relevant_args)

    return has_torch_function


class without_watchers:
    """Context manager: removes our modes from the stack of the current thread, then restores the stack."""

    def __enter__(self) -> None:
        self._stack: list[TorchFunctionMode] = []
        while torch._C._len_torch_function_stack():
            self._stack.append(_pop())
        for mode in reversed(self._stack):
            if not isinstance(mode, Watcher):
                _push(mode)

    def __exit__(self, *_: Any) -> None:
        while torch._C._len_torch_function_stack():
            _pop()
        for mode in reversed(self._stack):
            _push(mode)


def _watched_start(original: Callable[[Any], None]) -> Callable[[Any], None]:
    """Gives each thread started inside a block its own watcher."""

    def start(thread: threading.Thread) -> None:
        here = threading.get_ident()
        parents = [(session, session.watchers[here]) for session in sessions.thread_sessions()]
        if parents:
            run = thread.run
            starts = [(session, watcher.call) for session, watcher in parents if not watcher.paused]

            def watched_run() -> None:
                watchers = [
                    (session, session.join(call)) for session, call in starts if id(session) in sessions.sessions
                ]
                try:
                    run()
                finally:
                    for session, watcher in reversed(watchers):
                        session.leave(watcher)
                    # A thread object may outlive the block: it keeps neither the wrapper nor the capture.
                    thread.__dict__.pop("run", None)

            thread.run = watched_run  # type: ignore[method-assign]
        original(thread)

    return start


def _watched_engine(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps the autograd engine: every backward pass goes through here, whatever API started it."""

    def _engine_run_backward(*args: Any, **kwargs: Any) -> Any:
        here = threading.get_ident()
        # A paused watcher is inside an opaque region or another backward pass, whose own pass (reentrant
        # checkpointing, the joint graph of `scan`) is a part of it.
        watching = [session for session in sessions.thread_sessions() if not session.watchers[here].paused]
        run: Callable[[], Any] = lambda: original(*args, **kwargs)  # noqa: E731
        for session in watching:
            if session.gradients is not None:
                run = _bound(session.gradients.run, run)
        # Checkpointing reruns forwards inside the engine: these are no part of the trace.
        watchers = [session.watchers[here] for session in watching]
        for watcher in watchers:
            watcher.paused += 1
        try:
            return run()
        finally:
            for watcher in watchers:
                watcher.paused -= 1

    return _engine_run_backward


def _bound(function: Callable[[Any], Any], argument: Any) -> Callable[[], Any]:
    return lambda: function(argument)


def _link_autograd_functions(stack: ExitStack) -> None:
    """Makes every `autograd.Function` tell what it was given and what it returned.

    Its forward may compute in NumPy or in a C++ extension, which no mode sees. `Function.apply` calls `super().apply`,
    so an attribute of its base class also catches `my_function = MyFunction.apply` from before the capture.
    """
    base = torch.autograd.function._SingleLevelFunction

    def apply(cls: Any, *args: Any, **kwargs: Any) -> Any:
        watchers = sessions.thread_watchers()
        started = perf_counter_ns()
        result = super(base, cls).apply(*args, **kwargs)
        if watchers:
            ended = perf_counter_ns()
            frame = _caller(_getframe(2))
            given = [tensor for _, tensor in leaves((args, kwargs), is_tensor)]
            made = [(path, tensor, version_of(tensor)) for path, tensor in leaves(result, is_tensor)]
            for watcher in watchers:
                place = (watcher.call, watcher.group, frame.f_code, frame.f_lasti, started, ended)
                watcher.append((LINK, Opaque(cls, cls.__name__), given, made, place))
        return result

    base.apply = classmethod(apply)  # type: ignore[attr-defined]
    stack.callback(delattr, base, "apply")


def _opaque_script(original: Callable[..., Any]) -> Callable[..., Any]:
    """Records a call of a ScriptFunction, which runs outside Python, as one opaque op."""

    def __call__(script: Any, *args: Any, **kwargs: Any) -> Any:
        if not sessions.thread_watchers():
            return original(script, *args, **kwargs)
        return run_opaque(Opaque(_bound_script(original, script), getattr(script, "name", "script")), args, kwargs)

    return __call__


def _bound_script(original: Callable[..., Any], script: Any) -> Callable[..., Any]:
    return lambda *args, **kwargs: original(script, *args, **kwargs)


def opaque(name: str, *, has_closure: bool = True) -> Callable[[Any], Any]:
    """Records a function whose inner tensors exist only inside it, such as a `torch.func` transform, as one opaque op.

    Args:
        has_closure: whether it can read tensors that are not among its arguments.
    """

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def transform(*args: Any, **kwargs: Any) -> Any:
            if not sessions.thread_watchers():
                return original(*args, **kwargs)
            return run_opaque(Opaque(original, name), args, kwargs, has_closure=has_closure)

        return transform

    return make


def run_opaque(call: Opaque, args: tuple[Any, ...], kwargs: dict[str, Any], *, has_closure: bool = True) -> Any:
    """Runs opaque code and records it as one op with its inputs and outputs."""
    frame = _caller(_getframe(2))
    watchers = sessions.thread_watchers()
    closure = Closure()
    watchers[0].closure = closure if has_closure else None  # the innermost receives every call first
    for watcher in watchers:
        watcher.paused += 1
    started = perf_counter_ns()
    try:
        result = call(*args, **kwargs)
    finally:
        ended = perf_counter_ns()
        watchers[0].closure = None
        for watcher in watchers:
            watcher.paused -= 1
    # `vjp` returns a function that computes with the inputs later, outside this call.
    result = _link_inputs(result, args, closure)
    handed_in = {id(tensor) for _, tensor in leaves((args, kwargs), is_tensor)}
    captured = [tensor for key, tensor in closure.tensors.items() if key not in handed_in]
    if captured:
        kwargs = {**kwargs, "closure": captured}
    given, named, made = tuple(map(copy_containers, args)), copy_containers(kwargs) or None, copy_containers(result)
    version = _versions([result])[0] if isinstance(result, Tensor) else None
    for watcher in watchers:
        place = (watcher.call, watcher.group, frame.f_code, frame.f_lasti)
        watcher.append((call, given, named, made, *place, started, ended, version, torch.is_grad_enabled()))
    return result


def _link_inputs(result: Any, args: tuple[Any, ...], closure: Closure) -> Any:
    """Makes the function that `vjp` returns an op that depends on the inputs it captured."""
    if not isinstance(result, tuple) or not any(isinstance(item, FunctionType) for item in result):
        return result
    remembered = [tensor for _, tensor in leaves(args, is_tensor)] + list(closure.tensors.values())
    return tuple(_with_inputs(item, remembered) if isinstance(item, FunctionType) else item for item in result)


def _with_inputs(function: FunctionType, remembered: list[Tensor]) -> Callable[..., Any]:
    @wraps(function)
    def linked(*args: Any, **kwargs: Any) -> Any:
        running = [watcher.closure for watcher in sessions.all_thread_watchers() if watcher.closure is not None]
        for closure in running:
            closure.tensors.update((id(tensor), tensor) for tensor in remembered)
        if running or not sessions.thread_watchers():
            return function(*args, **kwargs)
        return run_opaque(Opaque(function), args, {**kwargs, "closure": remembered})

    return linked


def _eager_compile(original: Callable[..., Any]) -> Callable[..., Any]:
    """Handles dynamo being loaded inside a block: from then on, compiled code runs eagerly."""
    _compile_seen: list[bool] = []

    def compile(*args: Any, **kwargs: Any) -> Any:
        result = original(*args, **kwargs)
        if "torch._dynamo" in sys.modules and not _compile_seen:
            _compile_seen.append(True)
            apply_more(run_eagerly)
        return result

    return compile
