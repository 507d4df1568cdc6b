"""Calls of the model's modules, seen without hooks: each module's call is wrapped for the length of a step.

`nn.Module.__call__` runs `_compiled_call_impl` where a module has one. A wrapper put there sees the arguments and the
final result, after all hooks of the module; it leaves the hooks alone, so that the fast paths of
`nn.TransformerEncoder` stay open; it is not copied or pickled with the module; and `torch.compile` neither guards on
it nor looks into it, so that nothing is compiled again because a step is recorded.
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
    """The wrappers around some modules.

    Args:
        entered: told the module, its positional and its keyword arguments.
        left: told the module and its result, unless the call has raised.
        trouble: told what these raise.
    """

    def __init__(self, on_call: OnCall, on_result: OnResult, on_error: Callable[[Exception], None]) -> None:
        self.is_on = False
        self.on_error = on_error
        self.on_call = on_call
        self.on_result = on_result
        self._wrapped: list[tuple[nn.Module, Any]] = []

    def start(self, modules: Iterable[nn.Module]) -> None:
        """Wrap the calls of these modules."""
        self.is_on = True
        for module in modules:
            wrapper = _wrap(module, module.__dict__.get(_ATTRIBUTE), self)
            self._wrapped.append((module, wrapper))
            module.__dict__[_ATTRIBUTE] = wrapper

    def stop(self) -> None:
        """Take all wrappers off again; what the program has put in their place meanwhile stays."""
        self.is_on = False
        while self._wrapped:
            module, wrapper = self._wrapped[-1]
            if _ATTRIBUTE in module.__dict__ and module.__dict__[_ATTRIBUTE] is wrapper:
                inner = _active_call(wrapper.inner)
                if inner is None:
                    del module.__dict__[_ATTRIBUTE]
                else:
                    module.__dict__[_ATTRIBUTE] = inner
            self._wrapped.pop()


def _active_call(call: Any) -> Any:
    """What is below the wrappers of other recorders, which were switched off before this one."""
    while hasattr(call, "calls") and not call.calls.is_on:
        call = call.inner
    return call


def _wrap(module: nn.Module, inner: Any, calls: CallWrappers) -> Any:
    def call(*args: Any, **kwargs: Any) -> Any:
        frame = _getframe(1)
        called = frame.f_locals["self"] if frame.f_code is _CALL else module
        run = called._call_impl if inner is None else inner
        if called is not module or not calls.is_on:  # a replica (DataParallel) has a copy of all attributes
            return run(*args, **kwargs)
        # Where the call is part of a compiled program, what is done here is none.
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

    # Whoever looks for the line of the program that called the module, or decides by files what to compile, is to
    # take this for the part of torch it stands for.
    call.__code__ = call.__code__.replace(co_filename=_torch_module.__file__)
    wrapper: Any = call
    wrapper.inner, wrapper.calls = inner, calls
    return wrapper
