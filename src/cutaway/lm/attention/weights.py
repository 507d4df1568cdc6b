"""Attention weights as the model uses them, also where a fused kernel never materializes them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from cutaway.capture.interventions.edit import edit
from cutaway.core.errors import InputError
from cutaway.lm.model.forward_run import PromptRun
from cutaway.lm.model.parts import Heads
from cutaway.results.lm.tokens import Role


def attention_weights(
    run: PromptRun,
    role: Role | None = None,
    *,
    is_cross: bool = False,
    layers: Sequence[int] | None = None,
    rows: Sequence[int] | None = None,
    dtype: torch.dtype | None = None,
) -> Tensor:
    """(layer, head, query, key): each row sums to 1.

    Args:
        role: the stack, encoder or decoder; by default the one that leads to the logits.
        is_cross: cross-attention to the encoder, instead of self-attention.
        layers: which of the layers with such attention, counted from 0; all by default.
        rows: which queries, counted from 0; all by default.
        dtype: how the weights are stored; the dtype of the model by default.
    """
    heads = attention_heads(run, role, is_cross=is_cross)
    chosen = [heads[layer] for layer in (range(len(heads)) if layers is None else layers)]
    n_keys = len(run.ids("encoder" if is_cross else _role(run, role)))
    weights_by_op: dict[str, Tensor] = {}

    def note(site: str, weights: Tensor) -> None:
        where = weights.device if dtype is None else "cpu"
        # GPT-OSS appends a column for its attention sink, which belongs to no token.
        weights_by_op[site] = weights[..., :n_keys].detach().to(where, dtype, copy=True)

    asked = None if rows is None else torch.tensor(list(rows), device=run.device)
    # The arguments of a fused kernel are at no site: a replacement function records them and calls the kernel.
    fused = {each.op: _recording_attention(each, note, asked) for each in chosen if each.is_fused}
    plain = {each.op: each for each in chosen if not each.is_fused}

    def see(site: str, value: Tensor) -> None:
        weights = value.reshape(-1, plain[site].n_heads, *value.shape[-2:])[0]  # some models merge samples and heads
        note(site, weights if asked is None else weights[:, asked])

    with _without_fastpath(), edit(run.model, fused) if fused else nullcontext(), run.observe(list(plain), see):
        run.forward()
    return torch.stack([weights_by_op[each.op] for each in chosen])


def attention_heads(run: PromptRun, role: Role | None = None, *, is_cross: bool = False) -> list[Heads]:
    """The self- or cross-attention layers of a stack, in order; raises if there are none."""
    by_block = run.anatomy.heads(_role(run, role))
    matching = [heads for block in by_block for heads in block if heads.is_cross == is_cross]
    if not matching:
        to = "to an encoder" if is_cross else "to itself"
        raise InputError(f"{type(run.model).__name__} has no attention {to} in this stack.")
    return matching


@contextmanager
def _without_fastpath() -> Iterator[None]:
    """Context manager: turns off the fast path of `nn.MultiheadAttention`, which runs without visible ops."""
    was = torch.backends.mha.get_fastpath_enabled()
    try:
        torch.backends.mha.set_fastpath_enabled(False)
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(was)


def _role(run: PromptRun, role: Role | None) -> Role:
    return run.anatomy.stack.role if role is None else run.anatomy.part(role).role


def _recording_attention(heads: Heads, note: Callable[[str, Tensor], None], rows: Tensor | None) -> Any:
    """A replacement for the fused attention op that computes its weights from its arguments, and calls the op."""

    def attend(query: Tensor, key: Tensor, value: Tensor, *more: Any, **named: Any) -> Any:
        weights = _weights(query, key, rows, *more, **named)
        note(heads.op, weights[0] if weights.dim() == 4 else weights)
        return F.scaled_dot_product_attention(query, key, value, *more, **named)

    return edit.swap(attend)


def _weights(
    query: Tensor,
    key: Tensor,
    rows: Tensor | None,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """(…, head, row, key): the weights inside `scaled_dot_product_attention`, at some rows or all."""
    n = query.shape[-2]
    at = torch.arange(n, device=query.device) if rows is None else rows
    # Grouped-query attention: several query heads share one key head.
    if key.shape[-3] != query.shape[-3]:
        key = key.repeat_interleave(query.shape[-3] // key.shape[-3], -3)
    scores = query[..., at, :] @ key.mT * (query.shape[-1] ** -0.5 if scale is None else scale)
    if is_causal:
        scores = scores.masked_fill(torch.arange(key.shape[-2], device=key.device) > at[:, None], -torch.inf)
    if attn_mask is not None:
        mask = attn_mask[..., at, :] if attn_mask.shape[-2] == n else attn_mask  # or one row for all queries
        scores = scores.masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else scores + mask
    return scores.softmax(-1)
