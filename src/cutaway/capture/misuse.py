"""Explains wrong calls of the verbs: no model, inputs that do not fit, a block that was never entered."""

from __future__ import annotations

import inspect
import re
import sys
import warnings
from collections.abc import Callable, Mapping
from pathlib import PurePath
from typing import Any, NoReturn

from torch import Tensor, nn

from cutaway.core.errors import InputError, InputTypeError
from cutaway.core.formatting import listed, type_text
from cutaway.core.pytree import leaves
from cutaway.graph.trace import Trace

_WATCH_OPTIONS = ("save", "keep", "transform", "seed", "orphans")
_MISFIT = re.compile(r"\bdtype|scalar type|\bdevices?\b", re.IGNORECASE)
"""What torch's errors about tensors of different dtypes or devices have in common."""


def check_model(model: object, verb: str) -> None:
    """Raises if the first argument of a verb is not a model."""
    if isinstance(model, nn.Module):
        return
    if isinstance(model, type):
        what = f"the class {model.__name__}: create an instance first, {model.__name__}(…)"
    elif isinstance(model, Trace):
        what = "a Trace: pass the model that it was made from"
    elif isinstance(model, (str, PurePath)):
        what = f"{str(model)!r}: load the model first"
    elif _holds_tensor(model):
        call = "model, x" if verb in ("trace", "sites") else "model, …" if verb == "edit" else "model"
        what = f"{type_text(model)}, perhaps its output: pass the model itself, cutaway.{verb}({call})"
    else:
        what = f"{type_text(model)}"
        if callable(model) and verb in ("trace", "watch"):
            what += ". To trace other code, put it in a block: `with cutaway.watch() as trace:`"
    raise InputTypeError(f"cutaway.{verb}: the model must be a torch.nn.Module, got {what}.")


def _holds_tensor(value: object) -> bool:
    return next(leaves(value, _is_tensor, objects=False), None) is not None


def warn_of_swallowed_options(model: nn.Module, kwargs: Mapping[str, Any]) -> None:
    """Warns if an option of `watch` goes to a forward that accepts any keyword, where it would have no effect."""
    options = [name for name in _WATCH_OPTIONS if name in kwargs]
    # Signatures are slow to inspect: only if a name is suspicious.
    signature = _signature(model) if options else None
    parameters = signature.parameters if signature is not None else {}
    if any(each.kind == each.VAR_KEYWORD for each in parameters.values()):
        for name in options:
            if name not in parameters:
                warnings.warn(
                    f"{name}= was passed to {type(model).__name__}.forward, which accepts any keyword. If you meant "
                    f"Cutaway's option, write `with cutaway.watch(model, {name}=…) as trace:`.",
                    UserWarning,
                    stacklevel=3,
                )


def _signature(model: nn.Module) -> inspect.Signature | None:
    try:
        return inspect.signature(model.forward)
    except (TypeError, ValueError):  # a ScriptModule, or a forward without a signature
        return None


def explain_error(
    error: BaseException, verb: str, model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], *, n_ops: int
) -> BaseException:
    """The model's own error, or an `InputError` if the arguments do not fit its forward.

    The model's error stays the same object; if inputs and parameters differ in dtype or device, it gets a note.

    Args:
        n_ops: number of ops that ran before the error.
    """
    if isinstance(error, TypeError) and n_ops == 0:
        misfit = _misfit(verb, model, args, kwargs)
        if misfit is not None:
            return misfit
    # Only for torch's errors about such a mismatch: mixed devices or dtypes are often intended.
    if isinstance(error, (RuntimeError, TypeError)) and _MISFIT.search(str(error)):
        note = _mismatch_note(model, args, kwargs, is_first_op=n_ops == 0)
        if note:
            error.add_note(note)
    return error


def _misfit(verb: str, model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> InputError | None:
    signature = _signature(model)
    if signature is None:
        return None
    try:
        signature.bind(*args, **kwargs)
    except TypeError as misfit:
        options = [name for name in kwargs if name in _WATCH_OPTIONS and name not in signature.parameters]
        advice = f"{verb}(model, ...) passes all arguments after the model to it"
        if options:
            advice += f"; {options[0]}= is an option of `with cutaway.watch(model, {options[0]}=…) as trace:`"
        names = ", ".join(signature.parameters)
        return InputError(f"these arguments do not fit {type(model).__name__}.forward({names}): {misfit}; {advice}.")
    return None


def _mismatch_note(model: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any], *, is_first_op: bool) -> str:
    """Which inputs differ from the model's parameters in device or dtype, as one sentence; "" if none."""
    parameters = [*model.parameters()]
    devices = dict.fromkeys(str(parameter.device) for parameter in parameters)
    dtypes = dict.fromkeys(_dtype_name(parameter) for parameter in parameters if parameter.is_floating_point())
    inputs = list(leaves(({str(i): value for i, value in enumerate(args)} | dict(kwargs)), _is_tensor))
    elsewhere = [f"{path!r} is on {tensor.device}" for path, tensor in inputs if str(tensor.device) not in devices]
    if devices and elsewhere:
        return f"cutaway: input {listed(elsewhere)}; the parameters are on {listed(devices)}. Use .to(device)."
    # Token ids and masks are integers by design: they are suspicious only if the very first op failed.
    suspects = [(path, tensor) for path, tensor in inputs if tensor.is_floating_point() or is_first_op]
    other = [f"{path!r} is {_dtype_name(tensor)}" for path, tensor in suspects if _dtype_name(tensor) not in dtypes]
    if dtypes and other:
        return f"cutaway: input {listed(other)}; the parameters are {listed(dtypes)}. Use .to(dtype)."
    return ""


def _is_tensor(value: object) -> bool:
    return isinstance(value, Tensor)


def _dtype_name(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


class EntryReminder:
    """Warns when a block object is garbage-collected that was never entered, at the line that created it.

    The owner holds the only reference, so that a statement without `with` warns at once.
    """

    __slots__ = ("_effect", "_line", "_verb", "is_entered")

    def __init__(self, verb: str, effect: str) -> None:
        frame = sys._getframe(1)
        while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("cutaway."):
            frame = frame.f_back
        # The frame itself would keep the caller's locals alive.
        self._line = frame.f_code.co_filename, frame.f_lineno
        self._verb, self._effect = verb, effect
        self.is_entered = False

    def __del__(self, _is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        # Modules are torn down when the interpreter exits (`sys` is None then), and nobody reads the warning.
        if not self.is_entered and not _is_finalizing():
            warnings.warn_explicit(
                f"this cutaway.{self._verb} was never entered, so it {self._effect}: "
                f"write `with cutaway.{self._verb}(model, …):` around the code that runs the model.",
                UserWarning,
                *self._line,
            )


def refuse_attribute(verb: str, name: str, advice: str) -> NoReturn:
    """Raises the error for an attribute that a block object does not have."""
    raise AttributeError(f"a cutaway.{verb} block has no attribute {name!r}: {advice}")
