"""What the rules of `shrinking` cannot know, by model type."""

from __future__ import annotations

from typing import Any

_MROPE = {"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [2, 3, 3]}}
_SERIES = {
    "prediction_length": 8,
    "context_length": 16,
    "lags_sequence": [1, 2, 3],
    "num_time_features": 1,
    "feature_size": 6,
}
_LFM = {"num_hidden_layers": 2, "layer_types": ["conv", "full_attention"]}

OVERRIDES: dict[str, dict[str, Any]] = {
    "autoformer": _SERIES,
    "informer": _SERIES,
    "time_series_transformer": _SERIES,
    "qwen2_vl_text": _MROPE,
    "qwen2_5_vl_text": _MROPE,
    "glm4v_text": _MROPE,
    "glm4v_moe_text": _MROPE,
    "glm_image_text": _MROPE,
    "esm": {"vocab_size": 33, "pad_token_id": 1, "mask_token_id": 32},
    "dots1": {"n_routed_experts": 4, "n_shared_experts": 1, "num_experts_per_tok": 2},
    "hunyuan_v1_dense": {"head_dim": 16},
    "hunyuan_v1_moe": {"head_dim": 16},
    "hunyuan_vl_text": {"head_dim": 16},
    "lfm2_moe": _LFM,
    "ministral": {"head_dim": 16},
    "deepseek_v2": {"topk_group": 1, "n_group": 1, "num_experts_per_tok": 2},
    "mamba2": {"hidden_size": 64, "expand": 2, "num_heads": 8, "head_dim": 16, "n_groups": 2, "state_size": 16},
    "bamba": {"mamba_n_heads": 8, "mamba_d_head": 16, "mamba_d_state": 16},
    "granitemoehybrid": {"mamba_n_heads": 8, "mamba_d_head": 16, "mamba_d_state": 16},
}
