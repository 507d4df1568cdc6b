"""Weights of attention, as the model computes with them, also where a fused kernel never writes them down."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from cutaway.core.errors import InputError
from cutaway.language.parts import Heads, Role
from cutaway.language.running import Reading


def attention_weights(reading: Reading, role: Role | None = None, *, is_cross: bool = False) -> Tensor:
    """(layer, head, query, key): each row sums to 1.

    Args:
        role: of which stack; the one that leads to the logits if not given.
        is_cross: attention to what the encoder gave, and not to the stack itself.
    """
    stack = reading.anatomy.stack if role is None else reading.anatomy.part(role)
    wanted = [heads for block in reading.anatomy.heads(stack.role) for heads in block if heads.is_cross == is_cross]
    if not wanted:
        raise InputError(f"{type(reading.model).__name__} has no attention {'to an encoder' if is_cross else 'to itself'}.")
    if not wanted[0].is_fused:
        seen = reading.see([heads.op for heads in wanted])
        return torch.stack([_by_head(seen.values[heads.op], heads) for heads in wanted])
    fused = [h.op for each in reading.anatomy.stacks for block in reading.anatomy.heads(each.role) for h in block if h.is_fused]
    with reading.still(), _Fused([fused.index(heads.op) for heads in wanted]) as found:
        reading.call()
    if found.n != len(fused):
        raise InputError(f"{type(reading.model).__name__} ran {found.n} attentions where {len(fused)} were found.")
    return torch.stack(found.weights)


class _Fused(TorchFunctionMode):
    """Notes the weights of some calls of the fused kernel, by their number."""

    def __init__(self, wanted: list[int]) -> None:
        super().__init__()
        self.wanted, self.n = frozenset(wanted), 0
        self.weights: list[Tensor] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is F.scaled_dot_product_attention:
            if self.n in self.wanted:
                self.weights.append(_weights(*args, **(kwargs or {}))[0])
            self.n += 1
        return func(*args, **(kwargs or {}))


def _weights(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """What `scaled_dot_product_attention` weighs values by."""
    if key.shape[-3] != query.shape[-3]:
        key = key.repeat_interleave(query.shape[-3] // key.shape[-3], -3)
    scores = query @ key.mT * (query.shape[-1] ** -0.5 if scale is None else scale)
    if is_causal:
        scores = scores.masked_fill(~torch.ones_like(scores, dtype=torch.bool).tril(), -torch.inf)
    if attn_mask is not None:
        is_bool = attn_mask.dtype == torch.bool
        scores = scores.masked_fill(~attn_mask, -torch.inf) if is_bool else scores + attn_mask
    return scores.softmax(-1)


def _by_head(value: Tensor, heads: Heads) -> Tensor:
    """(head, query, key), where a model has put samples and heads into one dimension or not."""
    return value.reshape(heads.n_heads, *value.shape[-2:])
