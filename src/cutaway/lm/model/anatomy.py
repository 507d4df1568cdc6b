"""Finds the parts of a language model from one traced run: embedding, blocks, contributions, final norm and head.

There is no table of model names. A block is a module that repeats, a contribution is added to the residual stream,
attention mixes positions with a softmax, and a feed-forward network mixes no positions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from cutaway.capture import sessions
from cutaway.capture.api import watch
from cutaway.capture.interventions.token_positions import PROBE_PROMPT_LENGTH, token_window
from cutaway.capture.model.eval_mode import device_of, eval_mode
from cutaway.capture.model.tree import structure_of
from cutaway.core.errors import InputError
from cutaway.lm.model.block_parts import find_joins, nearest_linear
from cutaway.lm.model.blocks import Chain, find_chains
from cutaway.lm.model.language_model import eager_module
from cutaway.lm.model.parts import Anatomy, Block, Stack, StreamPoint
from cutaway.lm.model.wiring import Wiring, cheaper_site, site_in, site_out
from cutaway.results.lm.tokens import Role

_cache: WeakKeyDictionary[nn.Module, dict[tuple[object, ...], Anatomy]] = WeakKeyDictionary()
_patterns: WeakKeyDictionary[nn.Module, str] = WeakKeyDictionary()
"""Model → the pattern of its blocks that the user gave."""
AUTO = "auto"


def anatomy(model: nn.Module, inputs: Mapping[str, Any] | None = None, *, blocks: str | None = None) -> Anatomy:
    """The parts of a model, found by tracing it; cached per model.

    Args:
        model: a loaded language model.
        inputs: what the model is called with; a few tokens are enough. Example tokens by default.
        blocks: a pattern of the addresses of the blocks, `"decoder.layers.*"`, if they are not found, or to choose
            others. It applies to all later analyses of this model; `"auto"` resets it.
    """
    core: nn.Module = eager_module(model) if inputs is None else getattr(model, "_orig_mod", model)
    if blocks == AUTO:
        _patterns.pop(core, None)
    pattern = _patterns.get(core) if blocks in (None, AUTO) else blocks
    inputs = _example_inputs(core) if inputs is None else inputs
    how = getattr(getattr(core, "config", None), "_attn_implementation", None)
    experts = getattr(getattr(core, "config", None), "_experts_implementation", None)
    # Eager and fused attention, and experts one by one or together, run different ops.
    key = (structure_of(core), pattern, how, experts, *sorted(inputs))
    known = _cache.setdefault(core, {})
    if key in known:
        return _remember_pattern(core, pattern, known[key])
    traced = _trace_anatomy(core, shorten(inputs), pattern)
    if not sessions.edits:  # an edited model may have other parts, so it is not cached
        known[key] = traced
    return _remember_pattern(core, pattern, traced)


def _remember_pattern(model: nn.Module, pattern: str | None, traced: Anatomy) -> Anatomy:
    """The anatomy; stores the pattern, now that it has worked."""
    if pattern is not None:
        _patterns[model] = pattern
    return traced


def _example_inputs(model: nn.Module) -> dict[str, Any]:
    ids = torch.arange(1, 9, device=device_of(model))[None]
    config = getattr(model, "config", None)
    inputs: dict[str, Any] = {"input_ids": ids % int(getattr(config, "vocab_size", None) or 9)}
    if getattr(config, "is_encoder_decoder", False):
        inputs["decoder_input_ids"] = inputs["input_ids"].clone()
    fixed = {"use_cache": False, "return_dict": True}
    return {**inputs, **{name: value for name, value in fixed.items() if hasattr(config, name)}}


def shorten(inputs: Mapping[str, Any], most: int = 8) -> dict[str, Any]:
    """The same inputs cut to a few tokens: every 2-d tensor, ids or mask, alike.

    The tokens are copied, because a slice would be traced as an op on the longer tensor.
    """
    return {
        name: value[:1, :most].clone() if isinstance(value, Tensor) and value.dim() == 2 else value
        for name, value in inputs.items()
    }


def _trace_anatomy(model: nn.Module, inputs: Mapping[str, Any], pattern: str | None) -> Anatomy:
    # With autograd on: without it, torch modules take fused fast paths that show no ops.
    with (
        token_window(PROBE_PROMPT_LENGTH),
        eval_mode(model, gradients=True),
        torch.enable_grad(),
        watch(model, save=None) as trace,
    ):
        model(**inputs)
    wiring = Wiring(trace, model)
    name = trace.model_name
    chains = find_chains(wiring, pattern)
    if not chains:
        raise InputError(
            f"found no blocks in {name}: no modules run one after another on the residual stream. "
            "Name them once: cutaway.lm.anatomy(model, blocks='decoder.layers.*')."
        )
    roles: list[Role] = ["encoder", "decoder"] if len(chains) > 1 else ["decoder"]
    stacks = [
        _stack(model, wiring, chain, role) for chain, role in zip((chains[0], *chains[1:][-1:]), roles, strict=True)
    ]
    logits = wiring.logits()
    # A soft cap or a scale may follow the head, so the logits themselves need not be its output.
    head = nearest_linear(wiring, logits, ends=set(chains[-1].outputs))
    missing = {}
    parts = [c for stack in stacks for block in stack.blocks for c in block.contributions]
    if not any(c.kind == "attention" for c in parts):
        missing["attention"] = "no softmax over positions in its blocks"
    if any(c.kind == "mlp" and c.units is None for c in parts):
        missing["mlp"] = (
            "its experts run one by one; model.set_experts_implementation('grouped_mm') runs them together"
            if hasattr(model, "set_experts_implementation")
            else "its experts run one by one; transformers 5 can run them together"
        )
    elif not any(c.units for c in parts):
        missing["mlp"] = "no part of its blocks works on each position separately"
    if head is None:
        missing["head"] = "no linear map between the last block and the output"
    return Anatomy(name, tuple(stacks), wiring.address_of(logits if head is None else head), missing)


def _stack(model: nn.Module, wiring: Wiring, chain: Chain, role: Role) -> Stack:
    blocks = []
    for index, call in enumerate(chain.calls):
        start, end = chain.inputs[index], chain.outputs[index]
        joins = find_joins(wiring, call, start, end)
        contributions = tuple(each for join in joins.joins for each in join.contributions)
        added, n = [], 0
        for join in joins.joins:
            n += len(join.contributions)
            is_end = wiring.same_numbers(end) == join.node
            site = site_out(wiring, end, call=call) if is_end else site_out(wiring, join.node, within=call)
            added.append(StreamPoint(n, site, site if is_end else cheaper_site(wiring, join.node, call) or site))
        blocks.append(
            Block(
                index=index,
                address=wiring.address(call),
                pass_=wiring.rows[call].pass_,
                input=site_in(wiring, call, start),
                output=site_out(wiring, end, call=call),
                out_path=chain.out_path,
                contributions=contributions,
                added=tuple(added),
                is_residual=joins.is_residual,
            )
        )
    shape = wiring.shape(chain.outputs[-1]) or (0,)
    norm = wiring.norm_after(chain.outputs[-1])
    return Stack(role, _embedding_site(model, wiring, chain.inputs[0]), tuple(blocks), shape[-1], norm)


def _embedding_site(model: Any, wiring: Wiring, stream: int) -> str:
    """The site of the token embeddings that enter a stream: the output of their module."""
    before = wiring.ancestors(stream)
    looked_up = [node for node in sorted(before | {stream}) if wiring.name(node) == "embedding"]
    ids = [node for node in looked_up if wiring.is_plain_input(wiring.parents(node)[1])]
    embedding = model.get_input_embeddings() if hasattr(model, "get_input_embeddings") else None
    names = wiring.addresses_of_module(embedding)
    lookups = ids or [node for node in looked_up if wiring.address_of(node) in names]
    if not lookups:
        raise InputError(
            f"found no embedding in {wiring.trace.model_name}: its tokens are not looked up in an nn.Embedding."
        )
    call = wiring.trace.tables.nodes.call[lookups[0]]
    outputs = [node for _, node in wiring.rows[call].outputs]  # Gemma 3 scales inside the module
    return site_out(
        wiring, outputs[0] if len(outputs) == 1 and outputs[0] in before | {stream} else lookups[0], call=call
    )
