"""Which dimension of a value counts its units."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cutaway.graph.nodes import OP

if TYPE_CHECKING:
    from cutaway.graph.op import Op

_CHANNELS_FIRST = ("conv", "max_pool", "avg_pool", "adaptive_", "batch_norm", "instance_norm", "group_norm")
_KEEP_LAYOUT = frozenset(
    """relu relu_ gelu silu silu_ mish elu leaky_relu leaky_relu_ sigmoid tanh hardswish hardtanh relu6 dropout
    add add_ mul mul_ sub div clone contiguous detach to interpolate""".split()
)


def unit_dimension(op: Op) -> int:
    """1 for the results of convolutions, and what is computed from them element by element; else the last.

    The walk up follows first parents, and only as long as the number of dimensions stays the same.
    """
    shape = op.trace.tables.nodes.meta_of(op.node)
    n_dims = len(shape.shape) if shape is not None and shape.shape is not None else 1
    if n_dims < 3:
        return max(n_dims - 1, 0)
    at: Op | None = op
    while at is not None and at.kind == OP:
        if at.function.lstrip("_").startswith(_CHANNELS_FIRST):
            return 1
        if at.function not in _KEEP_LAYOUT:
            break
        parents = at.parents
        at = parents[0] if parents and len(parents[0].shape or ()) == n_dims else None
    return n_dims - 1
