"""Saliency by occlusion: how each target changes when one token is replaced or masked, in batches."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from cutaway.core.errors import InputError
from cutaway.lm.model.forward_run import PromptRun
from cutaway.lm.saliency.baselines import UNSEEN, ZERO, baseline_embeddings
from cutaway.lm.saliency.task import SaliencyTask, TargetScores
from cutaway.results.lm.tokens import Role


def occlusion(task: SaliencyTask, *, baseline: Any = ZERO) -> TargetScores:
    """How much the value of each target drops when a token is replaced by the baseline, or masked ("unseen")."""
    run, objective, cost = task.run, task.objective, task.memory_cost()
    is_masked = isinstance(baseline, str) and baseline == UNSEEN
    vectors = {} if is_masked else baseline_embeddings(run, task.tokenizer, baseline)  # role → (d,)
    embeddings = run.embeddings()
    at_once = cost.samples(cost.n_positions, gradients=False)
    with torch.no_grad():
        original = objective(run.forward().logits)[0].double()
        drops = []
        for role, value in embeddings.items():
            for start in range(0, len(value), at_once):
                places = torch.arange(start, min(start + at_once, len(value)), device=value.device)
                if is_masked:
                    logits = run.forward(inputs=_masked_inputs(run, role, places), n=len(places)).logits
                else:
                    changed = value.repeat(len(places), 1, 1)
                    changed[torch.arange(len(places), device=value.device), places] = vectors[role].to(changed)
                    # The other stack must run as the same batch.
                    others = {r: v.expand(len(places), -1, -1) for r, v in embeddings.items() if r != role}
                    logits = run.forward(embeds={role: changed, **others}).logits
                drops.append(original - objective(logits).double())
    signed = torch.cat(drops).T  # (target, position)
    return TargetScores(signed.abs(), signed, original)


def _masked_inputs(run: PromptRun, role: Role, places: Tensor) -> dict[str, Any]:
    """The inputs with an attention mask that hides one position in each sample."""
    is_encoder_decoder = len(run.roles) > 1
    name = "decoder_attention_mask" if is_encoder_decoder and role == "decoder" else "attention_mask"
    if name not in run.accepted:
        raise InputError(
            f"baseline='unseen': {type(run.model).__name__} has no input {name}, so tokens cannot be masked. "
            "Give baseline='zero' or a token id."
        )
    n = len(run.ids(role))
    mask = torch.ones(len(places), n, dtype=torch.long, device=places.device)
    mask[torch.arange(len(places), device=places.device), places] = 0
    more: dict[str, Any] = {name: mask}
    if run.kind == "causal" and "position_ids" in run.accepted:  # else some models count positions by the mask
        more["position_ids"] = torch.arange(n, device=places.device).expand(len(places), -1)
    return {**run.inputs, **more}
