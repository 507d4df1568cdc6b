"""Unit layouts and sample dimensions that torch's own layers determine without a traced graph.

This holds only if the module runs the library's forward: a subclass may return something else. Layer norm and RMS norm
never decide alone, because they keep the units of their input.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import nn

from cutaway.core.units.layout import UnitLayout

Shape = Sequence[int]

_LAST = (
    nn.Linear,
    nn.Embedding,
    nn.EmbeddingBag,
    nn.Bilinear,
    nn.LSTM,
    nn.GRU,
    nn.RNN,
    nn.LSTMCell,
    nn.GRUCell,
    nn.RNNCell,
)
_N_SPATIAL = {
    nn.Conv1d: 1,
    nn.Conv2d: 2,
    nn.Conv3d: 3,
    nn.ConvTranspose1d: 1,
    nn.ConvTranspose2d: 2,
    nn.ConvTranspose3d: 3,
    nn.InstanceNorm1d: 1,
    nn.InstanceNorm2d: 2,
    nn.InstanceNorm3d: 3,
}
_SECOND = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm, nn.GroupNorm)
_TRANSPOSED = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
_RECURRENT = (nn.LSTM, nn.GRU, nn.RNN, nn.LSTMCell, nn.GRUCell, nn.RNNCell)
_NORMS = (nn.LayerNorm, nn.RMSNorm)
_TRANSFORMERS = (
    nn.Transformer,
    nn.TransformerEncoder,
    nn.TransformerDecoder,
    nn.TransformerEncoderLayer,
    nn.TransformerDecoderLayer,
)


def _class_of(module: nn.Module) -> type[nn.Module] | None:
    """The torch class whose forward a module runs; None if it runs its own."""
    if "forward" in module.__dict__ or isinstance(module, torch.jit.ScriptModule):  # wrapped, replaced or scripted
        return None
    forward = type(module).forward
    classes: tuple[type[nn.Module], ...] = (*_LAST, *_N_SPATIAL, *_SECOND, *_NORMS, nn.MultiheadAttention)
    for known in classes:
        if isinstance(module, known) and forward is known.forward:
            return known
    return None


def _own_forward(module: nn.Module) -> bool:
    """Whether a module does not run the forward of a class of torch.nn."""
    is_replaced = "forward" in module.__dict__ or isinstance(module, torch.jit.ScriptModule)
    return is_replaced or not type(module).forward.__module__.startswith("torch.nn.")


def output_layout(module: nn.Module, path: str, shape: Shape) -> UnitLayout | None:
    """The units of a module's output at a path; None if it does not decide alone. Samples are not known."""
    known, n = _class_of(module), len(shape)
    # A norm keeps the units of its input, which only the graph tells.
    if known is None or not n or known in _NORMS:
        return None
    if known in _N_SPATIAL:
        dim = n - 1 - _N_SPATIAL[known]
        return UnitLayout.of_dims(shape, [dim], source="module") if dim in (0, 1) else None
    if known in _SECOND:
        return UnitLayout.of_dims(shape, [1], source="module") if n > 1 else None
    if known is nn.MultiheadAttention and path not in ("", "0"):
        return None  # the attention weights
    return UnitLayout.of_dims(shape, [-1], source="module")


def is_sequence_first(module: nn.Module) -> bool:
    """Whether a layer of torch.nn takes time steps in the first dimension and samples in the second."""
    return isinstance(module, (nn.RNNBase, nn.MultiheadAttention)) and not module.batch_first


def output_sample_dim(module: nn.Module, path: str, n_dims: int) -> int | None:
    """The sample dimension of an output of torch's sequence layers; None for other modules and without a batch.

    >>> output_sample_dim(nn.LSTM(2, 3), "0", 3), output_sample_dim(nn.LSTM(2, 3, batch_first=True), "0", 3)
    (1, 0)
    """
    if n_dims < 3 or _own_forward(module):
        return None
    if isinstance(module, nn.RNNBase) and path.startswith("1"):
        return 1  # states: layers × samples × units, whatever batch_first says
    if isinstance(module, nn.MultiheadAttention) and path == "1":
        return 0  # attention weights
    layers = [module] if isinstance(module, (nn.RNNBase, nn.MultiheadAttention)) else []
    if isinstance(module, _TRANSFORMERS):
        layers = [inner for inner in module.modules() if isinstance(inner, nn.MultiheadAttention)]
    orders = {is_sequence_first(layer) for layer in layers}
    return int(orders.pop()) if len(orders) == 1 else None


def decides_output(module: nn.Module, path: str) -> bool:
    """Whether `output_layout` returns a layout."""
    return output_layout(module, path, (1, 1, 1, 1)) is not None or _class_of(module) in _N_SPATIAL


def parameter_layout(module: nn.Module, name: str, shape: Shape) -> UnitLayout | None:
    """The output units of a module's own parameter or buffer; None if the module does not decide."""
    known, n = _class_of(module), len(shape)
    if known is None or not n:
        return None
    if known in _RECURRENT:
        return _hidden_units(module, name, shape)
    if known in (nn.Embedding, nn.EmbeddingBag):
        return UnitLayout.of_dims(shape, [1], source="module") if name == "weight" else None
    if known in _TRANSPOSED and name == "weight":
        groups = int(module.groups)  # type: ignore[arg-type]
        if groups == 1:
            return UnitLayout.of_dims(shape, [1], source="module")
        split = ((groups, shape[0] // groups), *((size,) for size in shape[1:]))
        return UnitLayout(split, units=(0, 2), source="module")
    if known in _NORMS and len(module.normalized_shape) != 1:  # type: ignore[arg-type]
        return None
    return UnitLayout.of_dims(shape, [0], source="module")


def named_parameter_layout(modules: Mapping[str, nn.Module], address: str, shape: Shape) -> UnitLayout:
    """The output units of the parameter or buffer at an address; refused if its module does not decide.

    Args:
        modules: the modules of the model by address.
    """
    owner, _, name = address.rpartition(".")
    module = modules.get(owner or ".")
    layout = None if module is None else parameter_layout(module, name, shape)
    reason = "its module is not one of torch's own layers. The op of a trace knows: edit(model, at=trace[…])"
    return UnitLayout.refused(shape, reason) if layout is None else layout


def _hidden_units(module: nn.Module, name: str, shape: Shape) -> UnitLayout:
    """Rows are (gate, hidden unit): unit k is row k of every gate."""
    hidden = int(getattr(module, "proj_size", 0) or 0) if name.startswith("weight_hr") else int(module.hidden_size)  # type: ignore[arg-type]
    gates = shape[0] // hidden if hidden else 1
    split = ((gates, hidden), *((size,) for size in shape[1:]))
    return UnitLayout(split, units=(1,), source="module")
