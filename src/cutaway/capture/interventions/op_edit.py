"""Edits and observes results of single ops with a function mode, active only in the affected modules.

`edit` changes values through it, `observe` reads them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import ExitStack, nullcontext
from threading import get_ident
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.nn.modules import module as _torch_module

from cutaway.capture import sessions
from cutaway.capture.function_mode import INTERNAL_CODE, DisabledWatcher, Ledger, Watcher, remove_mode
from cutaway.capture.interventions.targets import ModelIndex, Target
from cutaway.capture.outputs import output_tensors, tensors_returned
from cutaway.capture.patches import monkeypatch
from cutaway.capture.patches.install import apply_patches
from cutaway.capture.patches.own_call import OwnCalls, after_call, before_call, bypassing_classes
from cutaway.capture.torch_functions import COMPOSITE, PYTHON, SKIP, Opaque, function_of, name_of, written_tensors
from cutaway.core.errors import EditError
from cutaway.core.events import GroupEvent
from cutaway.core.sites import Site
from cutaway.graph.labels import Namer, kind_of

_push = torch._C._push_on_torch_function_stack
_pop = torch._C._pop_torch_function_stack
_FUSED = (nn.TransformerEncoder, nn.TransformerEncoderLayer, nn.MultiheadAttention)
"""Modules that leave their fused path if they have hooks."""


class OpHandler(Protocol):
    """A function that receives the results of ops."""

    def __call__(
        self, targets: list[Target], here: Site, value: Tensor, module: nn.Module, result: Any, /
    ) -> Tensor | None:
        """Returns the value that replaces an op's result, or None to leave it unchanged.

        Args:
            targets: the targets in the running module that match this op.
            here: the full site of the op: with its ordinal, its path among several results, and the pass of its module.
            value: one tensor of the result.
            module: the module whose forward called the op.
            result: the whole result of the op.
        """
        ...


class OpEdits:
    """The op sites of one block. To the patched torch functions it looks like a session.

    Only the modules of these sites have a hook. While one of them runs, global hooks distinguish its own ops from those
    of its submodules; they are removed when it returns, so the rest of the model runs at full speed.

    Args:
        is_observer: whether the handler never changes values: then it sees values after all edits.
    """

    def __init__(self, handler: OpHandler, targets: list[Target], named: ModelIndex, *, is_observer: bool) -> None:
        self.handler = handler
        self.is_observer = is_observer
        self.watchers: dict[int, Watcher] = {}
        self.hooks = self
        self.gradients = None
        self.by_module: dict[int, tuple[str, list[Target]]] = {}
        """id of a module → its address, and the targets in it."""
        self._modules: list[nn.Module] = []
        for target in targets:
            for address in named.modules_at(target.site):
                module = named.modules[address]
                if id(module) not in self.by_module:
                    self.by_module[id(module)] = (address, [])
                    self._modules.append(module)
                self.by_module[id(module)][1].append(target)
        self._own_kinds = bypassing_classes(named.modules.values())
        self._is_global = any(isinstance(module, _FUSED) for module in self._modules)
        self._thread = get_ident()
        self._handles: list[Any] = []
        self._within: list[Any] = []
        """The global hooks, while an edited module runs."""
        self._last_hooks: dict[int, Any] = {}
        """id of a module with hooks of its own → the handle of our hook, which runs last."""
        self._editor: Editor | None = None
        self._is_within = False
        self._last_modules: list[int] = []

    def install(self, stack: ExitStack) -> None:
        apply_patches()
        stack.callback(monkeypatch.restore)
        self._editor = Editor(self)
        stack.callback(self.remove)
        self._register()
        sessions.sessions[id(self)] = self
        self.watchers[self._thread] = self._editor
        stack.callback(self.abandon)

    def _register(self) -> None:
        if self._is_global:
            self._handles = self._global_hooks()
        for module in self._modules if not self._is_global else ():
            # Before the module's own pre-hooks, whose ops belong to the module.
            self._handles.append(before_call(module, self._enter_outermost, prepend=True))
            self._handles.append(after_call(module, self._leave_outermost, always_call=True))

    def suspend(self) -> None:
        """Removes all hooks while an edited module runs, for the compiler, which would trace them."""
        self._is_within = bool(self._within)
        self._last_modules = list(self._last_hooks)
        self.remove()

    def resume(self) -> None:
        self._register()
        if self._is_within:
            self._within = self._global_hooks()
        running = {id(module): module for module, _ in self._editor.running} if self._editor is not None else {}
        for key in self._last_modules:
            self._last_hooks[key] = after_call(running[key], self._leave_last, always_call=True)

    def remove(self) -> None:
        for handle in (*self._handles, *self._within, *self._last_hooks.values()):
            handle.remove()
        self._handles, self._within = [], []
        self._last_hooks.clear()

    def abandon(self) -> None:
        sessions.sessions.pop(id(self), None)
        self.watchers.clear()
        if self._editor is not None:
            if self._editor.is_on and get_ident() == self._thread:  # Ctrl-C skips hooks
                remove_mode(self._editor)
            self._editor.__class__ = DisabledWatcher  # type: ignore[assignment]

    def _here(self) -> Editor | None:
        editor = self._editor
        return editor if editor is not None and get_ident() == self._thread and not editor.paused else None

    def _global_hooks(self) -> list[Any]:
        return [
            _torch_module.register_module_forward_pre_hook(self._enter),
            _torch_module.register_module_forward_hook(self._leave, always_call=True),
            OwnCalls(self._own_kinds, self._begin, self._end),
        ]

    def _enter_outermost(self, module: nn.Module, args: Any) -> None:
        editor = self._here()
        if editor is not None and not self._within:
            self._within = self._global_hooks()
            editor.enter(module)

    def _leave_outermost(self, module: nn.Module, args: Any, result: Any) -> None:
        editor = self._here()
        if editor is not None and self._within and editor.outermost is module:
            for handle in self._within:
                handle.remove()
            self._within = []
            editor.leave(module)

    def _enter(self, module: nn.Module, args: Any) -> None:
        if type(module) not in self._own_kinds:  # these are seen by `OwnCalls`
            self._begin(module, args)

    def _leave(self, module: nn.Module, args: Any, result: Any) -> None:
        if type(module) not in self._own_kinds:
            self._end(module, args, result)

    def _begin(self, module: nn.Module, args: Any) -> None:
        editor = self._here()
        if editor is not None:
            # Ops of its hooks belong to the module, and they run after the global hooks.
            if module._forward_hooks and type(module) not in self._own_kinds:
                self._last_hooks[id(module)] = after_call(module, self._leave_last, always_call=True)
            editor.enter(module)

    def _end(self, module: nn.Module, args: Any, result: Any) -> None:
        is_outermost = self._editor is not None and self._editor.outermost is module
        if (not is_outermost or self._is_global) and (id(module) not in self._last_hooks or result is None):
            self._leave_last(module, args, result)

    def _leave_last(self, module: nn.Module, args: Any, result: Any) -> None:
        editor = self._here()
        if editor is not None:
            handle = self._last_hooks.pop(id(module), None)
            if handle is not None:
                handle.remove()
            editor.leave(module)

    def set_watching(self, editor: Editor, *, on: bool) -> None:
        """Pushes the mode on the stack, below those of observers, or removes it.

        The topmost mode receives a call first and its result last: observers must see edited values, whichever block
        was entered first.
        """
        if not on:
            remove_mode(editor)
            return
        observers: list[Any] = []
        while not self.is_observer and torch._C._len_torch_function_stack():
            top = _pop()
            if not (isinstance(top, Editor) and top.edits.is_observer):
                _push(top)
                break
            observers.append(top)
        _push(editor)
        for observer in reversed(observers):
            _push(observer)

    def kinds_at(self, site: Site) -> list[str]:
        """The kinds of ops that ran in the modules of a site, for error messages."""
        counted = self._editor.namer.n_passes() if self._editor is not None else {}
        return list(dict.fromkeys(kind for address, kind, _ in counted if site.covers_address(address)))

    def join(self, call: int) -> None:
        """Does nothing: threads started inside the block are not edited."""

    def leave(self, watcher: Any) -> None:
        """Does nothing: such threads have no mode to remove."""


class Editor(Watcher):
    """Counts the ops of a module as a trace does, and passes the results of matching ops to the handler."""

    def __init__(self, edits: OpEdits) -> None:
        # Its own sink, without memory checks: it saves no values.
        super().__init__(self, Ledger(GroupEvent("", 0, 0, None, 0)), 0, lambda now: sys.maxsize)  # type: ignore[arg-type]
        self.edits = edits
        self.event: tuple[Any, ...] | None = None
        self.running: list[tuple[nn.Module, int]] = []
        self.is_on = False
        self.namer = Namer()
        self.n_calls = 0

    # as a sink

    def take(self, event: tuple[Any, ...]) -> None:
        # Events of ops have 12 fields; those of modules and writes have fewer.
        self.event = event if len(event) == 12 else None

    append = take  # type: ignore[assignment]

    def before_write(self, tensors: list[Any], at_once: bool = False) -> None:  # type: ignore[override]
        """Does nothing: no values are saved, so none have to be copied."""

    # modules

    @property
    def outermost(self) -> nn.Module | None:
        """The outermost edited module that is running."""
        return self.running[0][0] if self.running else None

    def enter(self, module: nn.Module) -> None:
        self.n_calls += 1
        self.running.append((module, self.n_calls))
        self._switch()

    def leave(self, module: nn.Module) -> None:
        while self.running and self.running[-1][0] is not module:  # left by an exception that skips hooks
            self.running.pop()
        if self.running:
            self.running.pop()
        self._switch()

    def _switch(self) -> None:
        wanted = bool(self.running) and id(self.running[-1][0]) in self.edits.by_module
        if wanted != self.is_on:
            self.is_on = wanted
            self.edits.set_watching(self, on=wanted)

    # calls

    def __torch_function__(  # type: ignore[override]
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if self.paused or not self.running:
            return super().__torch_function__(func, types, args, kwargs)
        module, call = self.running[-1]
        address, targets = self.edits.by_module.get(id(module), ("", []))
        swapped = self._call_swapped(func, address, call, targets, args, kwargs or {})
        if swapped is not None:
            return swapped
        self.event = None
        result = super().__torch_function__(func, types, args, kwargs)
        event, self.event = self.event, None
        if event is None or not _makes_ops(event):
            return result
        kind = kind_of(function_of(event[0]).name)
        ordinal, pass_ = self.namer.count(event, call, address, kind)
        return self._apply_edits(result, event, Site(address, kind, ordinal, None, "", pass_), module, targets)

    def _apply_edits(
        self, result: Any, event: tuple[Any, ...], here: Site, module: nn.Module, targets: list[Target]
    ) -> Any:
        made = output_tensors(result, written_tensors(function_of(event[0]), event[1], event[2]))
        new: dict[int, Tensor] = {}
        for path, tensor, _ in made:
            site = Site(here.address, here.op, here.ordinal, "out" if path else None, path, here.pass_)
            covering = [target for target in targets if target.site.matches(site)]
            if covering:
                changed = self.edits.handler(covering, site, tensor, module, result)
                if changed is not None:
                    new[id(tensor)] = changed
        for tensor in [tensor for _, tensor, is_target in made if is_target and id(tensor) in new]:
            _overwrite(tensor, new.pop(id(tensor)))  # other code holds this tensor object
        if not new:
            return result
        if isinstance(result, Tensor):
            return new.get(id(result), result)
        parts = [new.get(id(part), part) if isinstance(part, Tensor) else part for part in result]
        # A named tuple takes its fields as arguments; torch's structseqs take one sequence.
        return type(result)(*parts) if hasattr(result, "_fields") else type(result)(parts)

    def _call_swapped(
        self, func: Any, address: str, call: int, targets: list[Target], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """The result of the replacement function, if this call is to be swapped; otherwise None."""
        swaps = [target for target in targets if target.change is not None and target.change.swaps is not None]
        function = function_of(func)
        if not swaps or function.role in (SKIP, COMPOSITE, PYTHON):
            return None
        kind = kind_of(function.name)
        ordinal, pass_ = self.namer.peek(call, address, kind)
        site = Site(address, kind, ordinal, None, "", pass_)
        for target in swaps:
            if target.site.matches(site):
                # The swapped call counts as well, so that later ops keep their ordinals.
                self.namer.count(object(), call, address, kind)
                target.n_applied += 1
                result = call_replacement(target.change.swaps, function.name, args, kwargs)  # type: ignore[union-attr]
                if function.writes and isinstance(args[0], Tensor) and isinstance(result, Tensor):
                    _overwrite(args[0], result)
                    return args[0]
                return result
        return None

    def _open(self, func: Any, name: str, body: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None) -> Any:
        """Reports the group to the watchers below, because composites are opened here before they see them."""
        below = [watcher for watcher in sessions.thread_watchers() if watcher is not self]
        outer = [(watcher, watcher.group) for watcher in below]
        frame = sys._getframe(2)
        while frame.f_back is not None and frame.f_code in INTERNAL_CODE:
            frame = frame.f_back
        for watcher in below:
            event = GroupEvent(name, watcher.group, watcher.call, frame.f_code, frame.f_lasti)
            watcher.group = watcher.groups.add(event)
        try:
            return super()._open(func, name, body, args, kwargs)
        finally:
            for watcher, group in outer:
                watcher.group = group


INTERNAL_CODE.add(Editor.__torch_function__.__code__)


def call_replacement(function: Callable[..., Any], name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Calls a function with the arguments of another."""
    try:
        return function(*args, **kwargs)
    except TypeError as error:
        raise EditError(f"{name_of(function)} cannot be called with the arguments of {name}: {error}.") from error


def _overwrite(tensor: Tensor, new: Tensor) -> None:
    # Autograd forbids in-place writes to a leaf that requires gradients.
    with torch.no_grad() if tensor.is_leaf else nullcontext():
        tensor.copy_(new)


def _makes_ops(event: tuple[Any, ...]) -> bool:
    """Whether a trace would record this call as an op: then it counts."""
    function, result = function_of(event[0]), event[3]
    if isinstance(result, Tensor) or function.writes or type(event[0]) is Opaque:
        return True
    if isinstance(result, (tuple, list)):
        return bool(result) and (
            next(tensors_returned(result), None) is not None or all(_is_number(item) for item in result)
        )
    return _is_number(result) and any(isinstance(value, Tensor) for value in (*event[1], *(event[2] or {}).values()))


def _is_number(value: Any) -> bool:
    return isinstance(value, (bool, int, float, complex, list)) or type(value).__module__ == "numpy"
