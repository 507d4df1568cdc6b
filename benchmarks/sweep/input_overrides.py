"""Inputs by hand, for transformers whose forward asks for more than its names and its configuration tell."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from benchmarks.sweep.inputs import GRID, LENGTH, TARGET, Inputs, Shapes

PATCHES = GRID * GRID


def given(name: str, config: Any) -> Iterator[Inputs]:
    """The inputs of this model type, if it has any here."""
    if name in GIVEN:
        torch.manual_seed(1)
        yield GIVEN[name](config)


def _ids(n: int = LENGTH, batch: int = 2) -> Tensor:
    return torch.randint(10, 100, (batch, n))


def _ones(*shape: int) -> Tensor:
    return torch.ones(shape, dtype=torch.long)


def _with_placeholders(token: int, n: int) -> Tensor:
    text = _ids(4)
    return torch.cat([text, torch.full((2, n), token), text], dim=1)


def _patch_width(config: Any) -> int:
    s = Shapes(config, 0)
    patch = s.of("patch_size", default=14, part="vision")
    channels = s.of("in_channels", "in_chans", "num_channels", default=3, part="vision")
    return channels * s.of("temporal_patch_size", default=1, part="vision") * patch * patch


def _flat_patches(config: Any, depth: int = 1) -> Inputs:
    """The patches of one image, and its grid."""
    width = depth * _patch_width(config)
    return {"pixel_values": torch.randn(PATCHES, width), "grid_thw": torch.tensor([[1, GRID, GRID]])}


def _strips(config: Any) -> Inputs:
    """The patches of an image side by side, and their rows and columns."""
    side = config.patch_size
    return {"pixel_values": torch.randn(1, 3, side, PATCHES * side), "target_sizes": torch.tensor([[GRID, GRID]])}


def _music(config: Any) -> Inputs:
    return {"input_ids": _ids(), "decoder_input_ids": _ids(TARGET, batch=2 * config.decoder.num_codebooks)}


def _square_patches(config: Any) -> Inputs:
    side = config.patch_size
    return {"pixel_values": torch.randn(PATCHES, 3, side, side), "grid_thw": torch.tensor([[1, GRID, GRID]])}


def _naflex(config: Any) -> Inputs:
    """Patches of two images of different shape."""
    return {
        "pixel_values": torch.randn(2, PATCHES, _patch_width(config)),
        "pixel_attention_mask": _ones(2, PATCHES),
        "spatial_shapes": torch.tensor([[GRID, GRID], [2, 8]]),
    }


def _pair(config: Any) -> Inputs:
    return {"pixel_values": torch.rand(1, 2, 3, 64, 64)}


def _question(config: Any) -> Inputs:
    """An image and a text with a placeholder for each query."""
    token = getattr(config, "image_token_index", None) or config.video_token_index
    frames = 2 if hasattr(config, "video_token_index") else 1
    ids = _with_placeholders(token, config.num_query_tokens * frames)
    side = config.vision_config.image_size
    pixels = torch.randn(2, 2, 3, side, side) if frames == 2 else torch.randn(2, 3, side, side)
    made: Inputs = {"pixel_values": pixels, "input_ids": ids, "attention_mask": torch.ones_like(ids)}
    if config.model_type.startswith("instruct"):
        made |= {"qformer_input_ids": _ids(5), "qformer_attention_mask": _ones(2, 5)}
    return made


def _kosmos(config: Any) -> Inputs:
    n, side = config.latent_query_num, config.vision_config.image_size
    mask = torch.tensor([[0] * 2 + [1] * n + [0] * 4] * 2)
    return {
        "pixel_values": torch.randn(2, 3, side, side),
        "input_ids": _ids(n + 6),
        "image_embeds_position_mask": mask,
    }


def _codec(config: Any) -> Inputs:
    return {"input_values": torch.randn(2, 1, 3200), "input_features": torch.randn(2, 10, 160)}


def _classes(config: Any) -> Inputs:
    return {
        "pixel_values": torch.randn(1, 3, 64, 64),
        "classes_input_ids": _ids(4, batch=3),
        "classes_attention_mask": _ones(3, 4),
        "tasks_input_ids": _ids(5, batch=1),
        "tasks_attention_mask": _ones(1, 5),
        "classes_structure": torch.tensor([3]),
    }


def _trajectory(config: Any) -> Inputs:
    return {
        "states": torch.randn(2, 5, config.state_dim),
        "actions": torch.randn(2, 5, config.act_dim),
        "rewards": torch.randn(2, 5, 1),
        "returns_to_go": torch.randn(2, 5, 1),
        "timesteps": torch.arange(5).repeat(2, 1),
        "attention_mask": _ones(2, 5),
    }


def _positioned(config: Any) -> Inputs:
    places = torch.stack(torch.meshgrid(torch.arange(GRID), torch.arange(GRID), indexing="xy"), -1).flatten(0, 1)
    return {
        "pixel_values": torch.rand(1, PATCHES, 3 * config.patch_size**2),
        "pixel_position_ids": places[None],
    }


def _text(config: Any) -> Inputs:
    return {"input_ids": _ids(), "attention_mask": _ones(2, LENGTH)}


GIVEN: dict[str, Callable[[Any], Inputs]] = {
    "audioflamingo3_encoder": lambda c: {
        "input_features": torch.randn(2, c.num_mel_bins, 2 * c.max_source_positions),
        "input_features_mask": _ones(2, 2 * c.max_source_positions),
    },
    "blip-2": _question,
    "blip_2_qformer": lambda c: {
        "query_embeds": torch.randn(2, 8, c.hidden_size),
        "encoder_hidden_states": torch.randn(2, LENGTH, c.encoder_hidden_size),
    },
    "clap": lambda c: {
        "input_ids": _ids(),
        "input_features": torch.randn(2, 1, 128, c.audio_config.num_mel_bins),
        "is_longer": torch.zeros(2, 1, dtype=torch.bool),
    },
    "cosmos3_edge_vision": _flat_patches,
    "decision_transformer": _trajectory,
    "depth_pro": lambda c: {"pixel_values": torch.randn(1, 3, 4 * c.patch_size, 4 * c.patch_size)},
    "efficientloftr": _pair,
    "emu3": _text,
    "ernie4_5_vl_moe": _text,
    "fun_asr_nano_encoder": lambda c: {
        "input_features": torch.randn(2, 20, 560),
        "input_features_mask": _ones(2, 20),
    },
    "gemma4_vision": _positioned,
    "glm4v_moe": _text,
    "granite_speech5_ctc": lambda c: {"input_features": torch.randn(2, 40, 320)},
    "granite_speech5_encoder": lambda c: {"input_features": torch.randn(2, 40, 320)},
    "higgs_audio_v2_tokenizer": lambda c: {"input_values": torch.randn(2, 1, 9600)},
    "hunyuan_vl": _text,
    "hunyuan_vl_vision": _flat_patches,
    "idefics": lambda c: {
        "input_ids": _ids(),
        "pixel_values": torch.randn(2, 1, 3, c.vision_config.image_size, c.vision_config.image_size),
        "image_attention_mask": _ones(2, LENGTH, 1),
    },
    "inkling_mm_model": _text,
    "instructblip": _question,
    "instructblipvideo": _question,
    "kimi_k25_vision": _square_patches,
    "kosmos-2": _kosmos,
    "kyutai_speech_to_text": lambda c: {"input_ids": torch.randint(10, 60, (2, LENGTH, c.num_codebooks + 1))},
    "lightglue": _pair,
    "lxmert": lambda c: {
        "input_ids": _ids(),
        "visual_feats": torch.randn(2, 5, c.visual_feat_dim),
        "visual_pos": torch.rand(2, 5, c.visual_pos_dim),
    },
    "minicpm_ocr_vision": _strips,
    "minicpmv4_7_vision": _strips,
    "muse_glimmer_assistant": lambda c: {
        "noise_embeds": torch.randn(2, 4, c.hidden_size),
        "context_hidden_states": torch.randn(2, LENGTH, c.hidden_size * len(c.target_layer_ids)),
    },
    "muse_glimmer_vision": lambda c: _flat_patches(c, depth=2),
    "muse_spark_vision": lambda c: _flat_patches(c, depth=2),
    "musicgen": _music,
    "musicgen_melody": _music,
    "muse_spark_audio": lambda c: {"input_values": torch.randn(2, 1920 * 2)},
    "neucodec": _codec,
    "omdet-turbo": _classes,
    "pe_audio_video_encoder": lambda c: {
        "input_values": torch.randn(2, 1, 3840),
        "pixel_values_videos": torch.randn(2, 4, 3, 64, 64),
    },
    "pi0": lambda c: {"action_embeds": torch.randn(2, 4, c.dit_config.hidden_size), **_text(c)},
    "perceiver": lambda c: {"inputs": torch.randn(2, LENGTH, c.d_model)},
    "qwen2_5_omni_thinker": _text,
    "qwen3_asr_encoder": lambda c: {
        "input_features": torch.randn(2, c.num_mel_bins, 100),
        "input_features_mask": _ones(2, 100),
    },
    "shieldgemma2": _text,
    "siglip2": lambda c: {"input_ids": _ids(), **_naflex(c)},
    "siglip2_vision_model": _naflex,
    "speech-encoder-decoder": lambda c: {"input_values": torch.randn(2, 4000), "decoder_input_ids": _ids(TARGET)},
    "speecht5": lambda c: {
        "input_values": torch.randn(2, LENGTH, c.hidden_size),
        "decoder_input_values": torch.randn(2, TARGET, c.hidden_size),
    },
    "step3p7": _text,
    "superglue": _pair,
    "tvp": lambda c: {"input_ids": _ids(), "pixel_values": torch.randn(1, 4, 3, 64, 64).repeat(2, 1, 1, 1, 1)},
    "vibevoice_acoustic_tokenizer_decoder": lambda c: {"hidden_states": torch.randn(1, 64, 4)},
    "vibevoice_acoustic_tokenizer_encoder": lambda c: {"hidden_states": torch.randn(1, 1, 3200)},
    "voxtral_realtime": lambda c: {"input_ids": _ids(16), "input_features": torch.randn(2, 128, 128)},
    "wav2vec2-bert": lambda c: {"input_features": torch.randn(2, 20, c.feature_projection_input_dim)},
    "xcodec2": _codec,
    "xmod": lambda c: {**_text(c), "lang_ids": torch.zeros(2, dtype=torch.long)},
}
"""Model type → its inputs."""
