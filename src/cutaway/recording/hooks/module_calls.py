"""Wraps module calls for the length of a step, without registering forward hooks.

`nn.Module.__call__` runs `_compiled_call_impl` if a module has one. A wrapper put there sees the arguments and the
final result, after all hooks of the module. It registers no hook, so the fast path of `nn.TransformerEncoder` stays
enabled. It is not copied or pickled with the module. `torch.compile` neither guards on it nor traces into it, so
recording a step causes no recompilation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from sys import _getframe
from typing import Any

from torch import nn
from torch._C._dynamo.eval_frame import set_eval_frame
from torch.nn.modules import module as _torch_module

_ATTRIBUTE = "_compiled_call_impl"
_CALL = nn.Module._wrapped_call_impl.__code__  # type: ignore[attr-defined]

OnCall = Callable[[nn.Module, Any, Any], None]
OnResult = Callable[[nn.Module, Any], None]


class CallWrappers:
    """The wrappers around the calls of some modules.

    Args:
        on_call: callback with the module, its positional and its keyword arguments.
        on_result: callback with the module and its result, unless the call has raised.
        on_error: callback with exceptions of the other two.
    """

    def __init__(self, on_call: OnCall, on_result: OnResult, on_error: Callable[[Exception], None]) -> None:
        self.is_on = False
        self.on_error = on_error
        self.on_call = on_call
        self.on_result = on_result
        self._wrapped: list[_Wrapper] = []

    def start(self, modules: Iterable[nn.Module]) -> None:
        """Wrap the calls of these modules."""
        self.is_on = True
        for module in modules:
            wrapper = _Wrapper(module, module.__dict__.get(_ATTRIBUTE), self)
            self._wrapped.append(wrapper)
            module.__dict__[_ATTRIBUTE] = wrapper

    def stop(self) -> None:
        """Remove all wrappers for good, but leave what the program has put in their place meanwhile."""
        self.is_on = False
        # What they belong to is freed at once, without the garbage collector.
        self.on_call = self.on_result = _ignore
        while self._wrapped:
            wrapper = self._wrapped[-1]
            attributes = wrapper.module.__dict__
            if attributes.get(_ATTRIBUTE) is wrapper:
                inner = _active_call(wrapper.inner)
                if inner is None:
                    del attributes[_ATTRIBUTE]
                else:
                    attributes[_ATTRIBUTE] = inner
            self._wrapped.pop()


def _ignore(*args: Any) -> None:
    """The callback of a stopped wrapper."""


def _active_call(call: Any) -> Any:
    """The next call below that is not an inactive wrapper of another recorder."""
    while isinstance(call, _Wrapper) and not call.calls.is_on:
        call = call.inner
    return call


class _Wrapper:
    """Stands in for the call of a module.

    An object and not a closure, because recorded steps wrap every module anew: a closure with its cells is six objects
    for the garbage collector to count.
    """

    __slots__ = ("calls", "inner", "module")

    def __init__(self, module: nn.Module, inner: Any, calls: CallWrappers) -> None:
        self.module = module
        self.inner = inner
        self.calls = calls

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        module, calls = self.module, self.calls
        frame = _getframe(1)
        called = frame.f_locals["self"] if frame.f_code is _CALL else module
        run = called._call_impl if self.inner is None else self.inner
        if called is not module or not calls.is_on:  # a DataParallel replica has a copy of all attributes
            return run(*args, **kwargs)
        # No dynamo here: where the call is part of a compiled program, the callbacks must not be compiled.
        callback = set_eval_frame(None)
        try:
            calls.on_call(module, args, kwargs)
        except Exception as error:
            calls.on_error(error)
        finally:
            set_eval_frame(callback)
        result = run(*args, **kwargs)
        callback = set_eval_frame(None)
        try:
            calls.on_result(module, result)
        except Exception as error:
            calls.on_error(error)
        finally:
            set_eval_frame(callback)
        return result

    # Tools that look for the user's frame, or decide by file name what to compile, must take this frame for the part
    # of torch that it stands in for.
    __call__.__code__ = __call__.__code__.replace(co_filename=_torch_module.__file__)
