"""Fingerprints of models and edits, to recognize a study when it is resumed."""

from __future__ import annotations

import zlib
from hashlib import blake2b
from types import CodeType, FunctionType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from cutaway.capture.interventions.new_values import Change
from cutaway.capture.tensors.conversion import as_tensor
from cutaway.graph.op import Op
from cutaway.graph.trace import Trace

_PARTS = 64
_SAMPLED = 4096

State = dict[str, str]
"""Name of each parameter and buffer → fingerprint of its values."""


def state_fingerprints(model: nn.Module) -> State:
    """The fingerprint of each parameter and buffer."""
    tensors = [*model.named_parameters(), *model.named_buffers()]
    return {name: tensor_fingerprint(tensor) for name, tensor in tensors if not nn.parameter.is_lazy(tensor)}


def combined_fingerprint(state: State, model: nn.Module) -> str:
    """One fingerprint for all values and training flags."""
    modes = "".join(str(int(module.training)) for module in model.modules())
    return text_fingerprint(repr(sorted(state.items())) + modes)


def text_fingerprint(text: str) -> str:
    return blake2b(text.encode(), digest_size=8).hexdigest()


def tensor_fingerprint(tensor: Tensor) -> str:
    """Exact fingerprint: shape, dtype, integer sums of the memory, and a checksum of a sample of it.

    Integer sums do not depend on the order of addition. They are computed on the tensor's device at memory speed; only
    a few kilobytes are copied.
    """
    about = f"{list(tensor.shape)} {tensor.dtype}"
    if tensor.is_meta:
        return about
    # An active trace or edit must not see these ops.
    with torch.no_grad(), torch._C.DisableTorchFunction():
        try:
            dense = tensor.detach() if tensor.layout is torch.strided else tensor.detach().to_dense()
            words = dense.reshape(-1).contiguous().view(torch.uint8)
            if words.numel() % 4 == 0:
                words = words.view(torch.int32)
            # Sums of parts: values that swap places between parts change them.
            n = len(words) // _PARTS * _PARTS
            sums = words[:n].view(_PARTS, -1).sum(1, dtype=torch.int64).tolist()
            rest = words[n:].tolist()
            sample = words[:: max(1, len(words) // _SAMPLED)].cpu().clone().numpy().tobytes()
        except (RuntimeError, NotImplementedError):  # a layout whose memory cannot be viewed as bytes
            return about
    return text_fingerprint(f"{about} {sums} {rest} {zlib.crc32(sample)}")


def describe_change(to: Any) -> str:
    """Describe the new value of an edit. Stored in study files: do not change the wording.

    >>> from cutaway.capture.interventions.edit import edit
    >>> describe_change(0), describe_change("h.3.mlp"), describe_change(edit.scale(2))
    ('0', 'h.3.mlp', 'scale(factor=2)')
    >>> describe_change(edit.swap(torch.tanh))
    'swap(tanh)'
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
        return f"swap({describe_change(to.swaps)})"
    if isinstance(to, Change):
        closure = ", ".join(f"{name}={describe_change(value)}" for name, value in _closure_values(to.make).items())
        return f"{_name(to.make)}({closure})"
    return _name(to)


def change_fingerprint(to: Any) -> str:
    """A text that identifies the new value of an edit across program runs."""
    if isinstance(to, _PLAIN):
        return str(to)
    if isinstance(to, (Tensor, np.ndarray)):
        return tensor_fingerprint(as_tensor(to))
    if isinstance(to, Op):
        return f"{to.label} {change_fingerprint(to.value)}"
    if isinstance(to, Trace):
        ends = [change_fingerprint(op.value) for op in (*to.inputs, *to.outputs) if op.is_saved]
        return f"{describe_change(to)} {text_fingerprint(repr(ends))}"
    function = (to.swaps or to.make) if isinstance(to, Change) else to
    code = getattr(function, "__code__", None)
    if code is None:
        return describe_change(to)
    known = (*_PLAIN, Tensor, np.ndarray)  # do not follow functions: a function may refer to itself
    closure = {
        name: change_fingerprint(value) if isinstance(value, known) else describe_change(value)
        for name, value in _closure_values(function).items()
    }
    return f"{describe_change(to)} {text_fingerprint(_code_text(code) + repr(closure))}"


_PLAIN = (bool, int, float, complex, str, type(None))


def _name(function: Any) -> str:
    """The name of a function; for one of Cutaway's closures, the name of the function that made it."""
    name: str = getattr(function, "__qualname__", None) or type(function).__qualname__
    is_internal = isinstance(function, FunctionType) and _is_internal(function)
    return name.split(".<locals>")[0] if is_internal else name.split(".")[-1]


def _is_internal(function: FunctionType) -> bool:
    return function.__module__ == Change.__module__


def _closure_values(function: Any) -> dict[str, Any]:
    """The closure variables of a function."""
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


def _code_text(code: CodeType) -> str:
    """The bytecode and constants of a function, without memory addresses."""
    # repr of a code object holds its memory address, which differs in each process.
    constants = [_code_text(each) if isinstance(each, CodeType) else repr(each) for each in code.co_consts]
    return repr((code.co_code, code.co_names, constants))
