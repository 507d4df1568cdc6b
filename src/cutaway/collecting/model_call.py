"""Calls a transformers model with a padded batch of tokens."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from cutaway.capture.model.tree import modules_of
from cutaway.collecting.site_values import SiteValues
from cutaway.collecting.tokenization import EncodedItem
from cutaway.core.errors import InputError
from cutaway.core.formatting import listed

Pair = tuple[EncodedItem, EncodedItem | None]
"""A source, and its target if there is one."""


@dataclass(frozen=True, slots=True)
class ModelCall:
    """The module to call, and the inputs it accepts."""

    module: nn.Module
    """The whole model, or only its encoder if all sites are in it."""
    accepted: frozenset[str]
    """The parameter names of its `forward`."""
    pad: int
    start: int
    """The token id that a target starts with; -1 without targets."""
    device: torch.device

    @staticmethod
    def of(values_at: SiteValues, tokenizer: Any, device: torch.device, *, has_targets: bool) -> ModelCall:
        model = values_at.model
        config = getattr(model, "config", None)
        is_encoder_decoder = bool(getattr(config, "is_encoder_decoder", False))
        module, start = model, -1
        if has_targets and not is_encoder_decoder:
            raise InputError(f"targets= is for encoder–decoder models, but {type(model).__name__} is not one.")
        if is_encoder_decoder:
            module, start = _module_to_run(values_at, config, has_targets=has_targets)
        pads = (getattr(tokenizer, "pad_token_id", None), getattr(config, "pad_token_id", None))
        # Any valid id does: padding is masked, and without a mask there is none.
        pad = next((number for number in pads if isinstance(number, int) and number >= 0), 0)
        return ModelCall(module, _accepted(module), pad, start, device)

    @property
    def takes_mask(self) -> bool:
        """Whether it accepts an attention mask; else only items of equal length can share a batch."""
        return "attention_mask" in self.accepted

    def inputs(self, items: Sequence[Pair]) -> dict[str, Any]:
        """The inputs of a batch, padded at the end."""
        sources = [source for source, _ in items]
        tensors = {"input_ids": self._padded([source.ids for source in sources], self.pad)}
        tensors["attention_mask"] = self._padded([[1] * len(source.ids) for source in sources], 0)
        for name in sources[0].extra_inputs:
            tensors[name] = self._padded([source.extra_inputs[name] for source in sources], 0)
        if self.start >= 0:
            targets = [target.ids for _, target in items if target is not None]
            tensors["decoder_input_ids"] = self._padded(targets, self.pad)
            tensors["decoder_attention_mask"] = self._padded([[1] * len(ids) for ids in targets], 0)
        inputs: dict[str, Any] = {name: tensor for name, tensor in tensors.items() if name in self.accepted}
        if not inputs:  # a plain module that takes ids as its only argument
            return {"": tensors["input_ids"]}
        if "use_cache" in self.accepted:
            # Nothing is generated, so a KV cache would only take memory.
            inputs["use_cache"] = False
        return inputs

    def run(self, inputs: dict[str, Any]) -> Any:
        return self.module(inputs[""]) if "" in inputs else self.module(**inputs)

    def _padded(self, rows: Sequence[Sequence[int]], pad: int) -> Tensor:
        # At the end, whatever the tokenizer does: positions stay those of the unpadded sentence.
        width = max(map(len, rows))
        return torch.tensor([[*row, *[pad] * (width - len(row))] for row in rows], device=self.device)


def shift_target(target: EncodedItem, start: int) -> EncodedItem:
    """A target as decoder input: the start token in front, without trailing special tokens."""
    # Teacher forcing: the decoder reads the target shifted right, and predicts </s> rather than reading it.
    n = len(target.ids)
    while n and target.is_special[n - 1]:
        n -= 1
    return EncodedItem(
        [start, *target.ids[:n]],
        {},
        [True, *target.is_special[:n]],
        target.word,
        [at + 1 for at in target.first],
        [at + 1 for at in target.last],
        target.texts,
        target.problems,
    )


def _module_to_run(values_at: SiteValues, config: Any, *, has_targets: bool) -> tuple[nn.Module, int]:
    """The encoder alone if all sites are in it; else the whole model, which then needs targets."""
    model: Any = values_at.model
    encoder = model.get_encoder() if hasattr(model, "get_encoder") else None
    encoder_ids = {id(module) for module in modules_of(encoder)}
    decoder = model.get_decoder() if hasattr(model, "get_decoder") else None
    # T5 shares its embeddings between encoder and decoder: their sites run in both.
    shared = encoder_ids & {id(module) for module in modules_of(decoder)}
    requested = {address: id(values_at.named.modules[address]) for address in values_at.addresses()}
    outside = [address for address, key in requested.items() if key not in encoder_ids]
    inside = [address for address, key in requested.items() if key in encoder_ids - shared]
    if not has_targets:
        if encoder is None or outside:
            some = listed(map(repr, outside), 3) or repr(".")
            raise InputError(
                f"{type(model).__name__} has an encoder and a decoder, and {some} is not in the encoder: pass the "
                "decoder texts as targets=; rows are then their words."
            )
        return encoder, -1
    if inside:
        raise InputError(
            f"{inside[0]!r} is in the encoder, but with targets= rows are words of the targets: collect the encoder in "
            "a separate call without targets=."
        )
    start = getattr(config, "decoder_start_token_id", None)
    start = getattr(config, "bos_token_id", None) if start is None else start
    if start is None:
        raise InputError("the config of this model has no decoder_start_token_id: set it.")
    return model, int(start)


def _accepted(module: nn.Module) -> frozenset[str]:
    try:
        return frozenset(inspect.signature(module.forward).parameters)
    except (TypeError, ValueError):
        return frozenset()
