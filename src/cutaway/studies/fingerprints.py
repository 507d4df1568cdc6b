"""Short texts by which a model or a change is known again."""

from __future__ import annotations

import zlib
from hashlib import blake2b
from types import CodeType, FunctionType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from cutaway.capture.interventions.new_values import Change
from cutaway.graph.op import Op
from cutaway.graph.trace import Trace

_PARTS = 64
_SAMPLED = 4096

State = dict[str, str]
"""Parameters and buffers by name, each with the fingerprint of its values."""


def state_of(model: nn.Module) -> State:
    """Every parameter and buffer with the fingerprint of its values."""
    tensors = [*model.named_parameters(), *model.named_buffers()]
    return {name: of_tensor(tensor) for name, tensor in tensors if not nn.parameter.is_lazy(tensor)}


def of_state(state: State, model: nn.Module) -> str:
    """One text for all values, and for which modules are in training mode."""
    modes = "".join(str(int(module.training)) for module in model.modules())
    return of_text(repr(sorted(state.items())) + modes)


def of_text(text: str) -> str:
    return blake2b(text.encode(), digest_size=8).hexdigest()


def of_tensor(tensor: Tensor) -> str:
    """Sums of the memory, read as integers, and some of its words: exact, whatever the order of adding.

    It is computed where the tensor is, at the speed of its memory; only some kilobytes travel.
    """
    about = f"{list(tensor.shape)} {tensor.dtype}"
    if tensor.is_meta:
        return about
    with torch.no_grad(), torch._C.DisableTorchFunction():
        try:
            dense = tensor.detach() if tensor.layout is torch.strided else tensor.detach().to_dense()
            words = dense.reshape(-1).contiguous().view(torch.uint8)
            if words.numel() % 4 == 0:
                words = words.view(torch.int32)
            n = len(words) // _PARTS * _PARTS
            sums = words[:n].view(_PARTS, -1).sum(1, dtype=torch.int64).tolist()
            rest = words[n:].tolist()
            some = words[:: max(1, len(words) // _SAMPLED)].cpu().clone().numpy().tobytes()
        except (RuntimeError, NotImplementedError):  # a layout whose memory cannot be read as bytes
            return about
    return of_text(f"{about} {sums} {rest} {zlib.crc32(some)}")


def in_words(to: Any) -> str:
    """What a value is changed to, for a reader.

    >>> from cutaway.capture.interventions.edit import edit
    >>> in_words(0), in_words("h.3.mlp"), in_words(edit.scale(2)), in_words(edit.swap(torch.tanh))
    ('0', 'h.3.mlp', 'scale(factor=2)', 'swap(tanh)')
    """
    if isinstance(to, _PLAIN):
        return str(to)
    if isinstance(to, (Tensor, np.ndarray)):
        return f"a tensor of shape {list(to.shape)}"
    if isinstance(to, Op):
        return f"the value of {to.label}"
    if isinstance(to, Trace):
        return f"the values of a trace of {to.model_name}"
    if isinstance(to, Change) and to.swaps is not None:
        return f"swap({in_words(to.swaps)})"
    if isinstance(to, Change):
        held = ", ".join(f"{name}={in_words(value)}" for name, value in _held(to.make).items())
        return f"{_name(to.make)}({held})"
    return _name(to)


def of_change(to: Any) -> str:
    """A text that is the same in the next run of a program if what a value is changed to is."""
    if isinstance(to, _PLAIN):
        return str(to)
    if isinstance(to, (Tensor, np.ndarray)):
        return of_tensor(torch.as_tensor(to))
    if isinstance(to, Op):
        return f"{to.label} {of_change(to.value)}"
    if isinstance(to, Trace):
        ends = [of_change(op.value) for op in (*to.inputs, *to.outputs) if op.is_saved]
        return f"{in_words(to)} {of_text(repr(ends))}"
    function = (to.swaps or to.make) if isinstance(to, Change) else to
    code = getattr(function, "__code__", None)
    if code is None:
        return in_words(to)
    known = (*_PLAIN, Tensor, np.ndarray)  # a function may hold itself, so that no other is followed
    held = {
        name: of_change(value) if isinstance(value, known) else in_words(value)
        for name, value in _held(function).items()
    }
    return f"{in_words(to)} {of_text(_written(code) + repr(held))}"


_PLAIN = (bool, int, float, complex, str, type(None))


def _name(function: Any) -> str:
    """Its name; of what a function made, the name of that one."""
    name: str = getattr(function, "__qualname__", None) or type(function).__qualname__
    return (
        name.split(".<locals>")[0] if isinstance(function, FunctionType) and _is_own(function) else name.split(".")[-1]
    )


def _is_own(function: FunctionType) -> bool:
    return function.__module__ == Change.__module__


def _held(function: Any) -> dict[str, Any]:
    """The values that a function keeps from where it was made."""
    if not isinstance(function, FunctionType):
        return {}
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    return {name: cell.cell_contents for name, cell in cells if _is_filled(cell)}


def _is_filled(cell: Any) -> bool:
    try:
        _ = cell.cell_contents
    except ValueError:
        return False
    return True


def _written(code: CodeType) -> str:
    """The instructions of a function and its constants, without the addresses of objects."""
    constants = [_written(each) if isinstance(each, CodeType) else repr(each) for each in code.co_consts]
    return repr((code.co_code, code.co_names, constants))
