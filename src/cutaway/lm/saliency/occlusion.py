"""Saliency by occlusion: how each value changes when one token is taken away, many of these texts as a batch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from cutaway.core.errors import InputError
from cutaway.lm.model.forward_run import Reading
from cutaway.lm.model.parts import Role
from cutaway.lm.saliency.gradients import Scored
from cutaway.lm.saliency.memory import Cost
from cutaway.lm.saliency.targets import Explained


def occlusion(reading: Reading, explained: Explained, cost: Cost, *, baseline: Mapping[Role, Tensor] | None) -> Scored:
    """What each value loses when a token is replaced.

    Args:
        baseline: role → (d,): the embedding that stands in its place; None: nothing looks at the token any more.
    """
    own = reading.embeddings()
    at_once = cost.samples(cost.n_positions, gradients=False)
    with torch.no_grad():
        whole = explained(reading.see().logits)[0].double()
        found = []
        for role, value in own.items():
            for start in range(0, len(value), at_once):
                places = torch.arange(start, min(start + at_once, len(value)), device=value.device)
                if baseline is None:
                    logits = reading.see(inputs=_unseen(reading, role, places), n=len(places)).logits
                else:
                    changed = value.repeat(len(places), 1, 1)
                    changed[torch.arange(len(places), device=value.device), places] = baseline[role].to(changed)
                    others = {r: v.expand(len(places), -1, -1) for r, v in own.items() if r != role}
                    logits = reading.see(embeds={role: changed, **others}).logits
                found.append(whole - explained(logits).double())
    lost = torch.cat(found).T  # (target, position)
    return Scored(lost.abs(), lost, whole)


def _unseen(reading: Reading, role: Role, places: Tensor) -> dict[str, Any]:
    """The inputs with a mask of attention that leaves out one place in each sample."""
    is_double = len(reading.roles) > 1
    name = "decoder_attention_mask" if is_double and role == "decoder" else "attention_mask"
    if name not in reading.accepted:
        raise InputError(
            f"baseline='unseen': {type(reading.model).__name__} takes no {name}, so no token can be hidden from it. "
            "Give baseline='zero', or the id of a token."
        )
    n = len(reading.ids(role))
    mask = torch.ones(len(places), n, dtype=torch.long, device=places.device)
    mask[torch.arange(len(places), device=places.device), places] = 0
    more: dict[str, Any] = {name: mask}
    if reading.kind == "causal" and "position_ids" in reading.accepted:  # else some models count what they see
        more["position_ids"] = torch.arange(n, device=places.device).expand(len(places), -1)
    return {**reading.inputs, **more}
