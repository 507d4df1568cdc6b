"""Hooks for modules whose class has a `__call__` of its own that never reaches `nn.Module.__call__` (as in gpytorch).

Torch runs no hooks for such modules. While a capture, an edit or an observer needs to see them, their classes have a
wrapper around `__call__`, which runs the hooks registered here and not those of the program: without Cutaway, these do
not run either. The last hook that is removed restores the class.

Whether a class reaches torch's `__call__` follows from its code: `__call__` leads there through `super().__call__`, or
by name. Such classes keep torch's own hooks. A class that fits neither (a `__call__` that is no Python function) is
seen by nobody, and traces say so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import wraps
from threading import RLock
from types import CodeType, FunctionType
from typing import Any, Protocol
from weakref import WeakKeyDictionary

from torch import nn

from cutaway.capture import sessions
from cutaway.capture.patches.monkeypatch import replace

_TORCH_CALL = nn.Module.__call__
_TORCH_NAMES = frozenset({"_call_impl", "_wrapped_call_impl", "_slow_forward"})


class Removable(Protocol):
    def remove(self) -> None: ...


@dataclass(frozen=True, slots=True, eq=False)
class _Hook:
    """One registered hook."""

    function: Callable[..., Any]
    with_kwargs: bool = False
    always_call: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class _Watch:
    """Hooks for all modules of some classes."""

    enter: Callable[[nn.Module, Any], None]
    leave: Callable[..., None]
    with_kwargs: bool


_lock = RLock()
_before: dict[int, tuple[_Hook, ...]] = {}
"""id of a module → hooks that run before its call. Tuples, because other threads read them while they change."""
_after: dict[int, tuple[_Hook, ...]] = {}
_watches: tuple[_Watch, ...] = ()
_patched: dict[type, tuple[int, ExitStack]] = {}
"""Class whose `__call__` is wrapped → number of hooks that need it, and what restores it."""
_known: WeakKeyDictionary[type, tuple[Any, bool]] = WeakKeyDictionary()


def bypasses_hooks(kind: type) -> bool:
    """Whether calling a module of this class never reaches `nn.Module.__call__`, and so runs no hooks of torch."""
    call = kind.__call__  # type: ignore[operator]
    if call is _TORCH_CALL:
        return False
    call = getattr(call, "_original_call", call)
    known = _known.get(kind)
    if known is None or known[0] is not call:
        known = _known[kind] = call, not _may_reach_torch(kind)
    return known[1]


def is_call_visible(module: nn.Module) -> bool:
    """Whether hooks see each call of a module: torch's, or those of this file."""
    return type(module).__call__ is _TORCH_CALL or bypasses_hooks(type(module))


def before_call(
    module: nn.Module, hook: Callable[..., Any], *, with_kwargs: bool = False, prepend: bool = False
) -> Removable:
    """Registers a forward pre-hook of a module; as `register_forward_pre_hook`, also for a `__call__` of its own."""
    if not bypasses_hooks(type(module)):
        sessions.n_forward_hooks += 1
        return module.register_forward_pre_hook(hook, with_kwargs=with_kwargs, prepend=prepend)
    return _OwnHook(_before, module, _Hook(hook, with_kwargs), is_first=prepend)


def after_call(
    module: nn.Module, hook: Callable[..., Any], *, with_kwargs: bool = False, always_call: bool = False
) -> Removable:
    """Registers a forward hook of a module; as `register_forward_hook`, also for a `__call__` of its own."""
    if not bypasses_hooks(type(module)):
        sessions.n_forward_hooks += 1
        return module.register_forward_hook(hook, with_kwargs=with_kwargs, always_call=always_call)
    return _OwnHook(_after, module, _Hook(hook, with_kwargs, always_call), is_first=False)


class _OwnHook:
    """The handle of a hook of one module."""

    def __init__(self, hooks: dict[int, tuple[_Hook, ...]], module: nn.Module, hook: _Hook, *, is_first: bool) -> None:
        self._hooks, self._module, self._hook = hooks, module, hook
        self._is_registered = True
        with _lock:
            present = hooks.get(id(module), ())
            hooks[id(module)] = (hook, *present) if is_first else (*present, hook)
            _wrap([type(module)])

    def remove(self) -> None:
        with _lock:
            if not self._is_registered:
                return
            self._is_registered = False
            rest = tuple(hook for hook in self._hooks[id(self._module)] if hook is not self._hook)
            if rest:
                self._hooks[id(self._module)] = rest
            else:
                del self._hooks[id(self._module)]
            _unwrap([type(self._module)])


def bypassing_classes(modules: Iterable[nn.Module]) -> frozenset[type]:
    """The classes of modules whose calls run no hooks of torch."""
    return frozenset(kind for kind in {type(module) for module in modules} if bypasses_hooks(kind))


class OwnCalls:
    """Calls back for each call of the modules of some classes, until it is removed; like torch's global module hooks.

    Args:
        kinds: the classes, as `bypassing_classes` returns them.
        enter: called with the module and its positional arguments, before the call.
        leave: called with the module, its arguments and the result, after all other hooks; always, as torch's
            `always_call` does: without keyword arguments and with None if the call has raised.
        with_kwargs: whether `leave` also gets the keyword arguments.
    """

    def __init__(
        self,
        kinds: frozenset[type],
        enter: Callable[[nn.Module, Any], None],
        leave: Callable[..., None],
        *,
        with_kwargs: bool = False,
    ) -> None:
        global _watches
        self._kinds = kinds
        self._watch = _Watch(enter, leave, with_kwargs)
        self._is_on = bool(kinds)
        with _lock:
            if kinds:
                _watches = (*_watches, self._watch)
                _wrap(kinds)

    def remove(self) -> None:
        global _watches
        with _lock:
            if self._is_on:
                self._is_on = False
                _watches = tuple(watch for watch in _watches if watch is not self._watch)
                _unwrap(self._kinds)


def reset_lock() -> None:
    """In a forked child: no other thread holds the lock."""
    global _lock
    _lock = RLock()


def _wrap(kinds: Iterable[type]) -> None:
    for kind in kinds:
        owner = _owner(kind)
        count, stack = _patched.get(owner, (0, ExitStack()))
        if not count:
            replace(stack, owner, "__call__", _with_hooks)
        _patched[owner] = count + 1, stack


def _unwrap(kinds: Iterable[type]) -> None:
    for kind in kinds:
        owner = _owner(kind)
        count, stack = _patched[owner]
        if count > 1:
            _patched[owner] = count - 1, stack
        else:
            del _patched[owner]
            stack.close()


def _owner(kind: type) -> type:
    """The class that defines the `__call__` of a class."""
    return next(each for each in kind.__mro__ if "__call__" in each.__dict__)


def _with_hooks(original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def __call__(module: Any, /, *args: Any, **kwargs: Any) -> Any:
        # A subclass that calls `super().__call__` is inside its own call already.
        if type(module).__call__ is not __call__ or not bypasses_hooks(type(module)):
            return original(module, *args, **kwargs)
        return run_own_call(original, module, args, kwargs)

    __call__._original_call = original  # type: ignore[attr-defined]
    return __call__


def run_own_call(original: Callable[..., Any], module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Calls a module as `nn.Module.__call__` does, with the hooks of this file only."""
    watches = tuple(watch for watch in _watches)
    waiting: list[Callable[[], Any]] = []
    try:
        for watch in watches:
            watch.enter(module, args)
            waiting.append(_on_error(watch.leave, module, args))
        for hook in _before.get(id(module), ()):
            if hook.with_kwargs:
                changed = hook.function(module, args, kwargs)
                args, kwargs = changed if changed is not None else (args, kwargs)
            else:
                changed = hook.function(module, args)
                args = args if changed is None else changed if isinstance(changed, tuple) else (changed,)
        after = _after.get(id(module), ())
        waiting = [_on_error(hook.function, module, args) for hook in after if hook.always_call] + waiting
        result = original(module, *args, **kwargs)
        for hook in after:
            if hook.always_call:
                waiting.pop(0)
            given = (args, kwargs) if hook.with_kwargs else (args,)
            changed = hook.function(module, *given, result)
            result = result if changed is None else changed
        for watch in watches:
            waiting.pop(0)
            watch.leave(module, args, *((kwargs,) if watch.with_kwargs else ()), result)
        return result
    except Exception:
        for call in waiting:
            call()
        raise


def _on_error(hook: Callable[..., Any], module: nn.Module, args: Any) -> Callable[[], Any]:
    return lambda: hook(module, args, None)


def _may_reach_torch(kind: type) -> bool:
    """Whether the code of a class's `__call__`, or one that it calls through `super()`, leads to torch's."""
    for owner in kind.__mro__:
        call = owner.__dict__.get("__call__")
        if call is None:
            continue
        call = getattr(call, "_original_call", call)
        if owner is nn.Module or not isinstance(call, FunctionType):
            return True
        names = {name for code in _codes(call) for name in (*code.co_names, *code.co_freevars)}
        if names & _TORCH_NAMES:
            return True
        if "__call__" not in names:
            return False
        if "super" not in names:  # `Base.__call__(self, x)`: which one is not known before it runs
            return True
    return True


def _codes(function: FunctionType) -> Iterator[CodeType]:
    """The code of a function, of the functions inside it, and of those it was decorated with."""
    seen: set[int] = set()
    waiting: list[Any] = [function]
    while waiting:
        each = waiting.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        if isinstance(each, FunctionType):
            waiting.append(each.__code__)
            waiting.extend(_contents(each))
        elif isinstance(each, CodeType):
            yield each
            waiting.extend(each.co_consts)


def _contents(function: FunctionType) -> Iterator[Any]:
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # not assigned yet
            continue
