"""Tracks the running module call with global module hooks.

Global hooks do not touch the model or its classes, so `nn.TransformerEncoder` keeps its fast paths; they fire for
every module of the process and are filtered by thread.
"""

from __future__ import annotations

from pathlib import Path
from sys import _getframe
from threading import get_ident
from time import perf_counter_ns
from types import CodeType
from typing import Any

import torch
from torch import nn
from torch.nn.modules import module as _torch_module

from cutaway.capture import sessions
from cutaway.capture.arguments import tensors_in
from cutaway.capture.function_mode import Ledger, Watcher, _versions, copy_containers
from cutaway.capture.model.sharding import GatheredParameters, is_fsdp
from cutaway.capture.model.tree import modules_of
from cutaway.capture.patches import own_call
from cutaway.capture.replay.recipe import Recipe
from cutaway.capture.torch_functions import Opaque

ENTER = "enter"
EXIT = "exit"

_BETWEEN = (_torch_module.__file__, __file__, own_call.__file__, str(Path(__file__).with_name("api.py")))
"""Files whose frames are between a module's forward and the user's line that called it."""
_CALLERS = (nn.Module._call_impl.__code__, own_call.run_own_call.__code__)  # type: ignore[attr-defined]


class Call:
    """One running call of a module's forward."""

    __slots__ = (
        "code",
        "ended",
        "entered",
        "instruction",
        "kwargs_known",
        "module",
        "own_hook",
        "parent",
        "started",
        "training",
    )

    def __init__(self, module: nn.Module | None, parent: int, code: CodeType | None, instruction: int) -> None:
        self.module = module
        self.parent = parent
        self.code = code
        self.instruction = instruction
        self.training = bool(module.training) if module is not None else False
        self.started = perf_counter_ns()
        self.ended = 0
        self.own_hook: Any = None
        self.entered: Any = None
        """The positional arguments as passed in, until the call returns."""
        self.kwargs_known = False


class ModuleHooks:
    """Tracks the current module call of each watcher and emits enter and exit events."""

    def __init__(
        self,
        watchers: dict[int, Watcher],
        calls: Ledger[Call],
        root: nn.Module | None,
        gathered: GatheredParameters,
    ) -> None:
        self.watchers = watchers
        self.calls = calls
        self.root = root
        self.recipe: Recipe | None = None
        """How to rerun the root module as it first ran."""
        self._handles: list[Any] = []
        self._own_calls: own_call.OwnCalls | None = None
        self._gathered = gathered
        modules = modules_of(root)
        self._has_fsdp = any(map(is_fsdp, modules))
        self._own_kinds = own_call.bypassing_classes(modules)

    def install(self) -> None:
        self._handles = [
            _torch_module.register_module_forward_pre_hook(self._enter),
            _torch_module.register_module_forward_hook(self._exit, with_kwargs=True, always_call=True),
        ]
        self._own_calls = own_call.OwnCalls(self._own_kinds, self._begin, self._end, with_kwargs=True)

    def remove(self) -> None:
        for handle in self._handles:
            handle.remove()
            # Torch does not remove this entry with the handle of a global hook (as of 2.13).
            getattr(_torch_module, "_global_forward_hooks_with_kwargs", {}).pop(handle.id, None)
        self._handles = []
        if self._own_calls is not None:
            self._own_calls.remove()
            self._own_calls = None  # it refers to this object: a trace is freed without the garbage collector

    suspend, resume = remove, install

    def _enter(self, module: nn.Module, args: Any) -> None:
        if type(module) not in self._own_kinds:  # these are seen by `OwnCalls`
            self._begin(module, args)

    def _exit(self, module: nn.Module, args: Any, *rest: Any) -> None:
        if type(module) not in self._own_kinds:
            self._end(module, args, *rest)

    def _begin(self, module: nn.Module, args: Any) -> None:
        watcher = self.watchers.get(get_ident())
        # Global hooks fire for every module in every thread of the process.
        if watcher is None or watcher.paused:
            return
        if self._has_fsdp and is_fsdp(module):
            self._gathered.before_gather(module)
        # The line that calls the module, not torch's `__call__`.
        frame = _outside_module_file()
        call = Call(module, watcher.call, frame.f_code, frame.f_lasti)
        number = self.calls.add(call)
        watcher.calls.append(watcher.call)
        watcher.call = number
        call.entered = args
        kwargs = keyword_arguments(2 if type(module) in self._own_kinds else 3)
        is_root = module is self.root
        call.kwargs_known = kwargs is not None
        given, named = tensors_in(args, is_root), tensors_in(kwargs, is_root)
        # Before the forward, which may change buffers, attributes and random states.
        if is_root and self.recipe is None:
            self.recipe = Recipe.of(module, args, kwargs, (given, named))
        if module._forward_hooks and type(module) not in self._own_kinds:
            # The module's own hooks run after the global ones and may replace the result.
            call.own_hook = module.register_forward_hook(self._exit_last, with_kwargs=True, always_call=True)
            sessions.n_forward_hooks += 1
        watcher.append((ENTER, number, given, named))

    def _end(self, module: nn.Module, args: Any, *rest: Any) -> None:
        """`rest` is (kwargs, result), or (result,) if torch calls this hook after an exception."""
        watcher = self.watchers.get(get_ident())
        if watcher is None or watcher.paused or not watcher.calls:
            return
        if self._has_fsdp and is_fsdp(module):
            self._gathered.before_reshard(module)  # FSDP's own hook runs after the global ones
        if self.calls.rows[watcher.call].own_hook is None or len(rest) == 1:
            self._leave(watcher, module, args, rest)

    def _exit_last(self, module: nn.Module, args: Any, *rest: Any) -> None:
        watcher = self.watchers.get(get_ident())
        if watcher is not None and not watcher.paused and watcher.calls:
            self._leave(watcher, module, args, rest)

    def _leave(self, watcher: Watcher, module: nn.Module, args: Any, rest: tuple[Any, ...]) -> None:
        ended = perf_counter_ns()
        kwargs, result = rest if len(rest) == 2 else ({}, None)
        while watcher.calls:
            number = watcher.call
            call = self.calls.rows[number]
            call.ended = ended
            if call.own_hook is not None:
                call.own_hook.remove()
                call.own_hook = None
            if call.module is not module:  # left by an exception that skips hooks (Ctrl-C)
                watcher.call = watcher.calls.pop()
                continue
            # Its ops run in C++, where no mode sees them: the call itself becomes the op.
            if isinstance(module, torch.jit.ScriptModule) and result is not None:
                versions = _versions(result if isinstance(result, (tuple, list)) else [result])
                version = versions if isinstance(result, (tuple, list)) else versions[0]
                code, instruction = call.code, call.instruction
                closure = {**dict(module.named_parameters()), **dict(module.named_buffers())}
                saved_kwargs = copy_containers({**kwargs, "closure": closure} if closure else kwargs)
                given, made = tuple(map(copy_containers, args)), copy_containers(result)
                place = (number, 0, code, instruction, call.started, ended)
                watcher.append((Opaque(module), given, saved_kwargs, made, *place, version, torch.is_grad_enabled()))
            is_root = module is self.root
            # A pre-hook of the module may have replaced its arguments.
            replaced = tensors_in(args, is_root) if args is not call.entered else None
            late = [] if call.kwargs_known else tensors_in(kwargs, is_root)
            call.entered = None
            watcher.append((EXIT, number, replaced, late, tensors_in(result, is_root), len(rest) == 2))
            watcher.call = watcher.calls.pop()
            return


def keyword_arguments(depth: int) -> dict[str, Any] | None:
    """The keyword arguments of the module that is being called; torch does not pass them to global pre-hooks.

    None if torch's frames have an unexpected layout: then they are read when the module returns.

    Args:
        depth: number of frames between this function and torch's call of the hook.
    """
    frame = _getframe(depth)
    if frame.f_code in _CALLERS or (frame.f_code.co_filename == _BETWEEN[0] and frame.f_code.co_name == "inner"):
        kwargs = frame.f_locals.get("kwargs")
        return kwargs if isinstance(kwargs, dict) else None
    return None


def _outside_module_file() -> Any:
    """The frame that called the module, skipping torch's `__call__` code."""
    frame = _getframe(2)
    while frame.f_back is not None and frame.f_code.co_filename in _BETWEEN:
        frame = frame.f_back
    return frame
