"""The torch function mode that captures every torch call of one thread.

This is the hot path: an empty mode costs 1.9 µs per call, and the code here should add less than that. Hence the bound
defaults, bare tuples and early exits.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from sys import _getframe
from time import perf_counter_ns
from types import CodeType
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor
from torch.nn import Parameter
from torch.overrides import TorchFunctionMode, handle_torch_function

from cutaway.capture.model.rng_state import current_autocast, generators_used
from cutaway.capture.patches.composites import open_code
from cutaway.capture.torch_functions import (
    BACKWARD,
    COMPOSITE,
    ESCAPE,
    PYTHON,
    SKIP,
    Function,
    function_of,
    known_functions,
    written_tensors,
)
from cutaway.core.events import Context, GroupEvent, Sink

T = TypeVar("T")

_push = torch._C._push_on_torch_function_stack
_pop = torch._C._pop_torch_function_stack
_KNOWN = known_functions().get
_DISPATCH_CODE = handle_torch_function.__code__
_PLAIN_TYPES = frozenset({Tensor, Parameter})
_MUTABLE = (list, dict, set)


class Ledger(Generic[T]):
    """Numbers rows that several threads add concurrently; number 0 is reserved for "none"."""

    def __init__(self, none: T) -> None:
        self.rows: dict[int, T] = {0: none}
        self._next = count(1)

    def add(self, row: T) -> int:
        # `next` of a count is atomic under the GIL, so that threads need no lock.
        number = next(self._next)
        self.rows[number] = row
        return number


class Watcher(TorchFunctionMode):
    """Passes every torch call of this thread to a sink.

    Args:
        sink: receives the events.
        groups: the composites opened so far, shared by all threads of a capture.
        call: the module call in which this thread starts.
        check: called from time to time with the current time, to check the memory.
    """

    def __init__(self, sink: Sink, groups: Ledger[GroupEvent], call: int, check: Callable[[int], int]) -> None:
        self.append = sink.append
        self.before_write = sink.before_write
        self.groups = groups
        self.group = 0
        self.composite: Any = None
        self.call = call
        self.calls: list[int] = []
        self.paused = 0
        self.closure: Closure | None = None
        self.check = check
        self.deadline = check(0)
        self.failed: tuple[BaseException, tuple[Any, ...]] | None = None

    def __torch_function__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
        _known: Callable[[Any], Function | None] = _KNOWN,
        _clock: Callable[[], int] = perf_counter_ns,
        _frame: Callable[[int], Any] = _getframe,
        _Tensor: type[Tensor] = Tensor,
        _grad: Callable[[], bool] = torch.is_grad_enabled,
        _autocast: Callable[[], bool] = torch._C._is_any_autocast_enabled,
    ) -> Any:
        function = _known(func)
        if function is None:
            function = function_of(func)
        role = function.role
        generators: Any = ()
        if role == SKIP or self.paused:
            if self.closure is not None:
                # Inside an opaque region, the only question is which tensors from outside it reads.
                return self.closure.observe(func, args, kwargs)
            return func(*args, **kwargs) if kwargs else func(*args)
        # Plain ops, the vast majority, skip this block with one comparison.
        if role >= COMPOSITE or kwargs:
            # A Tensor method that calls `super()` (`split`, `unflatten`) returns under its own name: then it is an op.
            # Subclasses get the call whole: the opened copy would not ask their `__torch_function__`.
            if role == COMPOSITE and func is not self.composite and _PLAIN_TYPES.issuperset(types):
                return self._open(func, function.name, function.body, args, kwargs)
            if role == BACKWARD:
                return self._backward(func, args, kwargs)
            if role == PYTHON and func is not self.composite:
                body = running_function(func, _skip_internal(_frame(1)))
                if body is not None and _PLAIN_TYPES.issuperset(types):
                    return self._open(func, function.name, body, args, kwargs)
            if function.writes or (kwargs and "out" in kwargs):
                targets = written_tensors(function, args, kwargs)
                if targets:
                    self.before_write(targets, function.moves or "out" in (kwargs or ()))
            # `tolist` copies; the others hand out the memory itself.
            elif role == ESCAPE and func is not _TOLIST:
                self.before_write(list(args[:1]))
            if function.is_random:
                generators = generators_used(function.name, args, kwargs)
        frame = _frame(1)
        code: CodeType = frame.f_code
        if code is _DISPATCH_CODE or code is _MODE_CODE:
            frame = _caller(frame)
            code = frame.f_code
        inputs = args
        for value in args:
            if type(value) in _MUTABLE:
                inputs = tuple([copy_containers(value) for value in args])
                break
        context: Any = _grad()
        if generators or _autocast():
            context = Context(context, current_autocast(), generators)
        started = _clock()
        try:
            result = func(*args, **kwargs) if kwargs else func(*args)
        except BaseException as error:
            self._note_failure(error, (func, inputs, kwargs, None, self.call, self.group, code, frame.f_lasti, started))
            raise
        ended = _clock()
        version = None
        if type(result) is _Tensor:
            try:
                version = result._version
            except RuntimeError:  # created in inference mode: no version counter
                pass
        elif type(result) in (tuple, list):
            version = _versions(result)
        # The program may modify the list it receives before the event is resolved.
        made = result if type(result) is not list else list(result)
        self.append(
            (func, inputs, kwargs, made, self.call, self.group, code, frame.f_lasti, started, ended, version, context)
        )
        if role == ESCAPE:
            self.before_write([])  # resolve now: the program may modify the result
        if ended > self.deadline:
            self.deadline = self.check(ended)
        return result

    def _open(self, func: Any, name: str, body: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None) -> Any:
        """Runs a composite's copy with this mode active, so that its inner calls arrive here."""
        frame = _caller(_getframe(2))
        outer = self.group, self.composite
        event = GroupEvent(name, self.group, self.call, frame.f_code, frame.f_lasti)
        self.group, self.composite = self.groups.add(event), func
        _push(self)
        try:
            return body(*args, **kwargs) if kwargs else body(*args)
        finally:
            _pop()
            self.group, self.composite = outer

    def _backward(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None) -> Any:
        """Runs the autograd engine unrecorded; a call of `torch.autograd.grad` is one opaque operation."""
        frame = _caller(_getframe(2))
        started = perf_counter_ns()
        result = func(*args, **(kwargs or {}))
        ended = perf_counter_ns()
        # `backward()` returns nothing; its gradients are captured by hooks.
        if result is not None:
            self.append(
                (
                    func,
                    args,
                    kwargs,
                    result,
                    self.call,
                    self.group,
                    frame.f_code,
                    frame.f_lasti,
                    started,
                    ended,
                    _versions(result),
                    torch.is_grad_enabled(),
                )
            )
        return result

    def _note_failure(self, error: BaseException, event: tuple[Any, ...]) -> None:
        # An error passes through all enclosing composites; the innermost call raised it.
        if self.failed is None or self.failed[0] is not error:
            self.failed = error, event


class DisabledWatcher(Watcher):
    """A disabled watcher: its capture has ended but its thread still runs, or it is in a forked child."""

    def __torch_function__(  # type: ignore[override]
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        return func(*args, **(kwargs or {}))


class Closure:
    """Finds the tensors that an opaque region reads besides its arguments.

    Inside `vmap` and similar transforms, mapped tensors are wrapped. A plain tensor that was not created in the region
    (for example a parameter of a module called there) comes from outside.
    """

    def __init__(self) -> None:
        self.tensors: dict[int, Tensor] = {}
        self._created: dict[int, Any] = {}

    def observe(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None) -> Any:
        for value in (*args, *(kwargs or {}).values()):
            for item in value if isinstance(value, (tuple, list)) else (value,):
                if isinstance(item, Tensor) and id(item) not in self._created and not _is_wrapped(item):
                    self.tensors[id(item)] = item
        result = func(*args, **(kwargs or {}))
        for item in result if isinstance(result, (tuple, list)) else (result,):
            if isinstance(item, Tensor):
                self._created[id(item)] = item
        return result


_is_wrapped = torch._C._functorch.is_functorch_wrapped_tensor
_TOLIST = Tensor.tolist
_MODE_CODE = Watcher.__torch_function__.__code__
INTERNAL_CODE = {_MODE_CODE}
"""Code objects of Cutaway that can be on the stack between a torch function and its caller."""


def remove_mode(mode: TorchFunctionMode) -> None:
    """Removes a mode from the stack of the current thread, wherever it is."""
    above: list[TorchFunctionMode] = []
    while torch._C._len_torch_function_stack():
        top = _pop()
        if top is mode:
            break
        above.append(top)
    for other in reversed(above):
        _push(other)


def running_function(func: Any, frame: Any) -> Any:
    """The opened copy of the function that dispatched under the name `func`; None if that is `func` itself.

    Torch dispatches by name: if `F.softmax` was monkeypatched, or is one of several functions behind a dispatching
    wrapper (`F.max_pool2d`), the running code is not that of `func`.
    """
    if frame.f_code is not _DISPATCH_CODE or frame.f_back is None:
        return None
    running = frame.f_back
    # A function with a closure cannot be rebuilt from its code object alone.
    if running.f_code is func.__code__ or running.f_code.co_freevars:
        return None
    return open_code(running.f_code, running.f_globals)


def _skip_internal(frame: Any) -> Any:
    while frame.f_code in INTERNAL_CODE and frame.f_back is not None:
        frame = frame.f_back
    return frame


def _caller(frame: Any) -> Any:
    """The frame that called the torch function, skipping torch's dispatch code and other watchers."""
    while frame.f_back is not None:
        if frame.f_code in INTERNAL_CODE:
            frame = frame.f_back
        elif frame.f_code is _DISPATCH_CODE:
            frame = frame.f_back.f_back or frame.f_back
        else:
            break
    return frame


def copy_containers(value: Any) -> Any:
    """Copies containers that the program may modify after the call, because the graph is resolved later."""
    kind = type(value)
    if kind is list:
        return [copy_containers(item) for item in value]
    if kind is dict:
        return {key: copy_containers(item) for key, item in value.items()}
    if kind is set:
        return set(value)
    return value


def _versions(result: Any) -> Any:
    versions = []
    for item in result:
        try:
            versions.append(item._version if isinstance(item, Tensor) else None)
        except RuntimeError:
            versions.append(None)
    return versions
