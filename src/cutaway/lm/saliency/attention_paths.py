"""Saliency by attention rollout and attention flow, from the position of each target down to the input tokens."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from cutaway.lm.attention.weights import attention_weights
from cutaway.lm.model.forward_run import PromptRun
from cutaway.lm.model.head import head_logits
from cutaway.lm.saliency.rollout import AttentionStep, attention_steps, flow, rollout
from cutaway.lm.saliency.task import SaliencyTask, TargetScores


def rollout_saliency(task: SaliencyTask) -> TargetScores:
    """The share of each token after mixing attention through all layers."""
    steps, encoder = _attention_steps(task.run)
    return _scores(rollout(steps, encoder)[_target_positions(task.run)])


def flow_saliency(task: SaliencyTask) -> TargetScores:
    """The maximum flow from each token through the graph of attention weights."""
    steps, encoder = _attention_steps(task.run)
    return _scores(flow(steps, _target_positions(task.run), encoder))


def _attention_steps(run: PromptRun) -> tuple[list[AttentionStep], list[AttentionStep] | None]:
    """The attention of the decoder, and of the encoder if there is one."""
    is_encoder_decoder = len(run.roles) > 1
    encoder = attention_steps(_to_numpy(attention_weights(run, "encoder"))) if is_encoder_decoder else None
    cross = _to_numpy(attention_weights(run, "decoder", is_cross=True)) if is_encoder_decoder else None
    return attention_steps(_to_numpy(attention_weights(run, "decoder")), cross), encoder


def _target_positions(run: PromptRun) -> list[int]:
    """The position in the last layer that each target is predicted from.

    A sequence classifier picks one position itself; the gradient of its logits shows which.
    """
    hidden = run.hidden()[-1:].clone().requires_grad_()
    rows: list[int] = run.rows.tolist()
    if run.kind != "classifier" or any(rows):
        return rows
    with torch.enable_grad():
        logits = head_logits(run, hidden)
        # It labels each token: row 0 is really the first token.
        if logits.shape[1] == hidden.shape[1] > 1:
            return rows
        (gradient,) = torch.autograd.grad(logits.square().sum(), hidden)
    return [int(gradient[0].abs().sum(-1).argmax())] * len(rows)


def _scores(shares: Any) -> TargetScores:
    scores = torch.tensor(shares, dtype=torch.float64, device="cpu")  # (target, position)
    return TargetScores(scores, scores, scores.new_full((len(scores),), torch.nan))


def _to_numpy(weights: Tensor) -> Any:
    return weights.detach().double().cpu().numpy()
