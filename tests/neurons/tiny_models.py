"""Tiny models of several families, with inputs and the logits they give."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn


def cnn() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(2, 5, 3), nn.BatchNorm2d(5), nn.ReLU(inplace=True), nn.Conv2d(5, 4, 3), nn.Tanh(), nn.Flatten(),
        nn.Linear(4 * 9, 3),
    ).eval()  # fmt: skip


def bert() -> nn.Module:
    from transformers import BertConfig, BertForSequenceClassification

    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=50, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=24, num_labels=3
    )
    return BertForSequenceClassification(config).eval()


def gpt2() -> nn.Module:
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    return GPT2LMHeadModel(GPT2Config(vocab_size=50, n_embd=16, n_layer=2, n_head=2, n_positions=32)).eval()


def tokens(n: int = 6, length: int = 7) -> dict[str, Tensor]:
    torch.manual_seed(1)
    mask = torch.ones(n, length, dtype=torch.long)
    mask[0, 4:] = 0
    return {"input_ids": torch.randint(0, 50, (n, length)), "attention_mask": mask}


def images(n: int = 6) -> Tensor:
    torch.manual_seed(1)
    return torch.randn(n, 2, 7, 7)


def logits(model: nn.Module, batch: Any) -> Tensor:
    """(sample, class)."""
    output = model(**batch) if isinstance(batch, dict) else model(batch)
    found: Tensor = getattr(output, "logits", output)
    return found[:, -1] if found.dim() == 3 else found


def state(model: nn.Module) -> dict[str, Any]:
    """All that may not change: values, gradients, flags, modes, hooks."""
    return {
        "values": copy.deepcopy(model.state_dict()),
        "grads": [None if each.grad is None else each.grad.clone() for each in model.parameters()],
        "flags": [each.requires_grad for each in model.parameters()],
        "modes": [each.training for each in model.modules()],
        "hooks": [(len(each._forward_hooks), len(each._forward_pre_hooks)) for each in model.modules()],
    }


def assert_same(a: dict[str, Any], b: dict[str, Any]) -> None:
    assert all(torch.equal(value, b["values"][name]) for name, value in a["values"].items())
    for one, other in zip(a["grads"], b["grads"], strict=True):
        assert (one is None and other is None) or torch.equal(one, other)
    assert all(a[name] == b[name] for name in ("flags", "modes", "hooks"))


FAMILIES: dict[str, tuple[Callable[[], nn.Module], Callable[[], Any], str]] = {
    "cnn": (cnn, images, "0"),
    "bert": (bert, tokens, "bert.encoder.layer.0.intermediate"),
    "gpt2": (gpt2, tokens, "transformer.h.0.mlp.c_fc"),
}
