"""Inputs for a transformers model, from the names in its forward and the numbers in its configuration.

Where a name leaves the shape open, several are offered; the first that runs is taken.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

LENGTH, TARGET, GRID = 12, 6, 4
Inputs = dict[str, Any]


def candidates(model: nn.Module, config: Any) -> Iterator[Inputs]:
    """Inputs to try, the fullest first."""
    parameters = inspect.signature(model.forward).parameters
    takes = set(parameters)
    required = {
        name
        for name, p in parameters.items()
        if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
    }
    mains = getattr(model, "main_input_name", "input_ids")
    mains = set(mains) if isinstance(mains, (list, tuple)) else {mains}
    seen: set[str] = set()
    for wanted in (takes & _ALWAYS, takes & _TEXT, required | (mains & takes)):
        names = required | (mains & takes) | wanted
        for variant in range(_VARIANTS):
            made = _made(names, Shapes(config, variant))
            shape = repr({name: getattr(value, "shape", value) for name, value in made.items()})
            if shape not in seen:
                seen.add(shape)
                yield made


def _made(names: set[str], shapes: Shapes) -> Inputs:
    torch.manual_seed(1)
    return {name: MAKERS[name](shapes) for name in sorted(names) if name in MAKERS}


class Shapes:
    """What the configuration says about sizes, looked for in its parts too."""

    def __init__(self, config: Any, variant: int) -> None:
        self.config = config
        self.variant = variant
        self.batch = 2 if variant < 4 else 1

    def of(self, *names: str, default: int, part: str = "") -> int:
        for config in _parts(self.config, part):
            for name in names:
                value = getattr(config, name, None)
                if isinstance(value, (list, tuple)) and value and isinstance(value[0], int):
                    value = value[-1]
                if isinstance(value, int) and not isinstance(value, bool) and value > 0:
                    return value
        return default


def _parts(config: Any, first: str) -> list[Any]:
    found = [config]
    for name, value in vars(config).items():
        if hasattr(value, "model_type"):
            found += _parts(value, first) if first not in name else []
            if first in name and first:
                found = _parts(value, "") + found
            elif not first:
                found += _parts(value, "")
    return found


def _ids(s: Shapes, length: int = LENGTH) -> Tensor:
    return torch.randint(10, 100, (s.batch, length)) % s.of("vocab_size", default=100, part="text")


def _mask(s: Shapes, length: int = LENGTH) -> Tensor:
    mask = torch.ones(s.batch, length, dtype=torch.long)
    if s.variant == 0:
        mask[-1, -1] = 0
    return mask


def _image_size(s: Shapes) -> int:
    return s.of("image_size", "img_size", "input_size", default=64, part="vision")


def _pixels(s: Shapes) -> Tensor:
    channels = s.of("num_channels", "in_channels", "in_chans", default=3, part="vision")
    size = (_image_size(s), 64, 128, 224, _image_size(s), 224)[s.variant]
    return torch.randn(s.batch, channels, size, size)


def _frames(s: Shapes) -> Tensor:
    pixels = _pixels(s)
    frames = s.of("num_frames", "frames_per_clip", default=8)
    return pixels[:, None].repeat(1, min(frames, 16), 1, 1, 1)


def _features(s: Shapes) -> Tensor:
    mel = s.of(
        "num_mel_bins", "feature_size", "n_mels", "input_feat_per_channel", "input_channels", default=80, part="audio"
    )
    if s.variant in (0, 4):
        return torch.randn(s.batch, mel, 2 * s.of("max_source_positions", default=64, part="audio"))
    return torch.randn(s.batch, s.of("max_length", default=128) if s.variant == 1 else 128, mel)


def _wave(s: Shapes) -> Tensor:
    if s.variant in (1, 4):
        return torch.randn(s.batch, s.of("max_length", default=128), s.of("num_mel_bins", default=80))
    if s.variant == 2:
        return torch.randn(s.batch, s.of("audio_channels", default=1), 3840)
    if s.variant == 3:
        return torch.randint(5, 50, (s.batch, LENGTH))
    return torch.randn(s.batch, 4000)


def _boxes(s: Shapes) -> Tensor:
    low = torch.randint(0, 50, (s.batch, LENGTH, 2))
    return torch.cat([low, low + torch.randint(1, 50, (s.batch, LENGTH, 2))], dim=-1)


def _past(s: Shapes) -> Tensor:
    lags = getattr(s.config, "lags_sequence", None)
    length = s.of("context_length", default=32) + (max(lags) if lags else 0)
    width = s.of("num_input_channels", "input_size", default=1)
    return (
        torch.randn(s.batch, length, width).squeeze(-1)
        if width == 1 and s.variant
        else torch.randn(s.batch, length, width)
    )


def _patches(s: Shapes) -> Tensor:
    """Flattened patches of one image, as the Qwen towers take them."""
    patch = s.of("patch_size", default=14, part="vision")
    channels = s.of("in_channels", "in_chans", "num_channels", default=3, part="vision")
    depth = s.of("temporal_patch_size", default=1, part="vision")
    return torch.randn(GRID * GRID, channels * depth * patch * patch)


def _hidden(s: Shapes) -> Tensor:
    return _patches(s) if s.variant < 4 else torch.randn(s.batch, LENGTH, s.of("hidden_size", "d_model", default=64))


def _grid(s: Shapes) -> Tensor:
    return torch.tensor([[1, GRID, GRID]])


MAKERS: dict[str, Callable[[Shapes], Any]] = {
    "input_ids": _ids,
    "attention_mask": _mask,
    "token_type_ids": lambda s: torch.zeros(s.batch, LENGTH, dtype=torch.long),
    "decoder_input_ids": lambda s: _ids(s, TARGET),
    "decoder_attention_mask": lambda s: _mask(s, TARGET),
    "encoder_hidden_states": lambda s: torch.randn(
        s.batch, LENGTH, s.of("encoder_hidden_size", "hidden_size", "d_model", default=64)
    ),
    "bbox": _boxes,
    "pixel_values": lambda s: (
        _frames(s) if s.of("num_frames", "tubelet_size", default=0) and s.variant < 2 else _pixels(s)
    ),
    "pixel_values_videos": _frames,
    "input_features": _features,
    "input_values": _wave,
    "hidden_states": _hidden,
    "inputs_embeds": lambda s: torch.randn(s.batch, LENGTH, s.of("hidden_size", "d_model", default=64)),
    "grid_thw": _grid,
    "past_values": _past,
    "past_time_features": lambda s: torch.randn(s.batch, _past(s).shape[1], s.of("num_time_features", default=1)),
    "past_observed_mask": lambda s: torch.ones_like(_past(s)),
    "query_embeds": lambda s: torch.randn(s.batch, 8, s.of("hidden_size", default=64)),
    "audio_mel": lambda s: torch.randn(s.batch, 64, s.of("input_feat_size", "num_mel_bins", default=128)),
    "audio_mel_mask": lambda s: torch.zeros(s.batch, 64, dtype=torch.bool),
    "input_features_mask": lambda s: torch.ones(
        s.batch, _features(s).shape[-1 if s.variant in (0, 4) else 1], dtype=torch.long
    ),
    "latents": lambda s: torch.randn(s.batch, s.of("hidden_size", default=64), LENGTH),
    "inputs": _ids,
    "qformer_input_ids": _ids,
    "prompt_pixel_values": _pixels,
    "prompt_masks": _pixels,
    "pixel_attention_mask": lambda s: torch.ones(s.batch, _image_size(s), _image_size(s), dtype=torch.long),
    "spatial_shapes": lambda s: torch.tensor([[GRID, GRID]] * s.batch),
    "flattened_patches": lambda s: torch.rand(s.batch, 16, 2 + 3 * s.of("patch_size", default=16) ** 2),
    "task_inputs": lambda s: torch.randint(1, 50, (s.batch, s.of("task_seq_len", default=77))),
    "states": lambda s: torch.randn(s.batch, 5, s.of("state_dim", default=17)),
    "actions": lambda s: torch.randn(s.batch, 5, s.of("act_dim", default=4)),
    "rewards": lambda s: torch.randn(s.batch, 5, 1),
    "returns_to_go": lambda s: torch.randn(s.batch, 5, 1),
    "timesteps": lambda s: torch.arange(5).repeat(s.batch, 1),
    "past_values_padding": lambda s: torch.zeros(s.batch, _past(s).shape[1], dtype=torch.long),
    "freq": lambda s: torch.zeros(s.batch, 1, dtype=torch.long),
    "input_points": lambda s: torch.rand(s.batch, 1, 1, 2) * 32,
    "merge_sizes": lambda s: torch.tensor([1]),
}
"""Argument → a value for it."""

_TEXT = {"input_ids", "attention_mask", "decoder_input_ids", "token_type_ids", "bbox"}
_ALWAYS = _TEXT | {
    "pixel_values",
    "input_features",
    "input_values",
    "input_points",
    "states",
    "actions",
    "rewards",
    "returns_to_go",
    "timesteps",
}
_VARIANTS = 6
