"""The activations of feed-forward neurons by layer; those of experts at the tokens routed to them."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from cutaway.core.errors import InputError
from cutaway.lm.model.forward_run import ForwardResult, PromptRun
from cutaway.lm.model.parts import Units
from cutaway.results.lm.tokens import Role


def unit_values(run: PromptRun, role: Role | None = None, *, layers: Sequence[int] | None = None) -> list[Tensor]:
    """(position, unit) of each feed-forward network of a stack, in the order of layers.

    Experts come one after another, `expert · width + unit`; units are 0 where a token was not routed to the expert.

    Args:
        layers: which blocks, counted from 0; all by default.
    """
    stack = run.anatomy.stack if role is None else run.anatomy.part(role)
    run.anatomy.units(stack.role)
    chosen = range(len(stack.blocks)) if layers is None else layers
    for layer in chosen:
        if not -len(stack.blocks) <= layer < len(stack.blocks):
            raise InputError(f"layers has {layer}: there are {len(stack.blocks)} blocks, counted from 0.")
    units = [c.units for layer in chosen for c in stack.blocks[layer].contributions if c.units is not None]
    return feed_forward_values(run, stack.role, units)


def feed_forward_values(run: PromptRun, role: Role, units: Sequence[Units]) -> list[Tensor]:
    """(position, unit) of each of these feed-forward networks."""
    sites = [site for each in units for site in (each.site, each.rows, each.ends) if site is not None]
    seen = run.forward(list(dict.fromkeys(sites)))
    return [_by_position(seen, each, len(run.ids(role))) for each in units]


def _by_position(seen: ForwardResult, units: Units, n: int) -> Tensor:
    value = seen.values[units.site]
    if units.n_experts == 1:
        return value.reshape(n, -1)
    if units.rows is None or units.ends is None:
        raise InputError(f"found no record of which tokens went to which expert at {units.site!r}.")
    tokens = seen.values[units.rows].reshape(-1)
    ends = seen.values[units.ends].reshape(-1)
    value = value.reshape(len(tokens), -1)
    # Ends are exclusive: a row belongs to the first expert whose end is greater.
    experts = torch.searchsorted(ends.long(), torch.arange(len(tokens), device=ends.device), right=True)
    by_expert = value.new_zeros(n, units.n_experts, value.shape[-1])
    by_expert[tokens.long(), experts] = value
    return by_expert.reshape(n, -1)
