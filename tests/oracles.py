"""Independent ways to find out what a model did, to hold a trace against."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from cutaway import Op, Trace
from cutaway.core.pytree import leaves, replace

_DRAWS = ("rand", "randn", "bernoulli", "dropout", "normal", "uniform", "multinomial", "randint", "randperm", "rrelu")


def is_tensor(value: Any) -> bool:
    return isinstance(value, Tensor)


def tensors(tree: Any) -> dict[str, Tensor]:
    return dict(leaves(tree, is_tensor))


def same(a: Any, b: Any) -> bool:
    """Bit-equal, NaNs and layout included."""
    if not isinstance(a, Tensor):
        return bool(np.array_equal(a, b, equal_nan=True)) if isinstance(a, np.ndarray) else a == b
    if type(a) is not type(b) and not isinstance(b, Tensor):
        return False
    if a.layout != b.layout or a.dtype != b.dtype or a.device != b.device:
        return False
    if a.is_meta:
        return a.shape == b.shape
    if a.is_nested:
        return all(same(p, q) for p, q in zip(a.unbind(), b.unbind(), strict=True))
    if a.is_sparse:
        a, b = a.coalesce(), b.coalesce()
        return same(a.values(), b.values()) and same(a.indices(), b.indices())
    if a.layout is not torch.strided:
        return same(a.to_dense(), b.to_dense())
    if a.is_quantized:
        a, b = a.dequantize(), b.dequantize()
    a, b = a.detach().as_subclass(Tensor), b.detach().as_subclass(Tensor)
    if a.dtype is torch.complex32:  # torch 2.13 cannot compare it
        a, b = torch.view_as_real(a.resolve_conj()), torch.view_as_real(b.resolve_conj())
    return a.shape == b.shape and bool(
        torch.equal(a, b) or (torch.equal(a.isnan(), b.isnan()) and torch.equal(a[~a.isnan()], b[~b.isnan()]))
    )


def close(a: Any, b: Any) -> bool:
    """Equal up to the choice of kernel, which may depend on whether a gradient is wanted."""
    if same(a, b) or not isinstance(a, Tensor) or not isinstance(b, Tensor):
        return same(a, b)
    if not (a.is_floating_point() or a.is_complex()):
        return False
    return a.dtype == b.dtype and a.shape == b.shape and torch.allclose(a, b, rtol=1e-4, atol=1e-6, equal_nan=True)


def random_states() -> tuple[Any, ...]:
    return random.getstate(), repr(np.random.get_state()), torch.get_rng_state().tolist()


class ModuleOutputs:
    """Copies of what every module returned, by ordinary hooks on a model that nobody traces."""

    def __init__(self, model: nn.Module) -> None:
        self.found: dict[str, list[dict[str, Tensor]]] = {}
        self._handles = []
        for name, module in model.named_modules():
            self._handles.append(module.register_forward_hook(self._keep(name)))

    def _keep(self, name: str) -> Any:
        def hook(module: nn.Module, args: Any, result: Any) -> None:
            copies = {path: _copy(tensor) for path, tensor in leaves(result, is_tensor, objects=not name)}
            self.found.setdefault(name or ".", []).append(copies)

        return hook

    def remove(self) -> None:
        for handle in self._handles:
            handle.remove()


def _copy(tensor: Tensor) -> Tensor:
    return tensor.detach().clone()


def replayed(op: Op) -> Any:
    """What the op's function gives on the saved values of its parents; None where that cannot be known."""
    if op.is_source or op.is_alias_write or op.is_opaque or any(draw in op.function for draw in _DRAWS):
        return None
    if op.function == "scaled_dot_product_attention" and (op.kwargs.get("dropout_p") or any(op.args[4:5])):
        return None
    if op.function in ("empty", "empty_like", "new_empty", "grad", "data_ptr", "backward"):
        return None

    def value(parent: Any) -> Any:
        saved = parent.value
        copies[parent.node] = copies.get(parent.node, saved.clone() if isinstance(saved, Tensor) else saved)
        return copies[parent.node]

    copies: dict[int, Any] = {}
    is_op = lambda item: isinstance(item, Op)  # noqa: E731
    args, kwargs = replace(op.args, value, is_op), replace(op.kwargs, value, is_op)
    with torch.no_grad():
        result = op.callable(*args, **kwargs)
    if op.is_inplace:
        if "out" in op.kwargs:
            return kwargs["out"]
        target = args[0] if args else next(iter(kwargs.values()))
        return target[int(op.output_path)] if isinstance(target, (list, tuple)) else target
    if op.output_index is not None:
        return list(tensors(tuple(result)).values())[op.output_index]
    return result


def check_replay(trace: Trace) -> int:
    """Every op gives its saved value again from its parents' saved values; returns how many were proven."""
    proven = 0
    for op in trace.ops:
        again = replayed(op)
        if again is None:
            continue
        assert close(again, op.value), f"{op!r} replayed differs: {op.function} from {[p.label for p in op.parents]}"
        proven += 1
    return proven
