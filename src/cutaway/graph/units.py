"""Which dimension of a value counts its units."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from cutaway.graph.nodes import OP

if TYPE_CHECKING:
    from cutaway.graph.op import Op

_SPATIAL = re.compile(r"(?:conv|max_pool|avg_pool|lp_pool|adaptive_|upsample|instance_norm).*?([123])d")
"""Functions that name their number of spatial dimensions: the channels stand before them, batch or no batch."""
_CHANNELS_SECOND = ("batch_norm", "instance_norm", "group_norm", "native_batch_norm", "native_group_norm")
KEEP_LAYOUT = frozenset({
    "relu", "gelu", "silu", "mish", "elu", "celu", "selu", "leaky_relu", "prelu", "rrelu", "sigmoid", "logsigmoid",
    "log_sigmoid", "tanh", "softplus", "softsign", "hardswish", "hardsigmoid", "hardtanh", "relu6", "threshold",
    "clamp", "abs", "exp", "sqrt", "square", "pow", "neg", "dropout", "alpha_dropout", "feature_dropout",
    "feature_alpha_dropout", "add", "mul", "sub", "div", "cat", "pad", "constant_pad_nd", "clone", "contiguous",
    "detach", "to", "type_as", "float", "half", "bfloat16", "interpolate",
})  # fmt: skip


def spatial_dimension(function: str, n_dims: int) -> int | None:
    """The dimension of the channels in the result of a function that has some; None for all others.

    >>> spatial_dimension("conv2d", 4), spatial_dimension("conv1d", 2), spatial_dimension("linear", 3)
    (1, 0, None)
    """
    spatial = _SPATIAL.match(function)
    if spatial is not None:
        return max(n_dims - 1 - int(spatial[1]), 0)
    return 1 if function.startswith(_CHANNELS_SECOND) and n_dims > 1 else None


def unit_dimension(op: Op) -> int:
    """The channels for results of convolutions and what is computed from them element by element; else the last.

    The walk up follows the first parent with as many dimensions.
    """
    meta = op.trace.tables.nodes.meta_of(op.node)
    n_dims = len(meta.shape) if meta is not None and meta.shape is not None else 1
    last = max(n_dims - 1, 0)
    at: Op | None = op
    while at is not None and at.kind == OP and n_dims > 1:
        function = at.function.strip("_")
        channels = spatial_dimension(function, n_dims)
        if channels is not None:
            return channels
        if function not in KEEP_LAYOUT:
            break
        at = next((parent for parent in at.parents if len(parent.shape or ()) == n_dims), None)
    return last
